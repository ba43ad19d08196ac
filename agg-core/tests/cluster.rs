//! Real workers and a real aggregator together: every operation ends, with the same bits, whatever the network does.

mod common;

use agg_core::{Counter, Failure, MemberSet, OpKind, Operation};
use common::*;

fn sum_i32(elements: usize) -> Operation {
    Operation {
        kind: OpKind::SUM_I32,
        elements: elements as u64,
    }
}

fn sum_f32(elements: usize) -> Operation {
    Operation {
        kind: OpKind::SUM_F32,
        elements: elements as u64,
    }
}

fn ints(values: &Option<Values>) -> &[i32] {
    match values {
        Some(Values::I32(values)) => values,
        _ => panic!("no integers"),
    }
}

fn bits(values: &Option<Values>) -> Vec<u32> {
    match values {
        Some(Values::F32(values)) => values.iter().map(|value| value.to_bits()).collect(),
        _ => panic!("no floats"),
    }
}

fn check_i32(cluster: &mut Cluster, elements: usize, salt: u64, interfere: impl FnMut(&mut Cluster)) {
    let members = cluster.workers.len();
    let mut values: Vec<_> = (0..members)
        .map(|m| Some(Values::I32(numbers(m, elements, salt))))
        .collect();
    let mut sum = vec![0_i32; elements];
    for member in 0..members {
        for (sum, value) in sum.iter_mut().zip(numbers(member, elements, salt)) {
            *sum = sum.wrapping_add(value);
        }
    }
    cluster.run(sum_i32(elements), &mut values, interfere).unwrap();
    for values in &values {
        assert_eq!(ints(values), sum);
    }
}

fn run_f32(cluster: &mut Cluster, elements: usize, salt: u64) -> Vec<u32> {
    let members = cluster.workers.len();
    let mut values: Vec<_> = (0..members)
        .map(|m| Some(Values::F32(floats(m, elements, salt))))
        .collect();
    cluster.run(sum_f32(elements), &mut values, |_| {}).unwrap();
    let first = bits(&values[0]);
    assert!(values.iter().all(|values| bits(values) == first));
    first
}

#[test]
fn sums_of_integers_are_exact_for_every_size_and_window() {
    for window in [1, 2, 4, 16] {
        let mut cluster = Cluster::new(3, window, 0, Weather::FAIR, 1);
        for (salt, elements) in [1, 15, 16, 17, 16 * 4, 16 * 9 + 5, 1000].into_iter().enumerate() {
            check_i32(&mut cluster, elements, salt as u64, |_| {});
        }
        assert_eq!(
            cluster
                .workers
                .iter()
                .map(|worker| worker.stats().resent())
                .sum::<u64>(),
            0
        );
    }
}

#[test]
fn sums_survive_loss_duplication_and_reordering() {
    for seed in 0..60 {
        let members = 1 + seed as usize % 5;
        let mut cluster = Cluster::new(members, 1 << (seed % 5), 0, Weather::FOUL, seed);
        for salt in 0..4 {
            check_i32(&mut cluster, 1 + (seed * 37 % 700) as usize, salt, |_| {});
        }
    }
}

#[test]
fn the_bits_of_a_float_sum_do_not_depend_on_the_network() {
    for elements in [1, 16, 40, 333, 2000] {
        let calm = run_f32(&mut Cluster::new(4, 8, 0, Weather::FAIR, 0), elements, 3);
        for seed in 0..10 {
            assert_eq!(
                run_f32(&mut Cluster::new(4, 8, 0, Weather::FOUL, seed), elements, 3),
                calm
            );
        }
    }
}

#[test]
fn float_sums_keep_the_stated_bound() {
    for members in [1, 2, 3, 7] {
        let elements = 500;
        let got = run_f32(&mut Cluster::new(members, 4, 0, Weather::FAIR, 1), elements, 9);
        let inputs: Vec<_> = (0..members).map(|member| floats(member, elements, 9)).collect();
        for block in 0..elements.div_ceil(LANES) {
            let range = block * LANES..elements.min((block + 1) * LANES);
            let largest = inputs
                .iter()
                .flat_map(|v| &v[range.clone()])
                .fold(0_f32, |a, b| a.max(b.abs()));
            let exponent = largest.log2().floor() as i32 + 1;
            for index in range {
                let sum: f64 = inputs.iter().map(|values| f64::from(values[index])).sum();
                let headroom = (members as f64).log2().ceil() as i32;
                let bound =
                    members as f64 * 2_f64.powi(exponent - 31 + headroom) + 2_f64.powi(-24) * sum.abs();
                let error = (f64::from(f32::from_bits(got[index])) - sum).abs();
                assert!(error <= bound, "element {index}: error {error}, bound {bound}");
            }
        }
    }
}

#[test]
fn num_6_nan_and_infinity_reach_everybody() {
    let mut cluster = Cluster::new(3, 4, 0, Weather::FOUL, 5);
    let mut values: Vec<_> = (0..3).map(|m| Some(Values::F32(floats(m, 100, 1)))).collect();
    if let Some(Values::F32(values)) = &mut values[1] {
        values[40] = f32::INFINITY;
    }
    cluster.run(sum_f32(100), &mut values, |_| {}).unwrap();
    for values in &values {
        let Some(Values::F32(values)) = values else {
            panic!()
        };
        for (index, value) in values.iter().enumerate() {
            assert_eq!(value.is_nan(), index / LANES == 40 / LANES, "element {index}");
        }
    }
}

#[test]
fn chunk_4_rounds_wrap_around() {
    let window = 4_u16;
    let first_chunk = (u64::from(u32::MAX) - 3) * u64::from(window);
    let mut cluster = Cluster::new(3, window, first_chunk, Weather::FOUL, 11);
    for salt in 0..6 {
        check_i32(&mut cluster, 16 * 10, salt, |_| {});
    }
}

#[test]
fn operations_of_several_kinds_follow_each_other() {
    for seed in 0..20 {
        let mut cluster = Cluster::new(2, 4, 0, Weather::FOUL, seed);
        for salt in 0..5 {
            check_i32(&mut cluster, 50, salt, |_| {});
            run_f32(&mut cluster, 70, salt);
            let barrier = Operation {
                kind: OpKind::Barrier,
                elements: 1,
            };
            cluster
                .run(barrier, &mut [Some(Values::Empty), Some(Values::Empty)], |_| {})
                .unwrap();
        }
    }
}

#[test]
fn epoch_3_an_emptied_aggregator_is_refilled() {
    let mut restored = 0;
    for seed in 0..100 {
        let mut cluster = Cluster::new(3, 4, 0, Weather::FOUL, seed);
        let mut events = 0;
        for salt in 0..3 {
            check_i32(&mut cluster, 16 * 12, salt, |cluster| {
                events += 1;
                if events == 20 + seed * 3 {
                    cluster.restart_aggregator();
                }
            });
        }
        restored += cluster.count(Counter::Restored);
    }
    assert!(restored > 0, "some slots must have needed a kept result");
}

#[test]
fn deadline_errors_name_the_missing_ranks() {
    let mut cluster = Cluster::new(4, 4, 0, Weather::FAIR, 1);
    let mut values: Vec<_> = (0..4)
        .map(|m| (m != 2).then(|| Values::I32(numbers(m, 100, 0))))
        .collect();
    let failures = cluster.run(sum_i32(100), &mut values, |_| {}).unwrap_err();
    assert_eq!(failures.len(), 3);
    for (_, failure) in failures {
        let Failure::MembersMissing {
            missing, chunk: 0, ..
        } = failure
        else {
            panic!("{failure:?}")
        };
        assert_eq!(missing, MemberSet::single(2));
        assert!(
            failure
                .to_string()
                .starts_with("rank 2 did not contribute within 20.0 s"),
            "{failure}"
        );
    }
}

#[test]
fn a_silent_aggregator_is_told_from_missing_members() {
    let mut cluster = Cluster::new(2, 4, 0, Weather::FAIR, 1);
    cluster.alive = false;
    let mut values: Vec<_> = (0..2).map(|m| Some(Values::I32(numbers(m, 100, 0)))).collect();
    for (_, failure) in cluster.run(sum_i32(100), &mut values, |_| {}).unwrap_err() {
        assert!(
            matches!(failure, Failure::AggregatorSilent { chunk: 0, .. }),
            "{failure:?}"
        );
    }
}

#[test]
fn op_4_ranks_that_disagree_are_all_told() {
    for (mine, theirs) in [(100, 101), (100, 5), (1, 1000)] {
        for seed in 0..10 {
            let mut cluster = Cluster::new(3, 4, 0, Weather::FOUL, seed);
            for worker in 0..3 {
                let elements = if worker == 1 { theirs } else { mine };
                cluster.workers[worker]
                    .start(sum_f32(elements), elements as u64, 0)
                    .unwrap();
            }
            let mut values: Vec<_> = (0..3).map(|_| Some(Values::F32(vec![1.0; 1000]))).collect();
            let failures = cluster.resume(&mut values, |_| {}).unwrap_err();
            assert_eq!(failures.len(), 3, "{failures:?}");
            for (_, failure) in failures {
                assert!(matches!(failure, Failure::OperationDiffers { .. }), "{failure}");
            }
        }
    }
}

//! A job with less near memory than its window, and a store (R-SPILL): the same bits, whatever the store does.

mod common;

use agg_core::{Counter, OpKind, Operation};
use common::*;

const WINDOW: u16 = 64;

fn cluster(frames: u32, weather: Weather, seed: u64) -> Cluster {
    let mut cluster = Cluster::new(3, WINDOW, 0, weather, seed);
    cluster.aggregator = aggregator_with_frames(3, WINDOW, 1, Some(frames));
    cluster.slow = Some((2, 20_000_000));
    cluster
}

fn check(cluster: &mut Cluster, elements: usize, salt: u64, interfere: impl FnMut(&mut Cluster)) {
    let operation = Operation {
        kind: OpKind::SUM_I32,
        elements: elements as u64,
    };
    let inputs: Vec<_> = (0..3).map(|member| numbers(member, elements, salt)).collect();
    let sum: Vec<i32> = (0..elements)
        .map(|at| {
            inputs
                .iter()
                .fold(0, |sum: i32, input| sum.wrapping_add(input[at]))
        })
        .collect();
    let mut values: Vec<_> = inputs.into_iter().map(|input| Some(Values::I32(input))).collect();
    cluster.run(operation, &mut values, interfere).unwrap();
    for values in &values {
        assert!(matches!(values, Some(Values::I32(values)) if *values == sum));
    }
}

#[test]
fn spill_1_and_2_a_small_near_memory_is_enough_for_a_large_window() {
    let mut cluster = cluster(16, Weather::FAIR, 1);
    for salt in 0..4 {
        check(&mut cluster, 16 * 300, salt, |_| {});
    }
    let (put, got) = (cluster.store.put, cluster.store.got);
    assert!(put > 100 && got > 100, "{put} put, {got} got");
    assert_eq!(cluster.count(Counter::Spilled), put);
    assert!(cluster.count(Counter::Evicted) > 0);
}

#[test]
fn spill_3_sums_survive_loss_between_everybody() {
    for seed in 0..60 {
        let mut cluster = cluster(8 + (seed as u32 % 3) * 20, Weather::FOUL, seed);
        for salt in 0..3 {
            check(&mut cluster, 16 * 150 + 3, salt, |_| {});
        }
    }
}

#[test]
fn spill_4_a_store_that_dies_loses_nothing_but_time() {
    for seed in 0..60 {
        let mut cluster = cluster(8, Weather::FOUL, seed);
        let mut events = 0;
        check(&mut cluster, 16 * 200, seed, |cluster| {
            events += 1;
            if events % 97 == 0 {
                cluster.lose_store();
            }
        });
        assert!(cluster.store.put > 0);
    }
}

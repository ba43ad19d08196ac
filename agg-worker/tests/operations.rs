//! Every operation over real sockets: what each rank ends with, against what the elements say.

use agg_worker::{Communicator, Config, Element, Error, Feedback, ReduceOp, ReduceOptions, Width};
use half::{bf16, f16};
use udp_host::{HostConfig, UdpHost};
use udp_io::{FaultConfig, Probability};

/// Runs `body` on every rank of a world with loss, duplication and reordering; returns what each gave.
fn world<T: Send>(name: &str, size: u32, body: impl Fn(&mut Communicator) -> T + Sync) -> Vec<T> {
    let host = UdpHost::start(&HostConfig {
        shards: 2,
        ..HostConfig::loopback()
    })
    .unwrap();
    let address = host.control_addr().to_string();
    let rarely = |p| Probability::new(p).unwrap();
    let faults = FaultConfig {
        loss: rarely(0.005),
        duplicate: rarely(0.01),
        reorder: rarely(0.02),
        ..FaultConfig::default()
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let mut config = Config::new(name, rank, size).with_aggregator(address.clone());
                config.faults = faults;
                config.lanes = Some(256);
                let body = &body;
                scope.spawn(move || {
                    let mut rank = Communicator::connect(config).unwrap();
                    let outcome = body(&mut rank);
                    rank.close().unwrap();
                    outcome
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Enough chunks for two streams, and a last one that is short.
const LEN: usize = 40_003;

fn float(rank: u32, index: usize) -> f32 {
    ((index * 37 + rank as usize * 101) % 1009) as f32 / 64.0 - 7.0
}

fn integer(rank: u32, index: usize) -> i32 {
    (index as i32).wrapping_mul(0x9e37_79b9_u32 as i32) ^ (rank as i32 * 0x1234_5677)
}

fn reduced<E: Element>(
    rank: &mut Communicator,
    value: impl Fn(u32, usize) -> E,
    options: ReduceOptions,
) -> Vec<E> {
    let mut values: Vec<_> = (0..LEN).map(|index| value(rank.rank(), index)).collect();
    rank.all_reduce_with(&mut values, options).unwrap();
    values
}

#[test]
fn min_and_max_are_exact() {
    const RANKS: u32 = 3;
    let special = |rank: u32, index: usize| match (index % 11, rank) {
        (1, 1) => f32::NAN,
        (2, 0) => -f32::NAN,
        (3, 2) => f32::NEG_INFINITY,
        (4, 0) => f32::INFINITY,
        (5, _) => 0.0_f32.copysign(rank as f32 - 1.0),
        (6, _) => f32::from_bits(1 + rank),
        _ => float(rank, index),
    };
    let outcomes = world("extremes", RANKS, |rank| {
        [ReduceOp::Min, ReduceOp::Max].map(|op| {
            let options = ReduceOptions::new(op);
            let floats = reduced(rank, special, options);
            (floats, reduced(rank, integer, options))
        })
    });
    for [(min, min_i32), (max, max_i32)] in outcomes {
        for index in 0..LEN {
            let floats = || (0..RANKS).map(|rank| special(rank, index));
            let integers = || (0..RANKS).map(|rank| integer(rank, index));
            assert_eq!(min_i32[index], integers().min().unwrap());
            assert_eq!(max_i32[index], integers().max().unwrap());
            // The order of the standard library is the rule's, but for where NaN is.
            let (smallest, largest) = if floats().any(f32::is_nan) {
                (f32::NAN, f32::NAN)
            } else {
                let by = |a: &f32, b: &f32| a.total_cmp(b);
                (floats().min_by(by).unwrap(), floats().max_by(by).unwrap())
            };
            assert_eq!(min[index].to_bits(), smallest.to_bits(), "element {index}");
            assert_eq!(max[index].to_bits(), largest.to_bits(), "element {index}");
        }
    }
}

#[test]
fn averages_are_sums_divided_by_the_ranks() {
    const RANKS: u32 = 3;
    let outcomes = world("averages", RANKS, |rank| {
        reduced(rank, float, ReduceOptions::new(ReduceOp::Avg))
    });
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
    for (index, average) in outcomes[0].iter().enumerate() {
        let exact = (0..RANKS).map(|rank| f64::from(float(rank, index))).sum::<f64>() / f64::from(RANKS);
        // R-NUM-9 with magnitudes below 2^4 and headroom 2: a unit a value, and half a unit of the result.
        let bound = 2_f64.powi(4 - 31 + 2) + 2_f64.powi(-24) * exact.abs();
        assert!(
            (f64::from(*average) - exact).abs() <= bound,
            "element {index}: {average} for {exact}"
        );
    }
}

#[test]
fn narrow_sums_keep_the_stated_bound_and_are_the_same_bits_everywhere() {
    const RANKS: u32 = 4;
    for (width, bits) in [(Width::Bits16, 16), (Width::Bits8, 8)] {
        for op in [ReduceOp::Sum, ReduceOp::Avg] {
            let outcomes = world(&format!("narrow-{bits}-{op}"), RANKS, |rank| {
                reduced(rank, float, ReduceOptions::new(op).with_width(width))
            });
            assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
            let divisor = if op == ReduceOp::Avg {
                f64::from(RANKS)
            } else {
                1.0
            };
            for (index, value) in outcomes[0].iter().enumerate() {
                let exact = (0..RANKS).map(|rank| f64::from(float(rank, index))).sum::<f64>() / divisor;
                // R-NUM-7 with magnitudes below 2^4 and headroom 2.
                let unit = 2_f64.powi(4 - (bits - 1) + 2);
                let bound = f64::from(RANKS) * unit / divisor + 2_f64.powi(-24) * exact.abs();
                assert!(
                    (f64::from(*value) - exact).abs() <= bound,
                    "element {index}: {value} for {exact}"
                );
            }
        }
    }
}

/// The bounds of 16-bit floats: that of the sum, and half a unit in the last place of the type (11 or 8 bits).
fn check_half<E: Element + PartialEq + Into<f64>>(name: &str, digits: i32, of: fn(f32) -> E) {
    const RANKS: u32 = 3;
    let value = |rank, index| of(float(rank, index));
    for width in [Width::Bits32, Width::Bits16, Width::Bits8] {
        for op in [ReduceOp::Sum, ReduceOp::Avg] {
            let outcomes = world(&format!("{name}-{op}-{}", width.bits()), RANKS, |rank| {
                reduced(rank, value, ReduceOptions::new(op).with_width(width))
            });
            assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
            let divisor = if op == ReduceOp::Avg {
                f64::from(RANKS)
            } else {
                1.0
            };
            for (index, result) in outcomes[0].iter().enumerate() {
                let exact = (0..RANKS).map(|rank| value(rank, index).into()).sum::<f64>() / divisor;
                let unit = 2_f64.powi(4 - (width.bits() as i32 - 1) + 2);
                let before = f64::from(RANKS) * unit / divisor;
                let bound = before + 2_f64.powi(-digits) * 1.001 * (exact.abs() + before);
                let error = ((*result).into() - exact).abs();
                assert!(
                    error <= bound,
                    "{name}, {width:?}, {op}, element {index}: {error} above {bound}"
                );
            }
        }
    }
    for op in [ReduceOp::Min, ReduceOp::Max] {
        let outcomes = world(&format!("{name}-{op}"), RANKS, |rank| {
            reduced(rank, value, ReduceOptions::new(op))
        });
        for outcome in outcomes {
            for (index, result) in outcome.into_iter().enumerate() {
                let values = (0..RANKS).map(|rank| value(rank, index).into());
                let exact = if op == ReduceOp::Min {
                    values.fold(f64::INFINITY, f64::min)
                } else {
                    values.fold(f64::NEG_INFINITY, f64::max)
                };
                assert_eq!(result.into(), exact, "{name}, {op}, element {index}");
            }
        }
    }
}

#[test]
fn floats_of_16_bits_keep_the_stated_bounds() {
    check_half("f16", 11, f16::from_f32);
    check_half("bf16", 8, bf16::from_f32);
}

#[test]
fn floats_of_16_bits_are_broadcast_bit_for_bit() {
    let bits = |rank: u32, index: usize| f16::from_bits((index as u16).wrapping_mul(257) ^ rank as u16);
    for len in [1, 2, 1001] {
        let outcomes = world("broadcast", 2, |rank| {
            let mut values: Vec<_> = (0..len).map(|index| bits(rank.rank(), index)).collect();
            rank.broadcast(1, &mut values).unwrap();
            values.into_iter().map(f16::to_bits).collect::<Vec<_>>()
        });
        let root: Vec<_> = (0..len).map(|index| bits(1, index).to_bits()).collect();
        assert_eq!(outcomes, [root.clone(), root]);
    }
}

/// What rounding takes of a value goes out with later ones: the mean of many narrow sums is that of the values.
#[test]
fn narrow_sums_with_feedback_lose_nothing_in_the_long_run() {
    const RANKS: u32 = 2;
    const ROUNDS: usize = 64;
    let outcomes = world("feedback", RANKS, |rank| {
        let options = ReduceOptions::default().with_width(Width::Bits8);
        let mut feedback = Feedback::new(LEN);
        let mut totals = vec![0.0_f64; LEN];
        for _ in 0..ROUNDS {
            let mut values: Vec<_> = (0..LEN).map(|index| float(rank.rank(), index)).collect();
            let outcome = rank.all_reduce_feedback_with(&mut values, &mut feedback, options);
            assert!(outcome.unwrap().is_complete());
            for (total, value) in totals.iter_mut().zip(&values) {
                *total += f64::from(*value);
            }
        }
        totals
    });
    assert!(outcomes[0] == outcomes[1]);
    for (index, total) in outcomes[0].iter().enumerate() {
        let exact = (0..RANKS).map(|rank| f64::from(float(rank, index))).sum::<f64>();
        let mean = total / ROUNDS as f64;
        // What is still left over at the end, at most a unit and a half of each rank, over all rounds.
        let unit = 2_f64.powi(5 - 7 + 1);
        let bound = f64::from(RANKS) * 1.5 * unit / ROUNDS as f64 + 1e-5;
        assert!(
            (mean - exact).abs() <= bound,
            "element {index}: {mean} for {exact}"
        );
    }
}

#[test]
fn options_that_do_not_exist_are_refused_and_the_job_goes_on() {
    world("refused", 2, |rank| {
        let mut integers = vec![1; 10];
        let avg = ReduceOptions::new(ReduceOp::Avg);
        let error = rank.all_reduce_with(&mut integers, avg).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        let (mut floats, mut feedback) = (vec![1.0; 10], Feedback::new(10));
        let max = ReduceOptions::new(ReduceOp::Max);
        let error = rank
            .all_reduce_feedback_with(&mut floats, &mut feedback, max)
            .unwrap_err();
        assert!(matches!(error, Error::NothingToFeedBack { .. }), "{error}");
        rank.all_reduce(&mut integers).unwrap();
        assert_eq!(integers, [2; 10]);
    });
}

#[test]
fn op_4_ranks_that_reduce_by_other_operations_are_all_told() {
    let host = UdpHost::start(&HostConfig::loopback()).unwrap();
    let address = host.control_addr().to_string();
    std::thread::scope(|scope| {
        let ranks = [ReduceOp::Min, ReduceOp::Max].map(|op| {
            let config =
                Config::new("differ", u32::from(op == ReduceOp::Max), 2).with_aggregator(address.clone());
            scope.spawn(move || {
                let mut rank = Communicator::connect(config).unwrap();
                let error = rank
                    .all_reduce_with(&mut [1.0_f32], ReduceOptions::new(op))
                    .unwrap_err();
                assert!(
                    error.to_string().contains("the ranks disagree on operation 0"),
                    "{error}"
                );
                assert!(
                    error
                        .to_string()
                        .contains(&format!("this rank calls all_reduce ({op}) of 1 f32")),
                    "{error}"
                );
            })
        });
        for rank in ranks {
            rank.join().unwrap();
        }
    });
}

/// R-NUM-11: operations like the last one take one result a chunk, whatever the network does; with exponents of other sizes
/// they take two once. The bits are those of the first, with the same exponents.
#[test]
fn small_sums_take_one_round_trip_when_their_exponents_are_predicted() {
    const RANKS: u32 = 3;
    let outcomes = world("predicted", RANKS, |rank| {
        let mut results = Vec::new();
        let mut bits = Vec::new();
        for factor in [1.0, 1.0, 0.5, 8.0, 8.0, 8.0] {
            let before = rank.stats().results;
            let mut values: Vec<_> = (0..1000)
                .map(|index| factor * float(rank.rank(), index))
                .collect();
            rank.all_reduce(&mut values).unwrap();
            results.push(rank.stats().results - before);
            bits.push(values.into_iter().map(f32::to_bits).collect::<Vec<_>>());
        }
        let stats = rank.stats();
        (results, bits, [stats.predicted, stats.mispredicted])
    });
    for (results, bits, predicted) in &outcomes {
        // Four chunks of 256.
        assert_eq!(results[..], [8, 4, 4, 8, 8, 4]);
        assert_eq!(predicted[..], [3, 1]);
        assert!(bits[0] == bits[1] && bits[3] == bits[5]);
        assert_eq!(bits, &outcomes[0].1);
    }
}

/// The tensor that a rank gives to one of several operations.
fn tensor(rank: u32, number: usize) -> Vec<f32> {
    let factor = [1.0, 64.0, 0.125][number % 3];
    (0..LEN - 1000 * number)
        .map(|index| factor * float(rank, index + number))
        .collect()
}

fn bits(values: Vec<f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

/// Each of `count` sums, called when the last one has ended.
fn called_one_by_one(ranks: u32, count: usize) -> Vec<Vec<u32>> {
    let mut outcomes = world("called", ranks, |rank| {
        let sum = |number| {
            let mut values = tensor(rank.rank(), number);
            rank.all_reduce(&mut values).unwrap();
            bits(values)
        };
        (0..count).map(sum).collect::<Vec<_>>()
    });
    outcomes.swap_remove(0)
}

/// R-OP-7: operations that are submitted agree on exponents while others run; their bits are those of operations on their own.
#[test]
fn submitted_sums_have_the_bits_of_those_called_one_by_one() {
    const RANKS: u32 = 3;
    let submitted = world("submitted", RANKS, |rank| {
        let pending: Vec<_> = (0..8)
            .map(|number| rank.submit(tensor(rank.rank(), number)))
            .collect();
        let sums: Vec<_> = pending.into_iter().map(|sum| bits(sum.wait().unwrap())).collect();
        (sums, rank.stats().announced)
    });
    let called = called_one_by_one(RANKS, 8);
    for (sums, announced) in &submitted {
        assert!(*sums == called, "other bits");
        assert!(*announced > 0, "nothing went ahead");
    }
}

/// The same when the aggregator is stopped in the middle of them, and the job goes on at another (R-JOB-2, R-REFORM-2).
#[test]
fn submitted_sums_have_the_same_bits_when_the_job_moves() {
    const RANKS: u32 = 3;
    const SUMS: usize = 16;
    let start = || UdpHost::start(&HostConfig::loopback()).unwrap();
    let (first, second) = (start(), start());
    let addresses = [&first, &second].map(|host| host.control_addr().to_string());
    let (some_ended, ended) = std::sync::mpsc::channel();
    let run = |rank: u32| {
        let mut config = Config::new("moved", rank, RANKS);
        config.aggregators = addresses.to_vec();
        config.lanes = Some(256);
        config.faults.loss = Probability::new(0.005).unwrap();
        let mut world = Communicator::connect(config).unwrap();
        let pending: Vec<_> = (0..SUMS)
            .map(|number| world.submit(tensor(rank, number)))
            .collect();
        let sums = pending.into_iter().enumerate().map(|(number, sum)| {
            let sum = bits(sum.wait().unwrap());
            if number == 3 {
                let _ = some_ended.send(());
            }
            sum
        });
        let sums: Vec<_> = sums.collect();
        let stats = world.stats();
        world.close().unwrap();
        (sums, stats.announced, stats.moves)
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let run = &run;
        let ranks: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || run(rank))).collect();
        ended.recv().unwrap();
        first.shutdown();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let called = called_one_by_one(RANKS, SUMS);
    for (sums, announced, moves) in &outcomes {
        assert!(*sums == called, "other bits");
        assert!(
            *announced > 0 && *moves > 0,
            "{announced} went ahead, {moves} moves"
        );
    }
}

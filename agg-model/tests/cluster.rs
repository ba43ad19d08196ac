//! Whole clusters over a bad network: every operation ends, and every worker has the model's bits.

mod common;

use agg_model::harness::random::Random;
use agg_model::harness::{Cluster, Values, Weather};
use common::operations::{Op, op, weather};
use proptest::collection::vec;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/cluster.txt";

/// A job, and the operations that it does.
#[derive(Clone, Debug)]
struct Plan {
    workers: usize,
    window: u16,
    wide: bool,
    first_round: u32,
    weather: Weather,
    operations: Vec<Op>,
    seed: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let first_round = prop_oneof![2 => Just(0_u32), 3 => (0_u32..8).prop_map(|back| u32::MAX - back)];
    let ops = prop_oneof![4 => vec(op(500), 1..5).prop_map(|ops| (false, ops)), 1 => vec(op(3000), 1..3).prop_map(|ops| (true, ops))];
    (1_usize..6, 0_u32..5, ops, first_round, weather(), any::<u64>()).prop_map(
        |(workers, window, (wide, operations), first_round, weather, seed)| Plan {
            workers,
            window: 1 << window,
            wide,
            first_round,
            weather,
            operations,
            seed,
        },
    )
}

fn run(plan: &Plan) -> Cluster {
    let lanes = if plan.wide { 256 } else { 16 };
    let first_chunk = u64::from(plan.first_round) * u64::from(plan.window);
    let mut cluster = Cluster::new(
        plan.workers,
        plan.window,
        lanes,
        first_chunk,
        plan.weather,
        plan.seed,
    );
    let mut random = Random::new(plan.seed ^ 1);
    for op in &plan.operations {
        cluster.all_reduce((0..plan.workers).map(|_| op.input(&mut random)).collect());
    }
    cluster
}

#[test]
fn every_worker_ends_with_the_bits_of_the_model() {
    common::check(500, REGRESSIONS, plan(), |plan| _ = run(&plan));
}

/// R-OP-7: operations that are known before the last has ended, whatever the network does.
#[test]
fn op_7_announced_operations_have_the_bits_of_the_model() {
    let announced = std::cell::Cell::new(0);
    common::check(400, REGRESSIONS, plan(), |plan| {
        let lanes = if plan.wide { 256 } else { 16 };
        let first_chunk = u64::from(plan.first_round) * u64::from(plan.window);
        let (workers, window) = (plan.workers, plan.window);
        let mut cluster = Cluster::new(workers, window, lanes, first_chunk, plan.weather, plan.seed);
        let mut random = Random::new(plan.seed ^ 1);
        let mut inputs = |op: &Op| (0..workers).map(|_| op.input(&mut random)).collect();
        cluster.run_all(plan.operations.iter().map(&mut inputs).collect());
        cluster.check_sums();
        announced.set(announced.get() + cluster.announced());
    });
    println!("{} operations were announced", announced.get());
    assert!(announced.get() > 200, "too few to tell");
}

/// Small windows, loss and restarts: results that only a member still has must come back through Wants.
#[test]
fn epoch_3_lost_aggregators_are_refilled_by_members() {
    let restored = std::cell::Cell::new(0);
    let restarts = std::cell::Cell::new(0);
    let plan = (
        2_usize..5,
        0_u32..3,
        0_u64..250,
        20_u64..200,
        vec(op(300), 2..5),
        any::<u64>(),
    )
        .prop_map(|(workers, window, loss, restart, operations, seed)| Plan {
            workers,
            window: 1 << window,
            wide: false,
            first_round: u32::MAX - 4,
            weather: Weather {
                loss,
                restart,
                restarts: 8,
                ..Weather::FOUL
            },
            operations,
            seed,
        });
    common::check(300, REGRESSIONS, plan, |plan| {
        let cluster = run(&plan);
        restored.set(restored.get() + cluster.count("slots_restored"));
        restarts.set(restarts.get() + u64::from(cluster.restarts()));
    });
    println!("{} restarts, {} slots restored", restarts.get(), restored.get());
    assert!(restored.get() > 0, "no slot needed a kept result");
}

/// The bits do not depend on the network: not even where sums of floats would differ by order.
#[test]
fn bits_are_those_of_fair_weather() {
    for seed in 0..40 {
        println!("seed {seed}");
        let values = |weather| {
            let mut cluster = Cluster::new(4, 4, 16, 0, weather, seed);
            let mut random = Random::new(seed);
            let inputs = (0..4).map(|_| Values::f32(random.floats(700, -40, 40))).collect();
            cluster.all_reduce(inputs);
            cluster.workers[0].values().bits()
        };
        assert_eq!(values(Weather::FAIR), values(Weather::FOUL));
    }
}

/// As many workers as a set has bits, and a sum that needs all the headroom.
#[test]
fn sixty_four_workers_sum_alike() {
    let seed = 3;
    println!("seed {seed}");
    let mut cluster = Cluster::new(
        64,
        4,
        16,
        0,
        Weather {
            restart: 1,
            restarts: 2,
            ..Weather::FOUL
        },
        seed,
    );
    let mut random = Random::new(seed);
    cluster.all_reduce(
        (0..64)
            .map(|_| Values::f32(vec![1.0_f32.next_down(); 40]))
            .collect(),
    );
    cluster.all_reduce(
        (0..64)
            .map(|_| Values::f32(random.floats(100, -20, 20)))
            .collect(),
    );
    cluster.all_reduce((0..64).map(|_| Values::i32(random.integers(100))).collect());
}

/// R-OP-4: whatever different operations the ranks call after those that they agreed on, each of them is told.
#[test]
fn op_4_ranks_that_disagree_all_fail() {
    let ops = (vec(op(100), 0..3), op(300), op(300));
    common::check(
        300,
        REGRESSIONS,
        (ops, 2_usize..5, weather(), any::<u64>()),
        |(ops, workers, weather, seed)| {
            let (before, mine, theirs) = ops;
            let mut random = Random::new(seed);
            // Restarts apart: a rank that is left alone with an empty aggregator fails too, but by its deadline.
            let mut cluster = Cluster::new(
                workers,
                4,
                16,
                0,
                Weather {
                    restarts: 0,
                    ..weather
                },
                seed,
            );
            for op in before {
                cluster.all_reduce((0..workers).map(|_| op.input(&mut random)).collect());
            }
            let call = |n| if n == 1 { theirs } else { mine };
            let inputs: Vec<_> = (0..workers).map(|n| call(n).input(&mut random)).collect();
            if inputs[0].op() != inputs[1].op() {
                let failures = cluster.run(inputs).expect_err("they disagree");
                assert_eq!(failures.len(), workers);
                for (_, failure) in failures {
                    assert!(
                        matches!(failure, agg_core::Failure::OperationDiffers { .. }),
                        "{failure}"
                    );
                }
            }
        },
    );
}

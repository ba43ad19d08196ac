//! Jobs under a quorum over a bad network, with a member that is slow: everybody ends with the same bits.

mod common;

use std::cell::Cell;

use agg_model::ModelQuorum;
use agg_model::harness::random::Random;
use agg_model::harness::{Cluster, Site, Tree, Values, Weather};
use common::operations::{Op, op};
use proptest::collection::vec;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/quorum.txt";

/// A job under a quorum, and how its last member dawdles.
#[derive(Clone, Debug)]
struct Plan {
    workers: usize,
    quorum: ModelQuorum,
    generations: u16,
    window: u16,
    weather: Weather,
    /// In ns, each way.
    slowness: u64,
    seed: u64,
}

impl Plan {
    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::at(Site {
            tree: Tree::flat(0..self.workers),
            levels: 1,
            window: self.window,
            lanes: 16,
            first_chunk: (1 << 32) * u64::from(self.window) - 40,
            quorum: Some((self.quorum, self.generations)),
            silent_restarts: false,
            weather: self.weather,
            seed: self.seed,
        });
        cluster.slow_down(self.workers - 1, self.slowness);
        cluster
    }

    /// Each worker's inputs of each operation.
    fn inputs(&self, operations: usize, input: impl Fn(usize, &mut Random) -> Values) -> Vec<Vec<Values>> {
        let mut random = Random::new(self.seed ^ 1);
        let mut inputs = |op| (0..self.workers).map(|_| input(op, &mut random)).collect();
        (0..operations).map(&mut inputs).collect()
    }
}

/// 2 of 3, 3 of 4, and others. No restarts: they end such a job (R-QUORUM-6).
fn plan() -> impl Strategy<Value = Plan> {
    let sizes = prop_oneof![
        3 => Just((3, 2)),
        3 => Just((4, 3)),
        1 => (1_usize..6).prop_flat_map(|workers| (Just(workers), 1..=workers)),
    ];
    let grace = prop_oneof![Just(0), 0_u64..5_000_000];
    let slowness = prop_oneof![1 => Just(0), 3 => 0_u64..30_000_000];
    let memory = (1_u32..5, 0_u32..4);
    (
        sizes,
        grace,
        memory,
        common::operations::weather(),
        slowness,
        any::<u64>(),
    )
        .prop_map(
            |((workers, members), grace, (generations, window), weather, slowness, seed)| Plan {
                workers,
                quorum: ModelQuorum {
                    members: members as u8,
                    grace,
                },
                generations: 1 << generations,
                window: 1 << window,
                weather: Weather {
                    restarts: 0,
                    ..weather
                },
                slowness,
                seed,
            },
        )
}

/// Operations of all kinds: those that wait for all stand among those that do not.
#[test]
fn quorum_1_to_4_everybody_has_the_same_bits() {
    let names = ["contributions_held_back", "results_replayed", "wants_sent"];
    let counts: Vec<Cell<u64>> = names.iter().map(|_| Cell::new(0)).collect();
    let strategy = (plan(), vec(op(200), 1..6));
    common::check(400, REGRESSIONS, strategy, |(plan, operations)| {
        let mut cluster = plan.cluster();
        cluster.run_all(plan.inputs(operations.len(), |op, random| operations[op].input(random)));
        cluster.check_quorum();
        for (count, name) in counts.iter().zip(names) {
            count.set(count.get() + cluster.count(name));
        }
    });
    for (count, name) in counts.iter().zip(names) {
        println!("{name}: {}", count.get());
        assert!(count.get() > 0, "{name} never counted");
    }
}

/// What a late member could not contribute comes with its next values; in the end nothing is lost or doubled.
#[test]
fn quorum_4_error_feedback_conserves_every_contribution() {
    let partial = Cell::new(0);
    let bits = prop_oneof![Just(32_u32), Just(16), Just(8)];
    let strategy = (plan(), 1_usize..150, 1_usize..8, (-100_i32..60, 1_i32..30), bits);
    common::check(
        300,
        REGRESSIONS,
        strategy,
        |(plan, elements, operations, (low, span), bits)| {
            let mut cluster = plan.cluster();
            cluster.run_all(plan.inputs(operations, |_, random| {
                let values = random.floats(elements, low, low + span);
                Values::feedback(values, vec![0.0; elements], bits)
            }));
            cluster.check_quorum();
            cluster.check_conservation();
            let fewer = |set: usize| set < plan.workers;
            let results = cluster.results().filter(|result| fewer(result.set.len()));
            partial.set(partial.get() + results.count());
        },
    );
    println!("{} results of some", partial.get());
    assert!(partial.get() > 1000);
}

/// A member that is removed holds nobody back any more, wherever it was.
#[test]
fn quorum_5_the_others_go_on_without_a_removed_member() {
    let removed = Cell::new(0);
    let ops = vec(op(200), 1..6);
    let strategy = (plan(), ops, 0_u64..30_000_000, any::<usize>());
    common::check(300, REGRESSIONS, strategy, |(plan, operations, time, rank)| {
        if plan.workers == 1 {
            return;
        }
        let mut cluster = plan.cluster();
        cluster.lose_at(time, rank % plan.workers);
        cluster.run_all(plan.inputs(operations.len(), |op, random| operations[op].input(random)));
        cluster.check_same();
        removed.set(removed.get() + usize::from(cluster.ranks().len() < plan.workers));
    });
    println!("{} removed", removed.get());
    assert!(removed.get() > 100);
}

/// The fastest members are at most as far ahead as a slot has generations, and go on with nothing lost.
#[test]
fn quorum_3_history_bounds_how_far_members_are_apart() {
    for generations in [2, 4, 16] {
        let plan = Plan {
            workers: 3,
            quorum: ModelQuorum { members: 2, grace: 0 },
            generations,
            window: 2,
            weather: Weather::FAIR,
            slowness: 50_000_000,
            seed: 3,
        };
        let mut cluster = plan.cluster();
        let op = Op::F32(60, -10, 10);
        cluster.run_all(plan.inputs(10, |_, random| op.input(random)));
        cluster.check_quorum();
        let held_back = cluster.count("contributions_held_back");
        println!("{generations} generations: {held_back} held back");
        assert!(held_back > 0);
    }
}

//! Trees of aggregators over a bad network, whose jobs re-form: every worker has the bits of the flat sum.

mod common;

use std::cell::Cell;

use agg_model::harness::random::Random;
use agg_model::harness::{Cluster, Site, Tree, Values, Weather};
use common::operations::{Op, op};
use proptest::collection::vec;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/trees.txt";

/// A tree of so many workers and levels, and what they do there.
#[derive(Clone, Debug)]
struct Plan {
    tree: Option<Tree>,
    workers: usize,
    levels: u32,
    window: u16,
    weather: Weather,
    operations: Vec<Op>,
    seed: u64,
}

impl Plan {
    fn cluster(&self) -> Cluster {
        let ranks: Vec<usize> = (0..self.workers).collect();
        let random = || Tree::random(&ranks, self.levels, &mut Random::new(self.seed ^ 7));
        Cluster::at(Site {
            tree: self.tree.clone().unwrap_or_else(random),
            levels: self.levels,
            window: self.window,
            lanes: 16,
            first_chunk: (1 << 32) * u64::from(self.window) - 40,
            quorum: None,
            silent_restarts: false,
            weather: self.weather,
            seed: self.seed,
        })
    }

    fn inputs(&self) -> Vec<Vec<Values>> {
        let mut random = Random::new(self.seed ^ 1);
        let mut inputs = |op: &Op| (0..self.workers).map(|_| op.input(&mut random)).collect();
        self.operations.iter().map(&mut inputs).collect()
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    let shape = (2_usize..8, 2_u32..4, 0_u32..4);
    let rest = (common::operations::weather(), vec(op(300), 1..5), any::<u64>());
    (shape, rest).prop_map(|((workers, levels, window), (weather, operations, seed))| Plan {
        tree: None,
        workers,
        levels,
        window: 1 << window,
        weather,
        operations,
        seed,
    })
}

/// How often the runs of a test did something.
#[derive(Default)]
struct Tally(Cell<u64>);

impl Tally {
    fn add(&self, count: u64) {
        self.0.set(self.0.get() + count);
    }
}

#[test]
fn leaf_1_to_4_every_tree_gives_the_bits_of_the_flat_sum() {
    let names = [
        "contributions_forwarded_again",
        "results_from_parent",
        "results_sent_to_parent",
        "slots_restored",
        "refused_job_reforming",
    ];
    let tallies: Vec<Tally> = names.iter().map(|_| Tally::default()).collect();
    common::check(400, REGRESSIONS, plan(), |plan| {
        let mut cluster = plan.cluster();
        cluster.run_all(plan.inputs());
        cluster.check_sums();
        for (tally, name) in tallies.iter().zip(names) {
            tally.add(cluster.count(name));
        }
    });
    for (tally, name) in tallies.iter().zip(names) {
        assert!(tally.0.get() > 0, "{name} never counted");
    }
}

/// Shapes that are meant: leaves alike, uneven ones, workers beside leaves, a leaf of leaves, and all below one leaf.
#[test]
fn leaf_1_chosen_trees_give_the_bits_of_the_flat_sum() {
    let worker = Tree::Worker;
    let trees = [
        Tree::leaves(&[3, 3]),
        Tree::leaves(&[1, 4, 2]),
        Tree::Aggregator(vec![Tree::flat(0..3), worker(3), worker(4)]),
        Tree::Aggregator(vec![
            worker(0),
            Tree::Aggregator(vec![Tree::flat(1..3), worker(3)]),
            Tree::flat(4..6),
        ]),
        Tree::Aggregator(vec![Tree::Aggregator(vec![Tree::flat(0..4)])]),
    ];
    for (seed, tree) in (0..).zip(trees) {
        for weather in [Weather::FAIR, Weather::FOUL] {
            println!("{tree:?}, seed {seed}");
            let workers = tree.ranks().len();
            let plan = Plan {
                tree: Some(tree.clone()),
                workers,
                levels: 3,
                window: 4,
                weather,
                operations: vec![
                    Op::I32(200),
                    Op::F32(300, -40, 40),
                    Op::Barrier,
                    Op::F32(90, -149, -120),
                ],
                seed,
            };
            let mut cluster = plan.cluster();
            cluster.run_all(plan.inputs());
            cluster.check_sums();
        }
    }
}

/// All levels lose their memory again and again, and the workers come together in other trees each time.
#[test]
fn reform_2_lost_trees_are_refilled_by_members() {
    let (restored, restarts) = (Tally::default(), Tally::default());
    let weather = (0_u64..200, 20_u64..100).prop_map(|(loss, restart)| Weather {
        loss,
        restart,
        restarts: 6,
        ..Weather::FOUL
    });
    let plan = (plan(), weather).prop_map(|(plan, weather)| Plan { weather, ..plan });
    common::check(250, REGRESSIONS, plan, |plan| {
        let mut cluster = plan.cluster();
        cluster.run_all(plan.inputs());
        cluster.check_sums();
        restored.add(cluster.count("slots_restored"));
        restarts.add(u64::from(cluster.restarts()));
    });
    println!(
        "{} restarts, {} slots restored",
        restarts.0.get(),
        restored.0.get()
    );
    assert!(restored.0.get() > 0 && restarts.0.get() > 0);
}

/// A rank is lost at any time: the others agree which operation ended with it, and on everything before and after.
#[test]
fn reform_3_survivors_agree_on_what_was_lost() {
    let (lost, announced) = (Tally::default(), Tally::default());
    let strategy = (plan(), 0_u64..30_000_000, any::<usize>());
    common::check(400, REGRESSIONS, strategy, |(mut plan, time, rank)| {
        plan.weather.restarts = plan.weather.restarts.min(1);
        let mut cluster = plan.cluster();
        cluster.lose_at(time, rank % plan.workers);
        cluster.run_all(plan.inputs());
        cluster.check_sums();
        lost.add(u64::from(cluster.ranks().len() < plan.workers));
        announced.add(cluster.announced());
    });
    assert!(announced.0.get() > 100, "few operations were announced");
    assert!(
        lost.0.get() > 100,
        "only {} ranks were lost in time",
        lost.0.get()
    );
}

//! Trees of aggregators that lose a leaf: its ranks come back by another way, and no bit changes (R-REFORM).

use std::thread;
use std::time::Duration;

use agg_worker::Config;

use crate::server::Server;
use crate::work::Work;
use crate::{calm, config, keeps_every_bit, seeds, some_time};

const RANKS: u32 = 4;

/// Two ranks at each leaf, which know the other leaf too.
fn at_leaves(work: Work, rank: u32, leaves: [&Server; 2]) -> Config {
    let [first, second] = leaves;
    let known = if rank < RANKS / 2 {
        [first, second]
    } else {
        [second, first]
    };
    config("tree", work, rank, &known)
}

#[test]
fn reform_1_the_ranks_of_a_killed_leaf_go_on_at_another() {
    for seed in seeds(2) {
        let work = Work { seed, ranks: RANKS };
        let (expected, duration) = calm(work, 1);
        let root = Server::start(1);
        let (mut first, second) = (Server::start_leaf(&root), Server::start_leaf(&root));
        let configs: Vec<_> = (0..RANKS)
            .map(|rank| at_leaves(work, rank, [&first, &second]))
            .collect();
        let killed_at = some_time(seed, duration);
        let what = format!("leaf killed after {killed_at:.1?}");
        keeps_every_bit(work, &expected, &configs, &what, move || {
            thread::sleep(killed_at);
            first.kill();
        });
    }
}

#[test]
fn reform_1_a_leaf_restarted_in_place_changes_no_bit() {
    for seed in seeds(2) {
        let work = Work { seed, ranks: RANKS };
        let (expected, duration) = calm(work, 1);
        let root = Server::start(1);
        let (mut first, second) = (Server::start_leaf(&root), Server::start_leaf(&root));
        let configs: Vec<_> = (0..RANKS)
            .map(|rank| config("leaf", work, rank, &[if rank < 2 { &first } else { &second }]))
            .collect();
        let killed_at = some_time(seed, duration);
        let what = format!("leaf killed after {killed_at:.1?}");
        keeps_every_bit(work, &expected, &configs, &what, move || {
            thread::sleep(killed_at);
            first.kill();
            thread::sleep(some_time(seed + 1, Duration::from_millis(500)));
            first.restart();
            first
        });
    }
}

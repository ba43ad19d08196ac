//! Many chunks, every lane of every sum checked by every rank. `TRIBUTARY_REPETITIONS=100` sums so many times instead of 20.

use std::time::Duration;

use testjob::{assert_success, bench, counters, run_all};

use crate::cluster::{Cluster, native};

const RANKS: usize = 4;

/// 100 000 chunks of 352 lanes.
const BYTES: &str = "140800000";

/// Four windows of this size are what a veth holds: 256 frames.
const WINDOW: &str = "64";

const LIMIT: Duration = Duration::from_secs(280);

/// `loss` in each direction of each rank.
fn sums_are_right(prefix: &str, loss: &str) {
    let cluster = Cluster::new(prefix, RANKS as u32);
    let _aggregator = native().start(&cluster.aggregator, None);
    let tributary = testjob::tributary();
    let repetitions = std::env::var("TRIBUTARY_REPETITIONS").unwrap_or_else(|_| "20".to_owned());
    let sums = [
        "--bytes",
        BYTES,
        "--dtype",
        "i32",
        "--iterations",
        &repetitions,
        "--warmup",
        "0",
        "--window",
        WINDOW,
        "--loss",
        loss,
    ];
    let rank = |rank| {
        let host = &cluster.workers[rank];
        bench(&tributary, rank, RANKS, host, &cluster.aggregator, &sums)
    };
    let outputs = run_all((0..RANKS).map(rank), LIMIT);
    assert_success(&outputs);
    let figures = String::from_utf8_lossy(&outputs[0].stdout);
    assert!(figures.contains("\"lanes\":352"), "{figures}");
    let counted = counters(&cluster.aggregator);
    let chunks = 100_000 * repetitions.parse::<u64>().expect("a number");
    assert!(counted["slots_completed"] >= chunks, "{counted:?}");
}

#[test]
#[ignore = "needs root"]
fn netns_four_ranks_sum_100_000_chunks_twenty_times() {
    sums_are_right("trib-xdp-load", "0%");
}

#[test]
#[ignore = "needs root"]
fn netns_four_ranks_sum_100_000_chunks_twenty_times_with_loss() {
    sums_are_right("trib-xdp-lossy", "1%");
}

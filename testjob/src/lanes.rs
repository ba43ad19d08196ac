//! Which chunk size ranks choose.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testnet::Host;

use crate::{assert_success, bench, run_all};

/// The chunk size of a job whose ranks are at these places, each a host and that of its aggregator. Every rank checks every
/// sum. `options` are further ones of the benchmark.
pub fn lanes(program: &Path, places: &[(&Host, &Host)], options: &[&str], limit: Duration) -> u64 {
    let sums = ["--bytes", "3MiB", "--iterations", "3", "--warmup", "0"];
    let arguments = [&sums, options].concat();
    let ranks = places.iter().enumerate();
    let ranks = ranks
        .map(|(rank, (host, aggregator))| bench(program, rank, places.len(), host, aggregator, &arguments));
    let outputs = run_all(ranks, limit);
    assert_success(&outputs);
    let figures: Value = serde_json::from_slice(&outputs[0].stdout).expect("one size's figures");
    figures["lanes"].as_u64().expect("a number of lanes")
}

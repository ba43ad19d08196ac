//! The demo of `tributary`, at an aggregator that a test has started.

use std::process::Stdio;
use std::time::Duration;

use testnet::Host;

use crate::bench::{assert_success, run_all};
use crate::program::tributary;
use crate::server::CONTROL_PORT;

/// Trains on a host, with losses, at another host's aggregator. Its workers are processes of one host, and sum all the same through
/// the aggregator of another. It fails where a check of it does: the same parameters everywhere, and those of training alone;
/// or where it takes longer than `limit`.
pub fn trains(host: &Host, aggregator: &Host, limit: Duration) {
    let curves = std::env::temp_dir().join(format!("tributary-demo-of-{}", std::process::id()));
    let mut demo = host.command(tributary());
    demo.args(["demo", "--loss", "1%", "--json", "--aggregator"]);
    demo.arg(format!("{}:{CONTROL_PORT}", aggregator.address()));
    demo.arg("--out").arg(&curves);
    demo.stdout(Stdio::piped()).stderr(Stdio::piped());
    let outputs = run_all([demo], limit);
    let _ = std::fs::remove_dir_all(&curves);
    assert_success(&outputs);
}

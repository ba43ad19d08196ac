//! Ranks of `tributary bench allreduce`: each checks every sum.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testnet::Host;

use crate::server::CONTROL_PORT;

/// One rank of a benchmark; `arguments` say what is summed.
pub fn bench(
    program: &Path,
    rank: usize,
    ranks: usize,
    host: &Host,
    aggregator: &Host,
    arguments: &[&str],
) -> Command {
    let mut bench = host.command(program);
    bench.args(["bench", "allreduce", "--world", "netns", "--json"]);
    bench.args([
        "--aggregator",
        &SocketAddr::new(aggregator.address(), CONTROL_PORT).to_string(),
    ]);
    bench.args(["--rank", &rank.to_string(), "--world-size", &ranks.to_string()]);
    bench
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    bench
}

/// Runs all side by side to their end; those that have not ended in time are killed.
pub fn run_all(commands: impl IntoIterator<Item = Command>, limit: Duration) -> Vec<Output> {
    let start = |mut command: Command| command.spawn().expect("a rank starts");
    let children: Vec<_> = commands.into_iter().map(start).collect();
    let pids: Vec<Pid> = children.iter().map(Pid::from_child).collect();
    let (done, watch) = channel::<()>();
    let watchdog = thread::spawn(move || {
        // Ended by `done` being dropped; else the time is over.
        if watch.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            for pid in pids {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    });
    let wait = |child: std::process::Child| child.wait_with_output().expect("a rank ends");
    let outputs = children.into_iter().map(wait).collect();
    drop(done);
    watchdog.join().expect("the watchdog");
    outputs
}

/// All have ended with status 0.
pub fn assert_success(outputs: &[Output]) {
    for (rank, output) in outputs.iter().enumerate() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "rank {rank}: {}: {stderr}",
            output.status
        );
    }
}

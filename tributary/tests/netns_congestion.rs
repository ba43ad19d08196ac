//! Shared ways: incast at a switch with a short queue, two jobs at one bottleneck, marks of the network.
//!
//! `cargo xtask test` runs these as root. What is counted are packets, never time.

use std::process::Command;
use std::time::{Duration, Instant};

use testjob::{LIMIT, Process, Server, assert_success, run_all};
use testnet::{Host, Link, Net};

const TRIBUTARY: &str = env!("CARGO_BIN_EXE_tributary");

/// The window that a job would have on a fast network.
const WINDOW: &str = "256";

struct Cluster {
    aggregator: Host,
    workers: Vec<Host>,
    // Dropped after the handles: it ends what still runs inside.
    _net: Net,
}

impl Cluster {
    /// The aggregator behind the switch's port that all share.
    fn new(prefix: &str, workers: usize, shared: Link) -> Self {
        let mut net = Net::new(prefix).expect("a network");
        let aggregator = net.add_host("agg", shared).expect("the aggregator's host");
        let link = Link {
            cut: true,
            ..Link::default()
        };
        let workers =
            (0..workers).map(|rank| net.add_host(&format!("w{rank}"), link.clone()).expect("a host"));
        Self {
            aggregator,
            workers: workers.collect(),
            _net: net,
        }
    }

    fn serve(&self) -> Process {
        Server::new(TRIBUTARY, &["serve"]).start(&self.aggregator, None)
    }

    /// A rank of a world whose first host has this number.
    fn rank(&self, world: &str, first: usize, rank: usize, ranks: usize, arguments: &[&str]) -> Command {
        let mut command = self.workers[first + rank].command(TRIBUTARY);
        command.args([
            "bench",
            "allreduce",
            "--json",
            "--world",
            world,
            "--window",
            WINDOW,
        ]);
        command.args(["--aggregator", &format!("{}:4600", self.aggregator.address())]);
        command.args(["--rank", &rank.to_string(), "--world-size", &ranks.to_string()]);
        command
            .args(arguments)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command
    }

    /// What rank 0 says of all ranks when they have ended; each of them checks every sum.
    fn reduce(&self, arguments: &[&str]) -> String {
        let ranks = self.workers.len();
        let commands = (0..ranks).map(|rank| self.rank("shared", 0, rank, ranks, arguments));
        let outputs = run_all(commands, LIMIT);
        assert_success(&outputs);
        String::from_utf8_lossy(&outputs[0].stdout).into_owned()
    }
}

/// 50 packets of 1500 bytes, as a cheap switch has for a port.
fn shallow() -> Link {
    Link {
        queue: Some(75_000),
        cut: true,
        ..Link::with_rate("300mbit")
    }
}

fn number(figures: &str, name: &str) -> u64 {
    let after = figures.split(&format!("\"{name}\":")).nth(1).expect(name);
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect(name)
}

#[test]
#[ignore = "needs root"]
fn netns_incast_at_a_short_queue_is_not_answered_with_more() {
    let cluster = Cluster::new("trib-incast", 4, shallow());
    let _aggregator = cluster.serve();
    let figures = cluster.reduce(&["--bytes", "10MiB", "--iterations", "2", "--warmup", "1"]);
    let (sent, resent) = (number(&figures, "packets_sent"), number(&figures, "resends"));
    // With the whole window in flight nearly two resends came on each chunk.
    assert!(resent < sent / 3, "{resent} of {sent}: {figures}");
    assert!(number(&figures, "congestion_decreases") > 0, "{figures}");
    assert!(number(&figures, "congestion_window") < 128, "{figures}");
}

#[test]
#[ignore = "needs root"]
fn netns_two_jobs_share_a_way() {
    let cluster = Cluster::new("trib-share", 4, shallow());
    let _aggregator = cluster.serve();
    let arguments = ["--bytes", "20MiB", "--iterations", "4", "--warmup", "0"];
    let mut ranks: Vec<Process> = [("one", 0), ("two", 2)]
        .into_iter()
        .flat_map(|(world, first)| (0..2).map(move |rank| (world, first, rank)))
        .map(|(world, first, rank)| Process::start(&mut cluster.rank(world, first, rank, 2, &arguments)))
        .collect();
    let deadline = Instant::now() + LIMIT;
    while !ranks.iter_mut().any(Process::has_ended) {
        assert!(Instant::now() < deadline, "neither job ends");
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = |host: usize| cluster.workers[host].counters().expect("counters").tx_bytes;
    let (one, two) = (sent(0), sent(2));
    for rank in &mut ranks {
        let status = rank.wait(LIMIT);
        assert!(status.success(), "{}", rank.complaint());
    }
    assert!(
        4 * one.min(two) >= one + two,
        "{one} and {two} bytes while both ran"
    );
}

#[test]
#[ignore = "needs root"]
fn netns_marks_reach_the_members_and_make_windows_smaller() {
    let cluster = Cluster::new("trib-marks", 2, Link::default());
    let _aggregator = cluster.serve();
    // Marks what is above a rate, as a switch does whose queue grows. The limit counts joined datagrams as one.
    let rules = "table inet marks { chain in { type filter hook input priority 0; \
                 udp dport 4601 ip ecn ect0 limit rate over 500/second burst 5 packets counter ip ecn set ce; }; }";
    let status = cluster.aggregator.command("nft").arg(rules).status();
    assert!(status.expect("nft starts").success(), "nft takes the rules");
    let figures = cluster.reduce(&["--bytes", "20MiB", "--iterations", "3", "--warmup", "0"]);
    assert!(number(&figures, "marked") > 0, "{figures}");
    assert!(number(&figures, "congestion_decreases") > 0, "{figures}");
}

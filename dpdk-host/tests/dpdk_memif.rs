//! Ranks and the aggregator as processes with a memif between each rank and the aggregator's port for it: no kernel moves a packet.
//! Some are killed. `TRIBUTARY_TEST_LOG=1` shows what all processes say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use agg_control::ControlClient;
use testjob::{Output, Process};

#[path = "memif/rank.rs"]
mod rank_process;

use rank_process::{LIMIT, TOLD, Told};

#[test]
#[ignore = "a rank of another test"]
fn rank() {
    rank_process::run_if_rank();
}

fn is_verbose() -> bool {
    std::env::var_os("TRIBUTARY_TEST_LOG").is_some()
}

/// What a process says, line by line.
struct Said {
    process: Process,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Said {
    fn start(command: &mut Command, of: Output) -> Self {
        let (mut output, mut error) = if is_verbose() {
            (Stdio::inherit(), Stdio::inherit())
        } else {
            (Stdio::null(), Stdio::null())
        };
        match of {
            Output::Standard => output = Stdio::piped(),
            Output::Error => error = Stdio::piped(),
        }
        command.stdin(Stdio::null()).stdout(output).stderr(error);
        let mut process = Process::start(command);
        Self {
            lines: process.lines(of),
            process,
            heard: Vec::new(),
        }
    }

    /// The next line that begins so, which is said in time.
    fn hear(&mut self, beginning: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("nothing begins with {beginning:?}: {:#?}", self.heard);
            };
            self.heard.push(line.clone());
            if line.starts_with(beginning) {
                return line;
            }
        }
    }
}

/// The aggregator, with a port for each rank.
struct Cluster {
    name: String,
    shards: u16,
    ranks: u32,
    control: SocketAddr,
    aggregator: Said,
}

impl Cluster {
    fn start(name: &str, shards: u16, ranks: u32) -> Self {
        let name = format!("trib-{name}-{}", std::process::id());
        // Free now; the aggregator is started again at the same one.
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let control = free.local_addr().expect("an address");
        drop(free);
        let aggregator = aggregator(&name, shards, ranks, control);
        Self {
            name,
            shards,
            ranks,
            control,
            aggregator,
        }
    }

    fn restart(&mut self) {
        self.aggregator.process.kill();
        self.aggregator = aggregator(&self.name, self.shards, self.ranks, self.control);
    }

    fn rank(&self, world: &str, rank: u32, operations: u32, elements: usize) -> Said {
        let told = Told {
            world: world.to_owned(),
            rank,
            size: self.ranks,
            control: self.control,
            socket: socket(&self.name, rank),
            streams: self.shards,
            operations,
            elements,
        };
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "rank", "--ignored", "--nocapture"])
            .env(TOLD, told.to_text());
        Said::start(&mut command, Output::Standard)
    }

    fn world(&self, world: &str, operations: u32, elements: usize) -> Vec<Said> {
        let rank = |rank| self.rank(world, rank, operations, elements);
        (0..self.ranks).map(rank).collect()
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let control = ControlClient::connect(&self.control.to_string(), None, Duration::from_secs(10));
        let status = control.expect("it answers").status().expect("a status");
        status.total.into_iter().collect()
    }

    fn stop(mut self) {
        let status = self.aggregator.process.stop();
        assert!(status.success(), "it ends when it is told to: {status}");
    }
}

fn socket(name: &str, rank: u32) -> String {
    format!("{name}-{rank}")
}

fn aggregator(name: &str, shards: u16, ranks: u32, control: SocketAddr) -> Said {
    let cores: Vec<String> = (0..shards).map(|shard| format!("{shard}@(0-1)")).collect();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_dpdk-host"));
    serve.args(["serve", "--data-addr", "10.77.0.1:4601", "--shards"]);
    serve.arg(shards.to_string());
    serve.args(["--control-addr", &control.to_string()]);
    for rank in 0..ranks {
        serve.args(["--port", &format!("net_memif{rank}")]);
    }
    let config = std::env::temp_dir().join(format!("{name}.toml"));
    // Ranks register over loopback, and have other addresses on their memifs.
    let settings = "[control]\nlost_after = 4\nheartbeat = 0.5\nallow_any_address = true\n";
    std::fs::write(&config, settings).expect("a file");
    serve.arg("--config").arg(&config).arg("--");
    serve.args("--no-huge -m 64 --no-pci --no-shconf --no-telemetry --log-level 3 --lcores".split(' '));
    serve.arg(cores.join(","));
    for rank in 0..ranks {
        let socket = socket(name, rank);
        serve.args([
            "--vdev",
            &format!("net_memif{rank},role=server,rsize=9,socket={socket}"),
        ]);
    }
    let mut said = Said::start(&mut serve, Output::Error);
    said.hear("aggregating: ");
    let _ = std::fs::remove_file(&config);
    said
}

/// Of the lengths one is no whole number of chunks, and one less than a chunk.
#[test]
fn two_ranks_sum_over_two_ports_on_two_shards() {
    let cluster = Cluster::start("memif", 2, 2);
    for (world, elements) in [("a", 1), ("b", 100_003)] {
        let mut ranks = cluster.world(world, 3, elements);
        for rank in &mut ranks {
            rank.hear("done");
        }
        // They close their ports while the aggregator polls.
        for rank in &mut ranks {
            assert!(rank.process.wait(LIMIT).success());
        }
    }
    let counted = cluster.counters();
    assert!(counted["frames_handed_over"] > 1000, "{counted:?}");
    assert!(counted["slots_completed"] >= 2 * 3 * 285, "{counted:?}");
    cluster.stop();
}

/// Its port loses the peer's memory while the aggregator uses it, again and again.
#[test]
fn ranks_that_end_or_are_killed_leave_the_aggregator_running() {
    let cluster = Cluster::start("memifkill", 1, 2);
    for (turn, is_killed) in [(0, true), (1, false), (2, true), (3, true)] {
        let world = format!("world{turn}");
        let operations = if is_killed { 100_000 } else { 20 };
        let mut ranks = cluster.world(&world, operations, 50_000);
        for rank in &mut ranks {
            rank.hear("summed 2");
        }
        if is_killed {
            ranks[1].process.kill();
            let failed = ranks[0].hear("failed: ");
            assert!(
                failed.contains("member 1") || failed.contains("rank 1"),
                "{failed}"
            );
        } else {
            for rank in &mut ranks {
                rank.hear("done");
                assert!(rank.process.wait(LIMIT).success());
            }
        }
    }
    cluster.stop();
}

#[test]
fn ranks_go_on_at_an_aggregator_that_is_killed_and_started_again() {
    let mut cluster = Cluster::start("memifagain", 2, 2);
    let mut ranks = cluster.world("again", 60, 200_000);
    for rank in &mut ranks {
        rank.hear("summed 3");
    }
    cluster.restart();
    for rank in &mut ranks {
        rank.hear("resumed epoch ");
    }
    for rank in &mut ranks {
        rank.hear("done");
        assert!(rank.process.wait(LIMIT).success());
    }
    assert!(cluster.counters()["slots_completed"] > 0);
    cluster.stop();
}

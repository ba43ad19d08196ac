//! Whole jobs without the kernel's way for packets: ranks and the aggregator as processes with a memif between each rank and the
//! aggregator's port for it. Some are killed. `TRIBUTARY_TEST_LOG=1` shows what all processes say.

use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use dpdk_host::{DpdkHost, HostConfig};
use testjob::{Output, Process};

/// Nothing is waited for longer.
const LIMIT: Duration = Duration::from_secs(100);

const RANKS: u32 = 2;

const EAL: &str = "--no-huge -m 128 --no-pci --no-shconf --no-telemetry --log-level 3 --lcores";

/// Names the variable with what an aggregator is told.
const TOLD: &str = "TRIBUTARY_TEST_AGGREGATOR";

#[test]
#[ignore = "an aggregator of another test"]
fn aggregator() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let config: HostConfig = toml::from_str(&told).expect("settings");
    let host = DpdkHost::start(&config).expect("it starts");
    println!("\naggregating: {}", host.summary());
    // Until the test says that it is enough, or is gone itself.
    let _ = std::io::stdin().read(&mut [0]);
    host.shutdown();
}

/// How a world is wired.
#[derive(Clone, Copy)]
struct Wiring {
    name: &'static str,
    shards: u16,
    /// Queues of each port.
    queues: u16,
    is_ipv6: bool,
    vlan: Option<u16>,
    /// Bytes of the largest IP packet.
    mtu: u16,
    lanes: u32,
}

impl Wiring {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            shards: 1,
            queues: 1,
            is_ipv6: false,
            vlan: None,
            mtu: 1500,
            lanes: 352,
        }
    }

    /// The data address of the aggregator, which is 1, or of a rank.
    fn address(&self, number: u32, port: u16) -> String {
        if self.is_ipv6 {
            format!("[fd77::{number}]:{port}")
        } else {
            format!("10.77.0.{number}:{port}")
        }
    }

    fn memif(&self, port: u32, role: &str) -> String {
        let socket = format!("trib-{}-{}-{port}", self.name, std::process::id());
        format!("net_memif{port},role={role},bsize=9216,rsize=9,socket={socket}")
    }
}

/// A process, and what it says.
struct Said {
    process: Process,
    lines: Receiver<String>,
    complaints: Receiver<String>,
}

impl Said {
    fn start(command: &mut Command) -> Self {
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = Process::start(command);
        Self {
            lines: process.lines(Output::Standard),
            complaints: process.lines(Output::Error),
            process,
        }
    }

    /// The next line that begins so, which is said in time.
    fn hear(&self, beginning: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        let mut heard = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.starts_with(beginning) => return line,
                Ok(line) => heard.push(line),
                Err(_) => panic!(
                    "nothing begins with {beginning}: {heard:?} {:?}",
                    self.complaints.try_iter().collect::<Vec<_>>()
                ),
            }
        }
    }

    /// The digest of all sums of a rank that ends well.
    fn digest(&mut self) -> String {
        let figures = self.hear("{\"rank\"");
        assert!(self.process.wait(LIMIT).success());
        let figures: serde_json::Value = serde_json::from_str(&figures).expect("JSON");
        figures["digest"].as_str().expect("a digest").to_owned()
    }

    /// What a rank that fails complains of.
    fn complaint(&mut self) -> String {
        assert!(!self.process.wait(LIMIT).success(), "it fails");
        self.complaints.iter().collect::<Vec<_>>().join("\n")
    }
}

/// The aggregator, with a port for each rank.
struct Cluster {
    wiring: Wiring,
    control: SocketAddr,
    aggregator: Said,
}

impl Cluster {
    fn start(wiring: Wiring) -> Self {
        let here = if wiring.is_ipv6 { "[::1]:0" } else { "127.0.0.1:0" };
        // Free now; the aggregator is started again at the same one.
        let free = std::net::TcpListener::bind(here).expect("a port");
        let control = free.local_addr().expect("an address");
        drop(free);
        let aggregator = Self::aggregator(wiring, control);
        Self {
            wiring,
            control,
            aggregator,
        }
    }

    fn aggregator(wiring: Wiring, control: SocketAddr) -> Said {
        let cores: Vec<String> = (0..wiring.shards).map(|shard| format!("{shard}@(0-1)")).collect();
        let mut eal = format!("{EAL} {}", cores.join(","));
        for rank in 0..RANKS {
            eal += &format!(" --vdev {}", wiring.memif(rank, "server"));
        }
        let eal: Vec<&str> = eal.split(' ').collect();
        let ports: Vec<String> = (0..RANKS).map(|rank| format!("net_memif{rank}")).collect();
        let vlan = wiring
            .vlan
            .map_or_else(String::new, |vlan| format!("vlan = {vlan}"));
        let prefix = if wiring.is_ipv6 { 64 } else { 24 };
        // Ranks register over loopback, and have other addresses on their memifs.
        let config = format!(
            "eal = {eal:?}\nports = {ports:?}\ndata_addr = '{}'\ncontrol_addr = '{control}'\nshards = {}\nqueues = {}\n\
             mtu = {}\nmbuf_room = 9216\nprefix = {prefix}\n{vlan}\n\
             [control]\nlost_after = 4.0\nheartbeat = 0.5\nallow_any_address = true\n",
            wiring.address(1, 4601),
            wiring.shards,
            wiring.queues,
            wiring.mtu
        );
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "aggregator", "--ignored", "--nocapture"])
            .env(TOLD, config);
        let said = Said::start(&mut command);
        said.hear("aggregating: ");
        said
    }

    /// The aggregator is killed and started again.
    fn restart(&mut self) {
        self.aggregator.process.kill();
        self.aggregator = Self::aggregator(self.wiring, self.control);
    }

    /// A rank of two that makes so many sums.
    fn rank(&self, rank: u32, sums: u32, dtype: &str) -> Said {
        let Wiring {
            mtu, queues, vlan, ..
        } = self.wiring;
        let mut command = rank_command(self.control, rank, sums, dtype, self.wiring.lanes);
        command.args(["--address", &self.wiring.address(10 + rank, 4700)]);
        command.args(["--mtu", &mtu.to_string(), "--queues", &queues.to_string()]);
        command.args(vlan.map(|vlan| format!("--vlan={vlan}")));
        command.arg("--").args(EAL.split(' ')).args([
            "0@(0-1)",
            "--vdev",
            &self.wiring.memif(rank, "client"),
        ]);
        Said::start(&mut command)
    }

    fn world(&self, sums: u32, dtype: &str) -> Vec<Said> {
        (0..RANKS).map(|rank| self.rank(rank, sums, dtype)).collect()
    }
}

/// The part that is the same whatever carries packets. The tensor is no whole number of chunks.
fn rank_command(control: SocketAddr, rank: u32, sums: u32, dtype: &str, lanes: u32) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dpdk-worker"));
    command.args(["allreduce", "--json", "--aggregator", &control.to_string()]);
    command.args(["--rank", &rank.to_string(), "--size", &RANKS.to_string()]);
    command.args([
        "--bytes",
        "2000012",
        "--dtype",
        dtype,
        "--lanes",
        &lanes.to_string(),
    ]);
    command.args(["--warmup", "0", "--repeat", &sums.to_string(), "--world", dtype]);
    command
}

/// The digest of the same sums through the kernel.
fn through_the_kernel(lanes: u32, sums: u32, dtype: &str) -> String {
    let host = udp_host::UdpHost::start(&udp_host::HostConfig::loopback()).expect("it starts");
    let rank =
        |rank| Said::start(rank_command(host.control_addr(), rank, sums, dtype, lanes).arg("--kernel"));
    let mut ranks: Vec<Said> = (0..RANKS).map(rank).collect();
    let digests: Vec<String> = ranks.iter_mut().map(Said::digest).collect();
    assert_eq!(digests[0], digests[1]);
    digests[0].clone()
}

fn sums_are_those_through_the_kernel(wiring: Wiring) {
    let cluster = Cluster::start(wiring);
    for dtype in ["f32", "i32"] {
        let kernel = through_the_kernel(wiring.lanes, 3, dtype);
        let mut ranks = cluster.world(3, dtype);
        let digests: Vec<String> = ranks.iter_mut().map(Said::digest).collect();
        assert_eq!(digests, [kernel.clone(), kernel], "{dtype}");
    }
}

#[test]
fn sums_have_the_bits_of_those_through_the_kernel() {
    sums_are_those_through_the_kernel(Wiring::new("bits"));
}

/// Both streams share one queue: each gets frames of the other.
#[test]
fn two_streams_share_a_queue() {
    sums_are_those_through_the_kernel(Wiring {
        shards: 2,
        ..Wiring::new("share")
    });
}

#[test]
fn two_streams_have_queues_of_their_own_over_ipv6_in_a_vlan_with_jumbo_frames() {
    sums_are_those_through_the_kernel(Wiring {
        shards: 2,
        queues: 2,
        is_ipv6: true,
        vlan: Some(7),
        mtu: 9000,
        lanes: 2048,
        ..Wiring::new("jumbo")
    });
}

#[test]
fn a_rank_that_is_killed_is_named_by_the_other() {
    let cluster = Cluster::start(Wiring::new("killed"));
    let mut ranks = cluster.world(100_000, "i32");
    for rank in &ranks {
        rank.hear("{\"round\":3}");
    }
    ranks[1].process.kill();
    let complaint = ranks[0].complaint();
    let is_named =
        complaint.contains("rank 1 was lost") || complaint.contains("rank 1 (10.77.0.11:4700) not heard");
    assert!(is_named, "{complaint}");
}

/// Its ports have other Ethernet addresses then, and net_memif has to be told to look for it.
#[test]
fn sums_go_on_at_an_aggregator_that_is_killed_and_started_again() {
    const SUMS: u32 = 40;
    let kernel = through_the_kernel(352, SUMS, "f32");
    let mut cluster = Cluster::start(Wiring::new("again"));
    let mut ranks = cluster.world(SUMS, "f32");
    for rank in &ranks {
        rank.hear("{\"round\":3}");
    }
    cluster.restart();
    let digests: Vec<String> = ranks.iter_mut().map(Said::digest).collect();
    assert_eq!(digests, [kernel.clone(), kernel]);
}

#[test]
fn an_aggregator_that_is_stopped_says_so() {
    let mut cluster = Cluster::start(Wiring::new("stopped"));
    let mut ranks = cluster.world(100_000, "i32");
    for rank in &ranks {
        rank.hear("{\"round\":3}");
    }
    // The end of its standard input.
    cluster.aggregator.process.close_input();
    for rank in &mut ranks {
        let complaint = rank.complaint();
        assert!(
            complaint.contains("ended by the aggregator") || complaint.contains("shut down"),
            "{complaint}"
        );
    }
    assert!(cluster.aggregator.process.wait(LIMIT).success());
}

#[test]
fn what_is_wrong_with_the_way_is_said() {
    let cluster = Cluster::start(Wiring::new("wrong"));
    let complaint = |address: &str, device: &str| {
        let mut command = rank_command(cluster.control, 0, 1, "i32", 352);
        command
            .args(["--address", address])
            .args(["--", "--vdev", device])
            .args(EAL.split(' '))
            .arg("0@(0-1)");
        Said::start(&mut command).complaint()
    };
    let memif = cluster.wiring.memif(0, "client");
    for (address, device, expected) in [
        (
            "10.78.0.10:4700",
            memif.as_str(),
            "10.77.0.1:4601 is not in 10.78.0.10/24: give a gateway, or another prefix",
        ),
        (
            "[fd77::10]:4700",
            &memif,
            "data address is 10.77.0.1:4601, the port's fd77::10: give both of one family",
        ),
        (
            "10.77.0.10:4700",
            "net_ring0",
            "nobody answers for 10.77.0.1 at port net_ring0",
        ),
        ("10.77.0.10:4700", "net_nothing0", "DPDK"),
    ] {
        let complaint = complaint(address, device);
        assert!(complaint.contains(expected), "{complaint}");
    }
}

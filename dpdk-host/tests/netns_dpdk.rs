//! Whole jobs through the poll-mode host on a veth: ordinary ranks in network namespaces, the aggregator at net_af_packet in
//! another. No test here asserts a speed. `TRIBUTARY_TEST_LOG=1` shows what all processes say.

use std::process::Output;
use std::time::Duration;

use testjob::{Rank, Server, Work, assert_success, bench, counters, run_all, sums};
use testnet::{Host, Link, Net};

const RANKS: usize = 4;

/// The queue of the device holds 512 frames: four ranks with windows of this size are half of that.
const WINDOW: u32 = 64;

/// From nothing over a part of a chunk to several windows, none of them whole chunks.
const LENGTHS: &[usize] = &[1, 351, 1000, 22_531, 0, 300_007];

const EAL: &str = "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --log-level 3 -l 0";

const LIMIT: Duration = Duration::from_secs(200);

#[test]
#[ignore = "a rank of another test"]
fn rank() {
    testjob::run_if_rank();
}

/// The aggregator at a host's link.
fn dpdk() -> Server {
    let eal = format!("{EAL} --vdev net_af_packet0,iface=eth0");
    let arguments = ["serve", "--idle", "yield", "--eal", &eal];
    Server::new(env!("CARGO_BIN_EXE_dpdk-host"), &arguments)
}

/// The aggregator in user space.
fn udp() -> Server {
    Server::new(testjob::tributary(), &["serve"])
}

/// Two hosts for aggregators, and the ranks'.
struct Cluster {
    aggregator: Host,
    other: Host,
    workers: Vec<Host>,
    // Dropped after the handles: it ends what still runs inside.
    _net: Net,
}

impl Cluster {
    fn new(prefix: &str) -> Self {
        let mut net = Net::new(prefix).expect("a network");
        // A port's frames are of the size that a device would cut, as with XDP.
        let link = Link {
            xdp: true,
            ..Link::default()
        };
        let aggregator = net.add_host("agg", link).expect("a host");
        let other = net.add_host("other", Link::default()).expect("a host");
        let worker = |rank| {
            net.add_host(&format!("w{rank}"), Link::default())
                .expect("a host")
        };
        Self {
            workers: (0..RANKS).map(worker).collect(),
            aggregator,
            other,
            _net: net,
        }
    }

    fn sums_at(&self, host: &Host, work: &Work) -> Vec<String> {
        let ranks = (0..).zip(&self.workers);
        let ranks = ranks.map(|(rank, worker)| Rank::start(work.command(rank, worker, &[host])));
        sums(work, &ranks.collect::<Vec<_>>())
    }
}

#[test]
#[ignore = "needs root"]
fn netns_four_workers_get_the_bits_of_user_space_with_and_without_loss() {
    let cluster = Cluster::new("trib-dpdk-bits");
    let work = Work {
        lanes: Some(352),
        window: Some(WINDOW),
        ..Work::new("bits", RANKS as u32).of(2 * LENGTHS.len(), LENGTHS)
    };
    let flat = {
        let _aggregator = udp().start(&cluster.other, None);
        cluster.sums_at(&cluster.other, &work)
    };
    let mut aggregator = dpdk().start(&cluster.aggregator, None);
    for loss in [0, 1] {
        let before = counters(&cluster.aggregator);
        let results = cluster.sums_at(&cluster.aggregator, &work.clone().with_loss(loss));
        assert_eq!(results, flat, "{loss} % of packets lost");
        let after = counters(&cluster.aggregator);
        let counted = |name: &str| after[name] - before[name];
        assert!(counted("contributions_merged") > 0, "{after:?}");
        assert!(
            counted("frames_sent") >= 4 * counted("slots_completed"),
            "{after:?}"
        );
        if loss > 0 {
            assert!(
                counted("results_replayed") + counted("wants_sent") > 0,
                "{after:?}"
            );
        }
    }
    let status = aggregator.stop();
    assert!(status.success(), "it stops when it is told to: {status}");
}

/// 25 000 chunks of 352 lanes, three times, every lane checked by every rank.
fn bench_at(cluster: &Cluster, loss: &str) -> Vec<Output> {
    let window = WINDOW.to_string();
    let sums = [
        "--bytes",
        "35200000",
        "--dtype",
        "i32",
        "--iterations",
        "3",
        "--warmup",
        "0",
        "--window",
        &window,
        "--loss",
        loss,
    ];
    let tributary = testjob::tributary();
    let rank = |rank| {
        bench(
            &tributary,
            rank,
            RANKS,
            &cluster.workers[rank],
            &cluster.aggregator,
            &sums,
        )
    };
    run_all((0..RANKS).map(rank), LIMIT)
}

#[test]
#[ignore = "needs root"]
fn netns_four_ranks_of_tributary_bench_sum_with_and_without_loss() {
    let cluster = Cluster::new("trib-dpdk-bench");
    let _aggregator = dpdk().start(&cluster.aggregator, None);
    for loss in ["0%", "1%"] {
        let outputs = bench_at(&cluster, loss);
        assert_success(&outputs);
        let figures = String::from_utf8_lossy(&outputs[0].stdout);
        println!("{loss} lost: {figures}");
        assert!(figures.contains("\"lanes\":352"), "{figures}");
    }
    let counted = counters(&cluster.aggregator);
    assert!(counted["slots_completed"] >= 150_000, "{counted:?}");
}

#[test]
#[ignore = "needs root"]
fn netns_ranks_are_told_when_it_stops() {
    let cluster = Cluster::new("trib-dpdk-stop");
    let mut aggregator = dpdk().start(&cluster.aggregator, None);
    let work = Work {
        window: Some(WINDOW),
        ..Work::new("stop", RANKS as u32).of(100_000, &[300_007])
    };
    let ranks = (0..).zip(&cluster.workers);
    let ranks = ranks.map(|(rank, worker)| Rank::start(work.command(rank, worker, &[&cluster.aggregator])));
    let ranks: Vec<Rank> = ranks.collect();
    for rank in &ranks {
        rank.hear(2);
    }
    assert!(aggregator.stop().success());
    for rank in &ranks {
        let error = rank.hear_all().error.expect("an error");
        assert!(error.contains("shut") || error.contains("stop"), "{error}");
    }
}

#[test]
#[ignore = "needs root"]
fn netns_the_address_can_be_pinged_though_the_kernel_does_not_have_it() {
    let cluster = Cluster::new("trib-dpdk-ping");
    let mut serve = cluster.aggregator.command(env!("CARGO_BIN_EXE_dpdk-host"));
    serve.args(["serve", "--data-addr", "10.77.0.200:4601", "--control-addr"]);
    serve.arg(format!("{}:4600", cluster.aggregator.address()));
    serve
        .arg("--")
        .args(EAL.split(' '))
        .args(["--vdev", "net_af_packet0,iface=eth0"]);
    let mut process = testjob::Process::start(&mut serve);
    let mut last = None;
    let is_answered = (0..50).any(|_| {
        let mut ping = cluster.workers[0].command("ping");
        let output = ping
            .args(["-c", "1", "-W", "1", "10.77.0.200"])
            .output()
            .expect("ping starts");
        let is_answered = output.status.success();
        last = Some(output);
        is_answered
    });
    assert!(is_answered, "{last:?}");
    assert!(process.stop().success());
}

#[test]
#[ignore = "needs root"]
fn netns_check_says_what_the_port_is() {
    let cluster = Cluster::new("trib-dpdk-check");
    let check = |device: &str| {
        let mut check = cluster.aggregator.command(env!("CARGO_BIN_EXE_dpdk-host"));
        check
            .args(["check", "--"])
            .args(EAL.split(' '))
            .args(["--vdev", device]);
        check.output().expect("it starts")
    };
    let output = check("net_af_packet0,iface=eth0");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.contains("port net_af_packet0: net_af_packet") && text.contains("MTU 1500"),
        "{text}"
    );
    let output = check("net_af_packet0,iface=nothing");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("NO  "), "{output:?}");
}

//! Whole jobs through the poll-mode host on a veth: ordinary ranks in network namespaces, the aggregator at net_af_packet in
//! another. No test here asserts a speed. `TRIBUTARY_TEST_LOG=1` shows what all processes say.

use std::collections::BTreeMap;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use dpdk_host::dpdk::{BURST, Burst, Device, Eal, Pool, Port, PortConfig};
use testjob::{Rank, Server, Work, assert_success, bench, counters, lanes, run_all, sums, sums_after};
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

/// The same for frames of 9000 bytes.
fn jumbo() -> Server {
    let eal = format!("{EAL} --vdev net_af_packet0,iface=eth0,framesz=9216,blocksz=36864");
    let arguments = [
        "serve",
        "--idle",
        "yield",
        "--mtu",
        "9000",
        "--mbuf-room",
        "9216",
        "--eal",
        &eal,
    ];
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
    net: Net,
}

impl Cluster {
    fn new(prefix: &str) -> Self {
        Self::with_mtu(prefix, Link::default().mtu)
    }

    fn with_mtu(prefix: &str, mtu: u32) -> Self {
        let mut net = Net::new(prefix).expect("a network");
        let link = Link {
            mtu,
            ..Link::default()
        };
        // A port's frames are of the size that a device would cut, as with XDP.
        let cut = Link {
            xdp: true,
            ..link.clone()
        };
        let aggregator = net.add_host("agg", cut).expect("a host");
        let other = net.add_host("other", link.clone()).expect("a host");
        let worker = |rank| net.add_host(&format!("w{rank}"), link.clone()).expect("a host");
        Self {
            workers: (0..RANKS).map(worker).collect(),
            aggregator,
            other,
            net,
        }
    }

    /// The same hosts as they are known otherwise.
    fn all(mut self, otherwise: impl Fn(&Host) -> Host) -> Self {
        self.aggregator = otherwise(&self.aggregator);
        self.other = otherwise(&self.other);
        self.workers = self.workers.iter().map(otherwise).collect();
        self
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

/// The bits of user space, with chunks of so many lanes and 1 % of packets lost; `started` is done before ranks start.
fn gets_the_bits_of_user_space(
    cluster: &Cluster,
    server: &Server,
    lanes: u32,
    started: impl FnOnce(),
) -> BTreeMap<String, u64> {
    let work = Work {
        lanes: Some(lanes),
        window: Some(WINDOW),
        ..Work::new("bits", RANKS as u32).of(2 * LENGTHS.len(), LENGTHS)
    };
    let flat = {
        let _aggregator = udp().start(&cluster.other, None);
        cluster.sums_at(&cluster.other, &work)
    };
    let mut aggregator = server.start(&cluster.aggregator, None);
    started();
    let results = cluster.sums_at(&cluster.aggregator, &work.with_loss(1));
    assert_eq!(results, flat);
    let counted = counters(&cluster.aggregator);
    assert!(counted["contributions_merged"] > 0, "{counted:?}");
    assert!(aggregator.stop().success());
    counted
}

#[test]
#[ignore = "needs root"]
fn netns_ranks_over_ipv6_get_the_bits_of_user_space() {
    let cluster = Cluster::new("trib-dpdk-v6").all(|host| host.over_ipv6().expect("an IPv6 address"));
    // Over IPv6 352 lanes do not fit a frame.
    let counted = gets_the_bits_of_user_space(&cluster, &dpdk(), 256, || ());
    assert!(
        counted["frames_sent"] >= 4 * counted["slots_completed"],
        "{counted:?}"
    );
}

/// The VLAN of the tests.
const VLAN: u16 = 7;

/// What a switch does between a port without tags and one with: the kernel of a test machine may not know VLANs.
#[test]
#[ignore = "a part of another test"]
fn tagger() {
    if std::env::var_os("TRIBUTARY_TAGGER").is_none() {
        return;
    }
    let arguments: Vec<&str> = EAL.split(' ').collect();
    let eal = Eal::start(&arguments).expect("DPDK starts");
    let pool = Pool::new(&eal, "frames", 8191, 2048, None).expect("a pool");
    let port = |interface: &str| {
        let name = format!("net_af_packet_{interface}");
        let device = Device::add(&eal, &name, &format!("iface={interface}")).expect("a device");
        let (port, mut queues) = Port::start(device, &pool, &PortConfig::default()).expect("a port");
        (port, queues.pop().expect("a queue"))
    };
    let ((_plain, mut plain), (_tagged, mut tagged)) = (port("eth0"), port("tag0"));
    println!("forwarding");
    let (mut received, mut sent) = (Burst::default(), Burst::default());
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        plain.receive(BURST, &mut received);
        for mut mbuf in received.drain() {
            assert!(mbuf.insert_tag(VLAN) && sent.push(mbuf).is_ok());
        }
        tagged.send(&mut sent);
        sent.drain().for_each(drop);
        tagged.receive(BURST, &mut received);
        for mut mbuf in received.drain() {
            // What has no tag does not get through.
            let frame = mbuf.bytes_mut();
            if frame[12..16] == [0x81, 0, 0, VLAN as u8] {
                let len = frame.len();
                frame.copy_within(16..len, 12);
                mbuf.set_len(len - 4);
                assert!(sent.push(mbuf).is_ok());
            }
        }
        plain.send(&mut sent);
        sent.drain().for_each(drop);
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "needs root"]
fn netns_in_a_vlan_ranks_get_the_bits_of_user_space() {
    let mut cluster = Cluster::new("trib-dpdk-vlan");
    let link = Link {
        xdp: true,
        ..Link::default()
    };
    let switch = cluster.net.add_host("tagger", link).expect("a host");
    let aggregator = cluster.aggregator.namespace();
    ip(
        &switch,
        &format!("link add tag0 type veth peer name dpdk0 netns {aggregator}"),
    );
    ip(&switch, "link set tag0 addrgenmode none up");
    ip(&cluster.aggregator, "link set dpdk0 addrgenmode none up");
    let mut tagger = switch.command(std::env::current_exe().expect("this program"));
    tagger.args(["--exact", "tagger", "--ignored", "--nocapture"]);
    let _tagger = testjob::Process::start(tagger.env("TRIBUTARY_TAGGER", "").stdout(Stdio::null()));
    let eal = format!("{EAL} --vdev net_af_packet0,iface=dpdk0");
    let arguments = ["serve", "--vlan", "7", "--eal", &eal];
    let server = Server::new(env!("CARGO_BIN_EXE_dpdk-host"), &arguments);
    let server = server.receiving_at([10, 77, 0, 200].into());
    let counted = gets_the_bits_of_user_space(&cluster, &server, 352, || ());
    assert!(counted["frames_arp_answered"] > 0, "{counted:?}");
    assert_eq!(counted["frames_dropped_vlan"], 0, "{counted:?}");
}

/// Runs `ip` on a host.
fn ip(host: &Host, arguments: &str) {
    let output = host.command("ip").args(arguments.split(' ')).output();
    let output = output.expect("ip starts");
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

/// A chunk of 2048 lanes in a frame.
#[test]
#[ignore = "needs root"]
fn netns_jumbo_frames_get_the_bits_of_user_space() {
    let cluster = Cluster::with_mtu("trib-dpdk-jumbo", 9000);
    let counted = gets_the_bits_of_user_space(&cluster, &jumbo(), 2048, || ());
    assert_eq!(counted["frames_gathered"], 0, "{counted:?}");
}

/// A port that computes checksums, and looks at those that arrive: net_tap, joined to the network by a bridge.
#[test]
#[ignore = "needs root"]
fn netns_checksums_are_the_port_s_where_it_has_them() {
    for (is_ipv6, data, lanes) in [(false, "10.77.0.200", 352), (true, "fd77::200", 256)] {
        let mut cluster = Cluster::new("trib-dpdk-tap");
        if is_ipv6 {
            cluster = cluster.all(|host| host.over_ipv6().expect("an IPv6 address"));
        }
        // The bridge is what the host is known by, and what its link is joined to.
        let aggregator = &cluster.aggregator;
        let prefix = if is_ipv6 { "64 nodad" } else { "24" };
        let address = format!("{}/{prefix}", aggregator.address());
        ip(aggregator, "link add br1 type bridge");
        ip(aggregator, "link set br1 addrgenmode none up");
        ip(aggregator, "address flush dev eth0");
        ip(aggregator, &format!("address add {address} dev br1"));
        ip(aggregator, "link set eth0 master br1");
        let eal = format!("{EAL} --vdev net_tap0,iface=dtap0");
        let server = Server::new(env!("CARGO_BIN_EXE_dpdk-host"), &["serve", "--eal", &eal]);
        let server = server.receiving_at(data.parse().expect("an address"));
        // The kernel's end has the port's own address, which the bridge would take for its own.
        let joined = || {
            ip(
                aggregator,
                "link set dtap0 address 02:00:00:00:00:01 addrgenmode none",
            );
            ip(aggregator, "link set dtap0 master br1 up");
        };
        let counted = gets_the_bits_of_user_space(&cluster, &server, lanes, joined);
        assert_eq!(counted["frames_dropped_bad_checksum"], 0, "{counted:?}");
    }
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
fn netns_the_demo_trains_through_it() {
    let cluster = Cluster::new("trib-dpdk-demo");
    let _aggregator = dpdk().start(&cluster.aggregator, None);
    testjob::trains(&cluster.workers[0], &cluster.aggregator, LIMIT);
}

/// Long enough to be interrupted in the middle.
fn twenty(name: &str) -> Work {
    Work {
        lanes: Some(352),
        window: Some(WINDOW),
        ..Work::new(name, RANKS as u32).of(20, &[1000, 100_000])
    }
}

#[test]
#[ignore = "needs root"]
fn netns_killed_its_ranks_go_on_in_user_space_with_the_same_bits() {
    let cluster = Cluster::new("trib-dpdk-move");
    let work = twenty("moves");
    let flat = {
        let _aggregator = udp().start(&cluster.other, None);
        cluster.sums_at(&cluster.other, &work)
    };
    let mut first = dpdk().patient().start(&cluster.aggregator, None);
    let _second = udp().patient().start(&cluster.other, None);
    let both = [&cluster.aggregator, &cluster.other];
    let ranks = (0..).zip(&cluster.workers);
    let ranks: Vec<Rank> = ranks
        .map(|(rank, worker)| Rank::start(work.command(rank, worker, &both)))
        .collect();
    assert_eq!(sums_after(&work, &ranks, || first.kill()), flat);
}

/// It is the leaf of an aggregator in user space, and two ranks are below each.
#[test]
#[ignore = "needs root"]
fn netns_as_a_leaf_it_gives_the_bits_of_one_aggregator() {
    let cluster = Cluster::new("trib-dpdk-leaf");
    let work = twenty("leaf").with_loss(1);
    let _root = udp().start(&cluster.other, None);
    let flat = cluster.sums_at(&cluster.other, &work);
    let _leaf = dpdk().start(&cluster.aggregator, Some(&cluster.other));
    let place = |rank: u32| {
        if rank < 2 {
            &cluster.aggregator
        } else {
            &cluster.other
        }
    };
    let ranks = (0..).zip(&cluster.workers);
    let ranks: Vec<Rank> = ranks
        .map(|(rank, worker)| Rank::start(work.command(rank, worker, &[place(rank)])))
        .collect();
    assert_eq!(sums(&work, &ranks), flat);
    assert!(counters(&cluster.aggregator)["contributions_forwarded"] > 0);
}

/// The ranks of the leaf reach it whatever they send: what its own way to the root carries decides (R-PROBE-3).
#[test]
#[ignore = "needs root"]
fn netns_probe_3_a_leaf_looks_at_its_way_to_the_root() {
    let link = |mtu| Link {
        mtu,
        ..Link::default()
    };
    for (middle, expected) in [(9000, 2048), (4000, 848), (1500, 352)] {
        let mut net = Net::new("trib-dpdk-way").expect("a network");
        let root = net.add_host("root", link(9000)).expect("the root's host");
        let near = net.add_host("near", link(9000)).expect("a host");
        let rack = net.add_switch("rack", link(middle)).expect("a switch");
        let cut = Link {
            xdp: true,
            ..link(9000)
        };
        let leaf = net.add_host_at(&rack, "leaf", cut).expect("the leaf's host");
        let far = net.add_host_at(&rack, "far", link(9000)).expect("a host");
        let _root = udp().start(&root, None);
        let _leaf = jumbo().start(&leaf, Some(&root));
        let places = [(&near, &root), (&far, &leaf)];
        assert_eq!(
            lanes(&testjob::tributary(), &places, &["--window", "64"], LIMIT),
            expected,
            "a middle hop of {middle} bytes"
        );
    }
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

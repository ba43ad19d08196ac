//! Interfaces of one aggregator: two with ranks behind them, and one that changes under a running job.

use std::process::Command;

use testjob::{Rank, Server, Work, sums, sums_after};
use testnet::{Host, Link, Net};

use crate::cluster::{Cluster, WINDOW, generic, native, udp, xdp_link};

#[test]
#[ignore = "needs root"]
fn netns_ranks_behind_two_interfaces_sum_with_each_other() {
    let mut net = Net::new("trib-xdp-wires").expect("a network");
    let here = net
        .add_host("agg", xdp_link(1500))
        .expect("the aggregator's host");
    let segment = net.add_segment(&here, "segment", xdp_link(1500));
    let (there, segment) = segment.expect("a second network");
    // By turns, and more there than here: numbers of members say nothing of where they are.
    let workers = ["w0", "w1", "w2", "w3", "w4"].map(|name| {
        let is_here = matches!(name, "w0" | "w3");
        let host = if is_here {
            net.add_host(name, Link::default())
        } else {
            net.add_host_at(&segment, name, Link::default())
        };
        (host.expect("a host"), if is_here { &here } else { &there })
    });
    let work = Work {
        window: Some(WINDOW),
        ..Work::new("wires", workers.len() as u32).of(12, &[1, 1000, 0, 200_003])
    };
    let results = |server: &Server, work: &Work| {
        let _aggregator = server.clone().anywhere().start(&here, None);
        let start = |(rank, (host, aggregator)): (u32, &(Host, &Host))| {
            Rank::start(work.command(rank, host, &[*aggregator]))
        };
        let ranks: Vec<Rank> = (0..).zip(&workers).map(start).collect();
        sums(work, &ranks)
    };
    let flat = results(&udp(), &work);
    for server in [native(), generic()] {
        let server = server.with(&["--interface", "eth1"]);
        for loss in [0, 1] {
            let work = work.clone().with_loss(loss);
            assert_eq!(
                results(&server, &work),
                flat,
                "{server:?}, {loss} % of packets lost"
            );
        }
    }
}

const RANKS: u32 = 3;

/// Long enough to be interrupted in the middle.
fn long() -> Work {
    Work {
        window: Some(WINDOW),
        ..Work::new("changes", RANKS).of(20, &[1000, 300_000])
    }
}

/// A running job has the same bits whatever becomes of the aggregator's interface meanwhile.
fn goes_on_when(change: impl Fn(&Cluster)) {
    let cluster = Cluster::new("trib-xdp-change", RANKS);
    let flat = cluster.flat(&long());
    for server in [native(), generic()] {
        let host = server.start(&cluster.aggregator, None);
        let ranks = cluster.start(&long(), &[&cluster.aggregator]);
        let results = sums_after(&long(), &ranks, || change(&cluster));
        assert_eq!(results, flat, "{server:?}");
        drop(host);
    }
}

#[test]
#[ignore = "needs root"]
fn netns_an_interface_that_was_made_anew_gets_the_program_and_the_job_goes_on() {
    goes_on_when(|cluster| cluster.renew_aggregators_link(1500));
}

#[test]
#[ignore = "needs root"]
fn netns_an_interface_that_gets_another_ethernet_address_serves_on() {
    goes_on_when(|cluster| {
        let status = Command::new("ip")
            .args(["-n", cluster.aggregator.namespace()])
            .args(["link", "set", "eth0", "address", "02:77:00:00:00:99"])
            .status();
        assert!(status.expect("ip runs").success());
    });
}

/// What is offered follows the MTU: no restart is needed to use a larger one.
#[test]
#[ignore = "needs root"]
fn netns_an_interface_with_another_mtu_carries_other_chunks() {
    let cluster = Cluster::with_mtu("trib-xdp-mtu", 2, 3500);
    let host = &cluster.aggregator;
    let set = |mtu: &str| {
        let ip = ["-n", host.namespace(), "link", "set", "eth0", "mtu", mtu];
        let status = Command::new("ip").args(ip).status().expect("ip runs");
        assert!(status.success());
    };
    set("1500");
    let _server = native().start(host, None);
    let work = |name| Work {
        window: Some(WINDOW),
        lanes: Some(848),
        ..Work::new(name, 2).of(2, &[10_000])
    };
    let ranks = cluster.start(&work("small"), &[host]);
    let error = ranks
        .into_iter()
        .map(|rank| rank.hear_all().error.expect("refused"));
    for error in error {
        assert!(error.contains("848"), "{error}");
    }
    set("3500");
    // Longer than from one look to the next.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let results = sums(&work("large"), &cluster.start(&work("large"), &[host]));
    assert_eq!(results.len(), 2);
}

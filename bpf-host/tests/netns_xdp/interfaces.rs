//! Ranks behind two interfaces of one aggregator.

use testjob::{Rank, Server, Work, sums};
use testnet::{Host, Link, Net};

use crate::cluster::{WINDOW, generic, native, udp, xdp_link};

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

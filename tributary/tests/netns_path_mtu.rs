//! Path MTU discovery by probing (R-PROBE): interfaces that carry jumbo frames, and a switch between them that may not.
//!
//! A bridge drops a frame that its port does not carry, without a word: what the interfaces' MTU says is wrong then.

use testjob::{LIMIT, Server, bench, counters, run_all};
use testnet::{Host, Link, Net};

const TRIBUTARY: &str = env!("CARGO_BIN_EXE_tributary");
const RANKS: usize = 2;

fn link(mtu: u32) -> Link {
    Link {
        mtu,
        ..Link::default()
    }
}

/// An aggregator and two ranks whose links all carry 9000 bytes; the second rank's switch is joined by one with `middle`.
struct Way {
    aggregator: Host,
    workers: [Host; RANKS],
    // Dropped after the handles.
    _net: Net,
}

impl Way {
    fn new(middle: u32) -> Self {
        let mut net = Net::new("trib-mtu").expect("a network");
        let aggregator = net.add_host("agg", link(9000)).expect("the aggregator's host");
        let near = net.add_host("near", link(9000)).expect("a host");
        let rack = net.add_switch("rack", link(middle)).expect("a switch");
        let far = net.add_host_at(&rack, "far", link(9000)).expect("a host");
        Self {
            aggregator,
            workers: [near, far],
            _net: net,
        }
    }
}

#[test]
#[ignore = "needs root"]
fn netns_probe_3_chunks_are_as_large_as_the_narrowest_link_carries() {
    for (middle, lanes) in [(9000, 2048), (4000, 848), (1500, 352)] {
        let path = Way::new(middle);
        let _aggregator = Server::new(TRIBUTARY, &["serve"]).start(&path.aggregator, None);
        let places = path.workers.each_ref().map(|worker| (worker, &path.aggregator));
        assert_eq!(
            testjob::lanes(TRIBUTARY.as_ref(), &places, &[], LIMIT),
            lanes,
            "a middle hop of {middle} bytes"
        );
        assert!(counters(&path.aggregator)["probes_answered"] >= 2);
    }
}

/// The far host has a leaf, whose ranks reach it whatever they send: what the leaf's own way carries decides.
#[test]
#[ignore = "needs root"]
fn netns_probe_3_a_leaf_looks_at_its_way_to_the_root() {
    for (middle, lanes) in [(9000, 2048), (1500, 352)] {
        let way = Way::new(middle);
        let server = Server::new(TRIBUTARY, &["serve"]);
        let _root = server.start(&way.aggregator, None);
        let _leaf = server.start(&way.workers[1], Some(&way.aggregator));
        let places = [
            (&way.workers[0], &way.aggregator),
            (&way.workers[1], &way.workers[1]),
        ];
        assert_eq!(
            testjob::lanes(TRIBUTARY.as_ref(), &places, &[], LIMIT),
            lanes,
            "a middle hop of {middle} bytes"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn netns_probe_3_chunks_that_were_asked_for_and_do_not_fit_are_an_error() {
    let path = Way::new(1500);
    let _aggregator = Server::new(TRIBUTARY, &["serve"]).start(&path.aggregator, None);
    // Before it registers: the other rank need not be there.
    let far = bench(
        TRIBUTARY.as_ref(),
        1,
        RANKS,
        &path.workers[1],
        &path.aggregator,
        &["--lanes", "2048"],
    );
    let outputs = run_all([far], LIMIT);
    let said = String::from_utf8_lossy(&outputs[0].stderr);
    assert!(
        !outputs[0].status.success() && said.lines().count() == 1,
        "{said}"
    );
    for part in ["2048 lanes", "8248 bytes", "1464 bytes", "352 lanes"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

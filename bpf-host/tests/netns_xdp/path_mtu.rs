//! Path MTU discovery by probing (R-PROBE) with the kernel's aggregator: the program answers, and ranks behind a switch that
//! carries less than their interfaces say choose chunks that get through.

use std::time::Duration;

use testjob::{counters, lanes};
use testnet::{Link, Net};

use crate::cluster::{generic, native, xdp_link};

const LIMIT: Duration = Duration::from_secs(200);

#[test]
#[ignore = "needs root"]
fn netns_probe_3_chunks_are_as_large_as_the_narrowest_link_carries() {
    // The largest MTU that native XDP on veth takes; and one that the stack's mode takes.
    for (server, mtu) in [(native(), 3506), (generic(), 9000)] {
        for (middle, expected) in [(mtu, 848), (3000, 352), (1400, 256)] {
            let mut net = Net::new("trib-xdp-path").expect("a network");
            let host = net.add_host("agg", xdp_link(mtu)).expect("the aggregator's host");
            let link = |mtu| Link {
                mtu,
                ..Link::default()
            };
            let near = net.add_host("near", link(mtu)).expect("a host");
            let rack = net.add_switch("rack", link(middle)).expect("a switch");
            let far = net.add_host_at(&rack, "far", link(mtu)).expect("a host");
            let _server = server.start(&host, None);
            let places = [(&near, &host), (&far, &host)];
            assert_eq!(
                lanes(&testjob::tributary(), &places, &["--window", "32"], LIMIT),
                expected,
                "{server:?}, a middle hop of {middle} bytes"
            );
            let counted = counters(&host);
            assert!(counted["probes_answered"] >= 2, "{counted:?}");
            assert_eq!(counted["xdp_not_sent"], 0, "{counted:?}");
        }
    }
}

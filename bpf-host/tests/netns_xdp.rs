//! Whole jobs through the XDP program on veth: ordinary ranks in network namespaces, the aggregator in the kernel of another.
//!
//! What comes out is held against the same work at an aggregator in user space, bit for bit. `cargo xtask test` runs these as
//! root. No test here asserts a speed. `TRIBUTARY_TEST_LOG=1` shows what all processes say.

#[path = "netns_xdp/bits.rs"]
mod bits;
#[path = "netns_xdp/check.rs"]
mod check;
#[path = "netns_xdp/cluster.rs"]
mod cluster;
#[path = "netns_xdp/demo.rs"]
mod demo;
#[path = "netns_xdp/ends.rs"]
mod ends;
#[path = "netns_xdp/failover.rs"]
mod failover;
#[path = "netns_xdp/interfaces.rs"]
mod interfaces;
#[path = "netns_xdp/jobs.rs"]
mod jobs;
#[path = "netns_xdp/load.rs"]
mod load;
#[path = "netns_xdp/lost_ranks.rs"]
mod lost_ranks;
#[path = "netns_xdp/path_mtu.rs"]
mod path_mtu;
#[path = "netns_xdp/quorum.rs"]
mod quorum;
#[path = "netns_xdp/trees.rs"]
mod trees;

#[test]
#[ignore = "a rank of another test"]
fn rank() {
    testjob::run_if_rank();
}

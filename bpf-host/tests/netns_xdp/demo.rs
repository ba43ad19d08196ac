//! A network is trained through the kernel.

use crate::cluster::{Cluster, native};

#[test]
#[ignore = "needs root"]
fn netns_the_demo_trains_through_the_kernel() {
    let cluster = Cluster::new("trib-xdp-demo", 1);
    let _aggregator = native().start(&cluster.aggregator, None);
    testjob::trains(&cluster.workers[0], &cluster.aggregator, testjob::LIMIT);
}

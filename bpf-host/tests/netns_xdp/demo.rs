//! A network is trained through the kernel.

use testjob::{assert_success, run_all};

use crate::cluster::{Cluster, native};

#[test]
#[ignore = "needs root"]
fn netns_the_demo_trains_through_the_kernel() {
    let cluster = Cluster::new("trib-xdp-demo", 1);
    let _aggregator = native().start(&cluster.aggregator, None);
    let curves = std::env::temp_dir().join(format!("tributary-xdp-demo-{}", std::process::id()));
    // Its workers are processes of one host, and sum all the same through the aggregator of another.
    let mut demo = cluster.workers[0].command(testjob::tributary());
    demo.args(["demo", "--loss", "1%", "--json", "--aggregator"]);
    demo.arg(format!(
        "{}:{}",
        cluster.aggregator.address(),
        testjob::CONTROL_PORT
    ));
    demo.arg("--out").arg(&curves);
    demo.stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    // It fails where a check of it does: the same parameters everywhere, and those of training alone.
    let outputs = run_all([demo], testjob::LIMIT);
    let _ = std::fs::remove_dir_all(&curves);
    assert_success(&outputs);
}

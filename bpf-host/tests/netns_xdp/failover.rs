//! The kernel's aggregator dies, is stopped or restarted in the middle: the ranks go on with the same bits.

use testjob::{Process, Server, Work, sums_after};

use crate::cluster::{Cluster, WINDOW, generic, native, udp};

const RANKS: u32 = 4;

/// Long enough to be interrupted in the middle.
fn twenty(loss: u32) -> Work {
    Work {
        window: Some(WINDOW),
        loss,
        ..Work::new("moves", RANKS).of(20, &[1000, 300_000])
    }
}

/// The ranks' first aggregator comes to its end, and another one is there.
fn goes_on_at(stand_by: &Server, end: impl Fn(&mut Process)) {
    let cluster = Cluster::new("trib-xdp-move", RANKS);
    let flat = cluster.flat(&twenty(0));
    for loss in [0, 1] {
        let work = twenty(loss);
        let mut first = native().patient().start(&cluster.aggregator, None);
        let _second = stand_by.start(&cluster.other, None);
        let ranks = cluster.start(&work, &[&cluster.aggregator, &cluster.other]);
        let results = sums_after(&work, &ranks, || end(&mut first));
        assert_eq!(results, flat, "{loss} % of packets lost");
    }
}

fn is_stopped(process: &mut Process) {
    let status = process.stop();
    assert!(status.success(), "{status}");
}

#[test]
#[ignore = "needs root"]
fn netns_a_killed_hosts_ranks_go_on_in_user_space_with_the_same_bits() {
    goes_on_at(&udp().patient(), Process::kill);
}

#[test]
#[ignore = "needs root"]
fn netns_a_killed_hosts_ranks_go_on_in_another_kernel_with_the_same_bits() {
    goes_on_at(&native().patient(), Process::kill);
}

#[test]
#[ignore = "needs root"]
fn netns_a_stopped_hosts_ranks_go_on_in_user_space_with_the_same_bits() {
    goes_on_at(&udp().patient(), is_stopped);
}

#[test]
#[ignore = "needs root"]
fn netns_a_stopped_hosts_ranks_go_on_in_another_kernel_with_the_same_bits() {
    goes_on_at(&native().patient(), is_stopped);
}

/// Another process at the same place.
fn goes_on_after_restart(server: &Server) {
    let cluster = Cluster::new("trib-xdp-again", RANKS);
    let flat = cluster.flat(&twenty(0));
    for loss in [0, 1] {
        let work = twenty(loss);
        let mut host = server.start(&cluster.aggregator, None);
        let ranks = cluster.start(&work, &[&cluster.aggregator]);
        let results = sums_after(&work, &ranks, || {
            host.kill();
            host = server.start(&cluster.aggregator, None);
        });
        assert_eq!(results, flat, "{loss} % of packets lost");
    }
}

#[test]
#[ignore = "needs root"]
fn netns_a_host_restarted_in_place_gives_the_same_bits() {
    goes_on_after_restart(&native().patient());
}

#[test]
#[ignore = "needs root"]
fn netns_a_host_in_generic_mode_restarted_in_place_gives_the_same_bits() {
    goes_on_after_restart(&generic().patient());
}

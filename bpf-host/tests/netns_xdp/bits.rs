//! The kernel gives the bits that user space gives.

use testjob::{Server, Work, counters, sums};

use crate::cluster::{Cluster, WINDOW, generic, native};

/// From nothing over a part of a chunk to several windows, none of them whole chunks.
const LENGTHS: &[usize] = &[1, 351, 1000, 22_531, 0, 300_007];

fn same_bits(cluster: &Cluster, server: &Server, work: &Work) {
    let flat = cluster.flat(work);
    let _aggregator = server.start(&cluster.aggregator, None);
    for loss in [0, 1] {
        let before = counters(&cluster.aggregator);
        let work = work.clone().with_loss(loss);
        let results = sums(&work, &cluster.start(&work, &[&cluster.aggregator]));
        assert_eq!(results, flat, "{loss} % of packets lost");
        let after = counters(&cluster.aggregator);
        let counted = |name: &str| after[name] - before[name];
        let merged = counted("contributions_merged");
        assert!(merged > 0, "the program has merged nothing: {after:?}");
        if loss > 0 {
            assert!(
                counted("results_replayed") + counted("wants_sent") > 0,
                "nothing was lost: {after:?}"
            );
        }
    }
}

fn work(ranks: u32, lanes: u32) -> Work {
    Work {
        lanes: Some(lanes),
        window: Some(WINDOW),
        ..Work::new("bits", ranks).of(2 * LENGTHS.len(), LENGTHS)
    }
}

fn same_bits_for(prefix: &str, ranks: u32) {
    same_bits(&Cluster::new(prefix, ranks), &native(), &work(ranks, 352));
}

#[test]
#[ignore = "needs root"]
fn netns_two_workers_get_the_bits_of_user_space() {
    same_bits_for("trib-xdp-two", 2);
}

#[test]
#[ignore = "needs root"]
fn netns_four_workers_get_the_bits_of_user_space() {
    same_bits_for("trib-xdp-four", 4);
}

#[test]
#[ignore = "needs root"]
fn netns_eight_workers_get_the_bits_of_user_space() {
    same_bits_for("trib-xdp-eight", 8);
}

#[test]
#[ignore = "needs root"]
fn netns_small_chunks_give_the_bits_of_user_space() {
    same_bits(&Cluster::new("trib-xdp-256", 4), &native(), &work(4, 256));
}

/// What is the largest that fits is chosen: nobody asks for these.
#[test]
#[ignore = "needs root"]
fn netns_large_chunks_give_the_bits_of_user_space() {
    let work = Work {
        lanes: None,
        ..work(4, 848)
    };
    // Native XDP on veth takes no larger MTU.
    let cluster = Cluster::with_mtu("trib-xdp-848", 4, 3506);
    same_bits(&cluster, &native(), &work);
}

#[test]
#[ignore = "needs root"]
fn netns_a_window_that_the_links_do_not_hold_gives_the_bits_of_user_space() {
    let work = Work {
        window: None,
        ..work(4, 352)
    };
    same_bits(&Cluster::new("trib-xdp-wide", 4), &native(), &work);
}

#[test]
#[ignore = "needs root"]
fn netns_generic_mode_gives_the_bits_of_user_space() {
    for lanes in [256, 352] {
        same_bits(&Cluster::new("trib-xdp-skb", 4), &generic(), &work(4, lanes));
    }
}

/// Larger than native mode takes.
#[test]
#[ignore = "needs root"]
fn netns_generic_mode_on_jumbo_frames_gives_the_bits_of_user_space() {
    let cluster = Cluster::with_mtu("trib-xdp-jumbo", 4, 9000);
    same_bits(&cluster, &generic(), &work(4, 848));
}

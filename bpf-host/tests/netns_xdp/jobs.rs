//! Several jobs at one aggregator, and one for which there is no room.

use testjob::{Work, sums};

use crate::cluster::{Cluster, WINDOW, native};

#[test]
#[ignore = "needs root"]
fn netns_two_jobs_at_once_get_the_bits_that_each_gets_alone() {
    let cluster = Cluster::new("trib-xdp-jobs", 3);
    let work = |world, ranks, lanes| Work {
        lanes: Some(lanes),
        window: Some(WINDOW),
        ..Work::new(world, ranks).of(20, &[1000, 200_003])
    };
    let works = [work("one", 3, 352), work("another", 2, 256)];
    let alone = works.each_ref().map(|work| cluster.flat(work));
    let _aggregator = native().start(&cluster.aggregator, None);
    for loss in [0, 1] {
        let works = works.clone().map(|work| work.with_loss(loss));
        let ranks = works
            .each_ref()
            .map(|work| cluster.start(work, &[&cluster.aggregator]));
        for ((work, ranks), alone) in works.iter().zip(ranks).zip(&alone) {
            let (world, results) = (&work.world, sums(work, &ranks));
            assert_eq!(results, *alone, "world {world}, {loss} % of packets lost");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn netns_a_job_that_does_not_fit_is_refused_with_the_numbers() {
    let cluster = Cluster::new("trib-xdp-full", 2);
    let _aggregator = native().with(&["--memory", "1"]).start(&cluster.aggregator, None);
    let work = Work {
        lanes: Some(352),
        window: Some(4096),
        ..Work::new("large", 2)
    };
    for rank in cluster.start(&work, &[&cluster.aggregator]) {
        let error = rank.hear_all().error.expect("an error");
        // Two generations for each chunk of the window: 352 lanes and a head of 64 bytes.
        assert!(error.contains("needs 12058624 bytes"), "{error}");
        // A whole MiB but what does not fill a row.
        assert!(error.contains("940032 are free"), "{error}");
    }
    let small = Work {
        window: Some(64),
        ..work
    };
    sums(&small, &cluster.start(&small, &[&cluster.aggregator]));
}

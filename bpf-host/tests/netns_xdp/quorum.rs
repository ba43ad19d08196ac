//! A quorum: sums of floats do not wait for a slow rank.

use testjob::{Work, sums};

use crate::cluster::{Cluster, WINDOW, native};

#[test]
#[ignore = "needs root"]
fn netns_two_of_three_do_not_wait_for_a_slow_rank() {
    let cluster = Cluster::new("trib-xdp-two-of", 3);
    let all = Work {
        window: Some(WINDOW),
        ..Work::new("quorum", 3).of(20, &[1000, 50_000])
    };
    let whole = cluster.flat(&all);
    let _aggregator = native().start(&cluster.aggregator, None);
    for loss in [0, 1] {
        let work = Work {
            quorum: Some(2),
            slow: Some((2, 40)),
            ..all.clone().with_loss(loss)
        };
        // The same on every rank, also on the slow one.
        let results = sums(&work, &cluster.start(&work, &[&cluster.aggregator]));
        let pairs = || results.iter().zip(&whole);
        assert!(
            pairs().step_by(2).any(|(result, whole)| result != whole),
            "every sum of floats has waited"
        );
        assert!(
            pairs().skip(1).step_by(2).all(|(result, whole)| result == whole),
            "sums of integers wait for all"
        );
    }
}

//! A rank is killed: the others get an error that names it, or go on without it.

use testjob::{Rank, Said, Work};

use crate::cluster::{Cluster, WINDOW, native};

const RANKS: u32 = 3;
const DOOMED: u32 = 1;

/// The doomed rank is slow, so that it is killed before all is done.
fn work() -> Work {
    Work {
        window: Some(WINDOW),
        doomed: Some(DOOMED),
        slow: Some((DOOMED, 50)),
        ..Work::new("lost", RANKS).of(40, &[1000, 100_000])
    }
}

/// What the others say.
fn survivors(work: &Work) -> Vec<Said> {
    let cluster = Cluster::new("trib-xdp-lost", RANKS);
    let _aggregator = native().start(&cluster.aggregator, None);
    let mut ranks = cluster.start(work, &[&cluster.aggregator]);
    let mut doomed = ranks.remove(DOOMED as usize);
    doomed.hear(8);
    doomed.kill();
    ranks.iter().map(Rank::hear_all).collect()
}

#[test]
#[ignore = "needs root"]
fn netns_a_killed_rank_is_named() {
    for said in survivors(&work()) {
        let error = said.error.expect("an error");
        assert!(error.contains("rank 1"), "{error}");
    }
}

#[test]
#[ignore = "needs root"]
fn netns_a_job_that_may_shrink_goes_on_without_a_killed_rank() {
    for loss in [0, 1] {
        let work = Work {
            shrinks: true,
            ..work().with_loss(loss)
        };
        let said = survivors(&work);
        let [first, second] = &said[..] else {
            panic!("{said:?}")
        };
        assert_eq!(first, second, "survivors differ");
        assert_eq!(first.error, None);
        assert!(
            matches!(&first.lost[..], [lost] if lost.contains("[1]")),
            "one operation is lost: {:?}",
            first.lost
        );
        assert!(first.sums.len() >= work.operations - 1, "{first:?}");
    }
}

/// Sums of floats go on at once, others when the rank has been removed; nobody is told.
#[test]
#[ignore = "needs root"]
fn netns_the_others_of_a_quorum_go_on_without_a_killed_rank() {
    let work = Work {
        quorum: Some(2),
        shrinks: true,
        ..work()
    };
    let said = survivors(&work);
    let [first, second] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(first, second, "survivors differ");
    assert_eq!((&first.error, first.sums.len()), (&None, work.operations));
}

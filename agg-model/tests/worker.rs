//! A worker that is fed anything at all: it takes the results that it must, and nothing else ([`Watch`] checks).

mod common;

use agg_model::checksum::seal;
use agg_model::harness::feed::{Feed, Meal};
use agg_model::harness::random::Random;
use agg_model::harness::{Values, Watch};
use agg_model::packet::HEADER;
use proptest::collection::vec;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/worker.txt";

fn meal() -> impl Strategy<Value = Meal> {
    let pick = any::<u8>();
    prop_oneof![
        8 => (pick, any::<i8>(), any::<bool>()).prop_map(|(pick, next, nonfinite)| Meal::Result { pick, next, nonfinite }),
        2 => (pick, 0_u16..448).prop_map(|(pick, bit)| Meal::ResultWrong { pick, bit }),
        2 => (pick, 0_u16..448).prop_map(|(pick, bit)| Meal::ResultDamaged { pick, bit }),
        1 => (pick, any::<i16>()).prop_map(|(pick, by)| Meal::ResultResized { pick, by }),
        2 => pick.prop_map(Meal::Old),
        2 => pick.prop_map(Meal::Early),
        2 => (pick, any::<u64>(), -1_i8..3).prop_map(|(pick, set, epoch)| Meal::Want { pick, set, epoch }),
        2 => (pick, -1_i8..3).prop_map(|(pick, epoch)| Meal::WantKept { pick, epoch }),
        1 => (-1_i8..4).prop_map(|epoch| Meal::OldEpoch { epoch }),
        1 => vec(any::<u8>(), 0..100).prop_map(Meal::Bytes),
        1 => any::<[u8; 32]>().prop_map(Meal::Sealed),
        2 => (0_u16..2000).prop_map(Meal::Wait),
        1 => any::<u8>().prop_map(Meal::Busy),
        1 => (1_u16..120, any::<u8>()).prop_map(|(elements, kind)| Meal::Start { elements, kind }),
    ]
}

#[test]
fn result_1_a_worker_takes_what_it_must_and_nothing_else() {
    let strategy = (1_u8..5, 0_u8..4, any::<bool>(), vec(meal(), 1..150));
    common::check(3_000, REGRESSIONS, strategy, |(workers, window, wraps, meals)| {
        let mut feed = Feed::new(workers, window, if wraps { u32::MAX - 2 } else { 0 });
        for meal in &meals {
            feed.eat(meal);
        }
    });
}

/// Refusals, with reasons that exist and that do not, end an operation at most once and never panic.
#[test]
fn op_4_and_job_2_refusals_fail_the_operation() {
    let refusal = (any::<u8>(), -1_i16..9, -1_i8..2, any::<u8>());
    let refusal = refusal.prop_map(|(pick, reason, epoch, member)| Meal::Refusal {
        pick,
        reason,
        epoch,
        member,
    });
    let meals = vec(prop_oneof![5 => meal(), 1 => refusal], 1..60);
    common::check(
        2_000,
        REGRESSIONS,
        (1_u8..5, 0_u8..4, meals),
        |(workers, window, meals)| {
            let mut feed = Feed::new(workers, window, 0);
            for meal in &meals {
                feed.eat(meal);
            }
        },
    );
}

/// Every single wrong byte in the header of a result that is waited for keeps it from being taken; the check is all
/// that tells. Then the right one is taken.
#[test]
fn wire_3_a_damaged_result_is_never_taken() {
    let job = agg_model::harness::feed::job(3, 0);
    for offset in 0..HEADER {
        for flip in [1_u8, 0x80, 0xff] {
            let mut watch = Watch::new(&job, 1, 4, 1_000_000_000, 0);
            watch.start(Values::I32(Random::new(9).integers(16)), 0);
            watch.transmit(1).expect("its only chunk");
            let sent = watch.in_flight().next().expect("sent").clone();
            let right = watch.result_for(&sent).emit();
            let mut wrong = right.clone();
            wrong[offset] ^= flip;
            assert!(!watch.handle(2, &wrong), "byte {offset}");
            assert!(watch.handle(3, &right));
        }
    }
}

/// Each field that R-RESULT-1 and the worker's checks name, wrong by one bit under a check that is right.
#[test]
fn result_1_a_result_that_says_something_else_is_never_taken() {
    let job = agg_model::harness::feed::job(3, 0);
    let named = [
        (4, 0x01),
        (4, 0x02),
        (4, 0x10),
        (6, 1),
        (8, 1),
        (15, 0x80),
        (16, 1),
        (17, 1),
        (20, 1),
        (23, 0x80),
    ];
    let more = [
        (3, 2),
        (32, 1),
        (32, 4),
        (36, 1),
        (40, 1),
        (47, 2),
        (48, 1),
        (51, 0x80),
    ];
    for (offset, flip) in named.into_iter().chain(more) {
        let mut watch = Watch::new(&job, 1, 4, 1_000_000_000, 0);
        watch.start(Values::I32(Random::new(9).integers(16)), 0);
        watch.transmit(1).expect("its only chunk");
        let sent = watch.in_flight().next().expect("sent").clone();
        let mut wrong = watch.result_for(&sent).emit();
        let header = wrong.first_chunk_mut::<HEADER>().expect("a header");
        header[offset] ^= flip;
        seal(header);
        assert!(!watch.handle(2, &wrong), "byte {offset}, bits {flip:#x}");
    }
}

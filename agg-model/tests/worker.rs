//! A worker that is fed anything at all: it takes the results that it must, and nothing else ([`Watch`] checks).

mod common;

use agg_core::Failure;
use agg_model::checksum::seal;
use agg_model::harness::Values;
use agg_model::harness::feed::{Feed, Guest, Lost, Meal};
use agg_model::harness::random::Random;
use agg_model::packet::{HEADER, ModelPacket, REFUSAL};
use proptest::collection::vec;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/worker.txt";

/// One of three workers, with a window of one chunk.
const THREE: Guest = Guest {
    workers: 3,
    window: 0,
    first_round: 0,
    quorum: false,
};

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
        1 => (1_u16..400, any::<u8>()).prop_map(|(elements, kind)| Meal::Announce { elements, kind }),
    ]
}

/// Sets and numbers of workers that are mostly possible in a job of up to four.
fn partial(pick: u8) -> impl Strategy<Value = Meal> {
    let (set, workers) = (prop_oneof![4 => 0_u64..16, 1 => any::<u64>()], 0_u8..6);
    (set, workers, any::<bool>()).prop_map(move |(set, workers, unsent)| match unsent {
        true => Meal::Unsent { set, workers },
        false => Meal::ResultOf { pick, set, workers },
    })
}

fn rejoin() -> impl Strategy<Value = Meal> {
    let lost = prop::option::of((any::<bool>(), 0_u8..20));
    (0_u8..4, 0_u8..2, 0_u8..4, lost).prop_map(|(member, fewer, epoch, lost)| Meal::Rejoin {
        member,
        fewer,
        epoch,
        lost: lost.map(|(ahead, chunks)| Lost { ahead, chunks }),
    })
}

fn feed(guest: &Guest, meals: &[Meal]) {
    let mut feed = Feed::new(guest);
    for meal in meals {
        feed.eat(meal);
    }
}

fn guest() -> impl Strategy<Value = Guest> {
    let (wraps, quorum) = (any::<bool>(), any::<bool>());
    (1_u8..5, 0_u8..4, wraps, quorum).prop_map(|(workers, window, wraps, quorum)| Guest {
        workers,
        window,
        first_round: if wraps { u32::MAX - 2 } else { 0 },
        quorum,
    })
}

/// R-QUORUM-4: results of some members, of this one or not, also before it has sent its part.
#[test]
fn quorum_4_results_of_some_are_scaled_and_what_they_lack_is_kept() {
    let partial = any::<u8>().prop_flat_map(partial);
    let start = (1_u16..120, 1_u8..3).prop_map(|(elements, kind)| Meal::Start { elements, kind });
    let meal = prop_oneof![6 => meal(), 6 => partial, 3 => start];
    let guest = guest().prop_map(|guest| Guest {
        quorum: true,
        ..guest
    });
    common::check(
        2_000,
        REGRESSIONS,
        (guest, vec(meal, 1..150)),
        |(guest, meals)| {
            feed(&guest, &meals);
        },
    );
}

/// R-REFORM-2 and R-REFORM-3: new places, and ranks that are lost, at any time.
#[test]
fn reform_2_and_3_a_worker_goes_on_at_its_new_place() {
    let start = (1_u16..120, any::<u8>()).prop_map(|(elements, kind)| Meal::Start { elements, kind });
    let meal = prop_oneof![8 => meal(), 2 => rejoin(), 3 => start];
    common::check(
        2_000,
        REGRESSIONS,
        (guest(), vec(meal, 1..150)),
        |(guest, meals)| {
            feed(&guest, &meals);
        },
    );
}

#[test]
fn result_1_a_worker_takes_what_it_must_and_nothing_else() {
    common::check(
        3_000,
        REGRESSIONS,
        (guest(), vec(meal(), 1..150)),
        |(guest, meals)| feed(&guest, &meals),
    );
}

/// Refusals, with reasons that exist and that do not, end an operation at most once and never panic.
#[test]
fn op_4_and_job_2_refusals_fail_the_operation() {
    let refusal = (any::<u8>(), -1_i16..10, -1_i8..2, any::<u8>());
    let refusal = refusal.prop_map(|(pick, reason, epoch, member)| Meal::Refusal {
        pick,
        reason,
        epoch,
        member,
    });
    let meals = vec(prop_oneof![5 => meal(), 1 => refusal], 1..60);
    common::check(2_000, REGRESSIONS, (guest(), meals), |(guest, meals)| {
        feed(&guest, &meals);
    });
}

/// Every single wrong byte in the header of a result that is waited for keeps it from being taken; the check is all
/// that tells. Then the right one is taken.
#[test]
fn wire_3_a_damaged_result_is_never_taken() {
    for offset in 0..HEADER {
        for flip in [1_u8, 0x80, 0xff] {
            let mut watch = THREE.watch(1, 1_000_000_000);
            watch.start(Values::i32(Random::new(9).integers(16)), 0);
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
        let mut watch = THREE.watch(1, 1_000_000_000);
        watch.start(Values::i32(Random::new(9).integers(16)), 0);
        watch.transmit(1).expect("its only chunk");
        let sent = watch.in_flight().next().expect("sent").clone();
        let mut wrong = watch.result_for(&sent).emit();
        let header = wrong.first_chunk_mut::<HEADER>().expect("a header");
        header[offset] ^= flip;
        seal(header);
        assert!(!watch.handle(2, &wrong), "byte {offset}, bits {flip:#x}");
    }
}

/// What a refusal means to the worker: an error that ends it, another registration, or a move.
#[test]
fn reform_1_and_quorum_5_refusals_are_told_apart() {
    for (reason, excluded, reform) in [
        (3, false, false),
        (4, false, false),
        (7, false, true),
        (8, true, false),
    ] {
        let mut watch = THREE.watch(1, 1_000_000_000);
        watch.start(Values::i32(Random::new(9).integers(16)), 0);
        watch.transmit(1).expect("its only chunk");
        let sent = watch.in_flight().next().expect("sent").clone();
        let refusal = ModelPacket {
            kind: REFUSAL,
            member: 255,
            scale: Some(reason),
            ..sent.without_flags()
        };
        watch.handle(2, &refusal.emit());
        assert_eq!(
            watch.failure() == Some(Failure::Excluded),
            excluded,
            "reason {reason}"
        );
        assert_eq!(watch.wants_to_register(), reform, "reason {reason}");
        assert_eq!(watch.is_busy(), matches!(reason, 3 | 7), "reason {reason}");
    }
}

use super::*;
use crate::wire::Kind;
use crate::{Endpoint, Epoch, Exponent, Policy, Round};

const EXPECTED: MemberSet = MemberSet(0b111);

const JOB: Job = Job {
    epoch: Epoch(1),
    expected: EXPECTED,
    excluded: MemberSet::EMPTY,
    late: MemberSet::EMPTY,
    window: 1,
    generations: 2,
    policy: Policy::All,
    parent: None,
    suspended: false,
    abort: None,
};

fn header(set: u64, round: u32) -> Header {
    Header {
        kind: Kind::Data,
        flags: Flags::UP,
        member: set.trailing_zeros() as u8,
        slot: 0,
        key: 1,
        epoch: Epoch(1),
        round: Round(round),
        set: MemberSet(set),
        workers: set.count_ones(),
        scale: Exponent(3),
        next: Exponent(-5),
        op: 7,
        op_seq: 1,
    }
}

struct Slot {
    job: Job,
    head: Head,
    values: [i32; 4],
    now: Nanos,
}

impl Slot {
    fn new() -> Self {
        Self {
            job: JOB,
            head: Head::VACANT,
            values: [0; 4],
            now: 5,
        }
    }

    fn send(&mut self, header: &Header, value: i32) -> Outcome {
        let bytes = [value.to_le_bytes(); 4];
        let arrival = Arrival {
            header,
            values: Some(&bytes),
        };
        self.head.accept(&mut self.values, &self.job, arrival, self.now)
    }
}

fn resend(header: Header) -> Header {
    Header {
        flags: header.flags.with(Flags::RESEND),
        ..header
    }
}

#[test]
fn slot_3_disjoint_sets_add_and_the_last_releases() {
    let mut slot = Slot::new();
    assert_eq!(
        slot.send(&header(1, 0), i32::MAX),
        Outcome::Quiet(Counter::Merged)
    );
    assert_eq!(
        slot.send(
            &Header {
                next: Exponent(9),
                ..header(2, 0)
            },
            1
        ),
        Outcome::Quiet(Counter::Merged)
    );
    assert_eq!(slot.send(&header(4, 0), 10), Outcome::Release(Counter::Completed));
    assert_eq!(slot.values, [i32::MIN + 10; 4]);
    let result = slot.head.result(1, Epoch(1), 0);
    assert_eq!(
        (result.set, result.workers, result.next),
        (EXPECTED, 3, Exponent(9))
    );
}

#[test]
fn slot_1_a_complete_slot_replays_and_never_changes() {
    let mut slot = Slot::new();
    for member in [1, 2, 4] {
        slot.send(&header(member, 0), 1);
    }
    assert_eq!(slot.send(&header(2, 0), 100), Outcome::Replay);
    assert_eq!(slot.values, [3; 4]);
}

#[test]
fn slot_4_only_a_resend_asks_and_not_too_often() {
    let mut slot = Slot::new();
    slot.send(&header(1, 0), 1);
    assert_eq!(slot.send(&header(1, 0), 1), Outcome::Quiet(Counter::Duplicate));
    assert_eq!(slot.send(&resend(header(1, 0)), 1), Outcome::Want);
    assert_eq!(
        slot.send(&resend(header(1, 0)), 1),
        Outcome::Quiet(Counter::Duplicate)
    );
    slot.now += WANT_INTERVAL;
    assert_eq!(slot.send(&resend(header(1, 0)), 1), Outcome::Want);
    assert_eq!(slot.values, [1; 4]);
}

#[test]
fn slot_2_a_result_needs_a_want_and_completes() {
    let mut slot = Slot::new();
    let result = Header {
        flags: Flags::UP.with(Flags::RESULT),
        ..header(0b111, 0)
    };
    assert_eq!(
        slot.send(&result, 6),
        Outcome::Quiet(Counter::DroppedSet),
        "a vacant slot"
    );
    slot.send(&header(1, 0), 1);
    assert_eq!(
        slot.send(&result, 6),
        Outcome::Quiet(Counter::DroppedSet),
        "not asked"
    );
    slot.send(&resend(header(1, 0)), 1);
    assert_eq!(slot.send(&result, 6), Outcome::Release(Counter::Restored));
    assert_eq!(slot.values, [6; 4]);
}

#[test]
fn slot_5_and_6_supersets_and_overlaps_replace() {
    let mut slot = Slot::new();
    slot.send(&header(0b001, 0), 1);
    assert_eq!(slot.send(&header(0b011, 0), 5), Outcome::Quiet(Counter::Replaced));
    assert_eq!(
        slot.send(&header(0b110, 0), 7),
        Outcome::Quiet(Counter::Overlapped)
    );
    assert_eq!((slot.values, slot.head.workers), ([7; 4], 2));
    assert_eq!(
        slot.send(&header(0b001, 0), 1),
        Outcome::Release(Counter::Completed)
    );
    assert_eq!((slot.values, slot.head.workers), ([8; 4], 3));
}

#[test]
fn chunk_3_newer_rounds_recycle_and_older_are_stale() {
    let mut slot = Slot::new();
    slot.send(&header(1, u32::MAX - 1), 1);
    assert_eq!(slot.send(&header(2, 0), 9), Outcome::Quiet(Counter::Merged));
    assert_eq!(slot.values, [9; 4]);
    assert_eq!(
        slot.send(&header(4, u32::MAX - 1), 1),
        Outcome::Quiet(Counter::DroppedStale)
    );
    assert_eq!(slot.values, [9; 4]);
}

#[test]
fn op_4_and_num_4_conflicts_refuse_everybody_and_merge_nothing() {
    let others = [
        (
            Header {
                op: 8,
                ..header(2, 0)
            },
            Refusal::Operation,
        ),
        (
            Header {
                op_seq: 2,
                ..header(2, 0)
            },
            Refusal::Operation,
        ),
        (
            Header {
                flags: Flags::UP.with(Flags::HEADER_ONLY),
                ..header(2, 0)
            },
            Refusal::Operation,
        ),
        (
            Header {
                scale: Exponent(4),
                ..header(2, 0)
            },
            Refusal::Scale,
        ),
    ];
    for (other, refusal) in others {
        let mut slot = Slot::new();
        slot.send(&header(1, 0), 1);
        assert_eq!(slot.send(&other, 1), Outcome::RefuseAll(refusal));
        assert_eq!(slot.head.refusal(1, Epoch(1), 0, refusal).member, 1);
        assert_eq!(slot.send(&resend(header(1, 0)), 1), Outcome::Refuse(refusal));
        assert_eq!(slot.values, [1; 4]);
        assert_eq!(
            slot.send(&header(1, 2), 1),
            Outcome::Quiet(Counter::Merged),
            "a newer round starts afresh"
        );
    }
}

#[test]
fn num_6_the_nonfinite_flag_is_ored() {
    let mut slot = Slot::new();
    slot.send(&header(1, 0), 1);
    slot.send(
        &Header {
            flags: Flags::UP.with(Flags::NONFINITE),
            ..header(2, 0)
        },
        1,
    );
    slot.send(&header(4, 0), 1);
    assert!(slot.head.result(1, Epoch(1), 0).flags.has(Flags::NONFINITE));
}

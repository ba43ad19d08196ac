use super::*;
use crate::job::Parent;
use crate::wire::Kind;
use crate::{Endpoint, Epoch, Exponent, OpKind, Operation, Policy, Round};

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
    spills: false,
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

const PARENT: Parent = Parent {
    source: Endpoint { ip: [0; 16], port: 9 },
    member: 5,
    epoch: Epoch(40),
};

fn leaf() -> Slot {
    let mut slot = Slot::new();
    slot.job.parent = Some(PARENT);
    slot
}

fn from_parent(kind: Kind, flags: Flags, set: u64, round: u32) -> Header {
    Header {
        kind,
        flags,
        member: crate::wire::NO_MEMBER,
        epoch: Epoch(40),
        workers: 9,
        ..header(set, round)
    }
}

impl Slot {
    fn down(&mut self, header: &Header, value: i32) -> Outcome {
        let bytes = [value.to_le_bytes(); 4];
        let arrival = Arrival {
            header,
            values: Some(&bytes),
        };
        self.head
            .accept_down(&mut self.values, &self.job, arrival, self.now)
    }
}

#[test]
fn leaf_1_and_2_a_full_set_goes_up_and_again_with_resends() {
    let mut slot = leaf();
    slot.send(&header(0b011, 0), 1);
    assert_eq!(
        slot.send(&header(0b100, 0), 2),
        Outcome::Forward(Counter::Forwarded)
    );
    let up = slot.head.contribution(1, &PARENT, 0, false);
    assert_eq!(
        (up.member, up.set, up.workers, up.epoch),
        (5, MemberSet::single(5), 3, Epoch(40))
    );
    let again = resend(header(0b100, 0));
    assert_eq!(slot.send(&again, 2), Outcome::Quiet(Counter::Duplicate));
    slot.now += WANT_INTERVAL;
    assert_eq!(slot.send(&again, 2), Outcome::Forward(Counter::ForwardedAgain));
    assert_eq!(slot.values, [3; 4]);
}

#[test]
fn leaf_3_the_result_of_the_parent_completes() {
    let mut slot = leaf();
    let result = from_parent(Kind::Data, Flags::RESULT, 0b100001, 0);
    assert_eq!(slot.down(&result, 50), Outcome::Quiet(Counter::DroppedStale));
    slot.send(&header(0b111, 0), 1);
    let other = Header { op: 8, ..result };
    assert_eq!(slot.down(&other, 50), Outcome::Quiet(Counter::DroppedSet));
    assert_eq!(slot.down(&result, 50), Outcome::Release(Counter::ResultsTaken));
    let down = slot.head.result(1, Epoch(1), 0);
    assert_eq!((slot.values, down.set, down.workers), ([50; 4], EXPECTED, 9));
    assert_eq!(slot.down(&result, 50), Outcome::Quiet(Counter::Duplicate));
    assert_eq!(slot.send(&header(1, 0), 1), Outcome::Replay);
}

#[test]
fn leaf_4_a_want_finds_what_the_parent_lacks() {
    let want = |set| from_parent(Kind::Want, Flags::NONE, set, 2);
    let mut slot = leaf();
    slot.send(&header(0b111, 0), 9);
    assert_eq!(slot.down(&want(1), 0), Outcome::Want);
    assert_eq!(slot.head.want(1, Epoch(1), 0).set, MemberSet::EMPTY);
    // A member that has the result gives it, also one of another level.
    let result = Header {
        flags: Flags::UP.with(Flags::RESULT),
        workers: 9,
        ..header(0b1000, 2)
    };
    assert_eq!(slot.send(&result, 6), Outcome::Release(Counter::Restored));
    assert_eq!((slot.values, slot.head.set), ([6; 4], EXPECTED));
    assert_eq!(slot.down(&want(1), 0), Outcome::ForwardResult);

    // Without one the members contribute: nothing of the older round is left.
    let mut slot = leaf();
    slot.send(&header(0b111, 0), 9);
    slot.down(&want(1), 0);
    slot.send(&header(0b001, 2), 1);
    assert_eq!(
        slot.send(&header(0b110, 2), 1),
        Outcome::Forward(Counter::Forwarded)
    );
    assert_eq!(slot.values, [2; 4]);
    assert_eq!(slot.down(&want(1), 0), Outcome::Forward(Counter::ForwardedAgain));
    assert_eq!(slot.down(&want(1 << 5), 0), Outcome::Want);
}

fn quorum(members: u8, grace: Nanos) -> Slot {
    let mut slot = Slot::new();
    slot.job.policy = Policy::Quorum { members, grace };
    slot
}

fn float(set: u64, round: u32) -> Header {
    let operation = Operation {
        kind: OpKind::SUM_F32,
        elements: 4,
    };
    Header {
        op: operation.tag(),
        ..header(set, round)
    }
}

#[test]
fn quorum_1_enough_members_release_after_the_grace() {
    let mut slot = quorum(2, 100);
    slot.send(&float(1, 0), 1);
    assert_eq!(slot.send(&float(2, 0), 1), Outcome::Quiet(Counter::Merged));
    slot.now += 100;
    let released = slot.send(&float(1, 0), 1);
    assert_eq!(released, Outcome::Release(Counter::Completed));
    assert_eq!(slot.send(&float(4, 0), 1), Outcome::Replay);

    // Who was late once is not waited for again.
    slot.job.late = slot.head.late_after(released, MemberSet(1), &slot.job);
    assert_eq!(slot.job.late, MemberSet(4));
    slot.head = Head::VACANT;
    slot.send(&float(1, 0), 1);
    assert_eq!(slot.send(&float(2, 0), 1), Outcome::Release(Counter::Completed));

    // Other operations wait for all.
    let mut slot = quorum(2, 0);
    slot.send(&header(1, 0), 1);
    assert_eq!(slot.send(&header(2, 0), 1), Outcome::Quiet(Counter::Merged));
}

#[test]
fn quorum_3_nothing_is_recycled_that_somebody_needs() {
    let mut slot = quorum(2, 0);
    slot.send(&float(1, 0), 1);
    slot.send(&float(2, 0), 1);
    let heads = core::slice::from_mut(&mut slot.head);
    mark_past(heads, Round(2), MemberSet(1));
    mark_past(heads, Round(0), MemberSet(4));
    assert_eq!(slot.send(&float(1, 2), 1), Outcome::Quiet(Counter::HeldBack));
    assert_eq!(slot.send(&resend(float(1, 2)), 1), Outcome::HeldBack);
    assert_eq!(slot.head.held_back(&float(1, 2), Epoch(1)).set, MemberSet(1));
    let heads = core::slice::from_mut(&mut slot.head);
    mark_past(heads, Round(1), MemberSet(4));
    mark_past(heads, Round(1), MemberSet(2));
    assert_eq!(slot.send(&float(1, 2), 1), Outcome::Quiet(Counter::Merged));
}

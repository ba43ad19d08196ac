//! One generation of a slot: what was merged so far, and the rules for what arrives (R-SLOT).
//!
//! This is what an eBPF or DPDK host runs per packet. It takes fixed-size references, has no loop but the merge
//! and no reachable panic; the caller has found the generation and checked that the sender may send this
//! ([`crate::job::Job::authorize`]).

use crate::wire::{Flags, Header, Kind, NO_MEMBER, Refusal};
use crate::{Counter, Epoch, Exponent, MemberSet, Nanos, Round};

/// How long a slot stays silent after a Want (R-SLOT-4): about a round trip, so that many resends make one Want.
pub const WANT_INTERVAL: Nanos = 1_000_000;

/// Where a generation of a slot stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
enum State {
    /// Never used: memory of zeros is a vacant slot.
    #[default]
    Vacant = 0,
    /// Contributions are being merged.
    Merging,
    /// As merging, and a Want went out: a result may come from a member (R-SLOT-2).
    Asked,
    /// The values are final until the slot is recycled (R-SLOT-1).
    Complete,
    /// The members disagree on the operation (R-OP-4).
    ConflictingOperation,
    /// The members disagree on the scale (R-NUM-4).
    ConflictingScale,
}

/// All that a generation of a slot holds besides its values.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[repr(C)]
pub struct Head {
    set: MemberSet,
    op: u64,
    wanted_at: Nanos,
    round: Round,
    op_seq: u32,
    workers: u32,
    scale: Exponent,
    next: Exponent,
    state: State,
    /// [`Flags::NONFINITE`] and [`Flags::HEADER_ONLY`] as merged so far.
    flags: Flags,
    /// The member whose contribution made the conflict.
    offender: u8,
}

impl Default for Head {
    fn default() -> Self {
        Self::VACANT
    }
}

/// What a packet did to a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Taken in or dropped, nothing to send; the counter says what it was.
    Quiet(Counter),
    /// The slot is complete now: the result goes to every member. The counter says how it was completed.
    Release(Counter),
    /// The result goes to the sender once more.
    Replay,
    /// A Want goes to every member: those in its set learn who is missing, the others what is missing.
    Want,
    /// A refusal goes to the sender.
    Refuse(Refusal),
    /// A refusal goes to every member.
    RefuseAll(Refusal),
}

/// A packet for a slot: its header, and its values unless it is header-only.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'p, const N: usize> {
    /// The header.
    pub header: &'p Header,
    /// `N` little-endian values.
    pub values: Option<&'p [[u8; 4]; N]>,
}

impl Head {
    /// A generation that was never used.
    pub const VACANT: Self = Self {
        set: MemberSet::EMPTY,
        op: 0,
        wanted_at: 0,
        round: Round(0),
        op_seq: 0,
        workers: 0,
        scale: Exponent(0),
        next: Exponent(0),
        state: State::Vacant,
        flags: Flags::NONE,
        offender: 0,
    };

    /// Applies the merge rules, in the order of the document, to an arrival of a job whose slots are complete with
    /// the members `expected`.
    #[inline(always)]
    pub fn accept<const N: usize>(
        &mut self,
        values: &mut [i32; N],
        expected: MemberSet,
        arrival: Arrival<'_, N>,
        now: Nanos,
    ) -> Outcome {
        let header = arrival.header;
        let is_result = header.flags.has(Flags::RESULT);
        if self.state == State::Vacant || header.round.is_after(self.round) {
            if is_result {
                return Outcome::Quiet(Counter::DroppedSet);
            }
            self.replace(values, arrival);
            self.round = header.round;
            self.state = State::Merging;
            return self.settle(expected, Counter::Merged);
        }
        if self.round != header.round {
            return Outcome::Quiet(Counter::DroppedStale);
        }
        match self.state {
            State::Complete => return Outcome::Replay,
            State::ConflictingOperation => return Outcome::Refuse(Refusal::Operation),
            State::ConflictingScale => return Outcome::Refuse(Refusal::Scale),
            State::Asked | State::Merging | State::Vacant => {}
        }
        if is_result && !(self.state == State::Asked && header.set == expected) {
            return Outcome::Quiet(Counter::DroppedSet);
        }
        if let Some(conflict) = self.conflict(header) {
            return conflict;
        }
        if is_result {
            self.replace(values, arrival);
            return self.settle(expected, Counter::Restored);
        }
        if header.set.is_disjoint(self.set) {
            self.add(values, arrival);
            return self.settle(expected, Counter::Merged);
        }
        if header.set.is_subset(self.set) {
            return self.duplicate(header, now);
        }
        let counter = if self.set.is_subset(header.set) {
            Counter::Replaced
        } else {
            Counter::Overlapped
        };
        self.replace(values, arrival);
        self.settle(expected, counter)
    }

    /// Rules 2, 5 and 6: the slot holds what arrived, and nothing else.
    #[inline(always)]
    fn replace<const N: usize>(&mut self, values: &mut [i32; N], arrival: Arrival<'_, N>) {
        let header = arrival.header;
        self.set = header.set;
        self.workers = header.workers;
        self.flags = header.flags.and(Flags::NONFINITE.with(Flags::HEADER_ONLY));
        self.op = header.op;
        self.op_seq = header.op_seq;
        self.scale = header.scale;
        self.next = header.next;
        if let Some(arrived) = arrival.values {
            for (value, bytes) in values.iter_mut().zip(arrived) {
                *value = i32::from_le_bytes(*bytes);
            }
        }
    }

    /// Rule 3: values add, exponents take the maximum.
    #[inline(always)]
    fn add<const N: usize>(&mut self, values: &mut [i32; N], arrival: Arrival<'_, N>) {
        let header = arrival.header;
        self.set = self.set.union(header.set);
        self.workers = self.workers.wrapping_add(header.workers);
        self.flags = self.flags.with(header.flags.and(Flags::NONFINITE));
        if header.next > self.next {
            self.next = header.next;
        }
        if let Some(arrived) = arrival.values {
            for (value, bytes) in values.iter_mut().zip(arrived) {
                *value = value.wrapping_add(i32::from_le_bytes(*bytes));
            }
        }
    }

    /// Rule 4: what arrived is held already. A resend means that somebody waits: ask for what is missing.
    #[inline(always)]
    fn duplicate(&mut self, header: &Header, now: Nanos) -> Outcome {
        let silent = self.state == State::Asked && now.wrapping_sub(self.wanted_at) < WANT_INTERVAL;
        if !header.flags.has(Flags::RESEND) || silent {
            return Outcome::Quiet(Counter::Duplicate);
        }
        self.state = State::Asked;
        self.wanted_at = now;
        Outcome::Want
    }

    /// R-OP-4 and R-NUM-4: a contribution of another operation or scale is never merged.
    #[inline(always)]
    fn conflict(&mut self, header: &Header) -> Option<Outcome> {
        let same_shape = self.flags.has(Flags::HEADER_ONLY) == header.flags.has(Flags::HEADER_ONLY);
        let refusal = if self.op != header.op || self.op_seq != header.op_seq || !same_shape {
            self.state = State::ConflictingOperation;
            Refusal::Operation
        } else if self.scale != header.scale {
            self.state = State::ConflictingScale;
            Refusal::Scale
        } else {
            return None;
        };
        self.offender = header.member;
        Some(Outcome::RefuseAll(refusal))
    }

    #[inline(always)]
    fn settle(&mut self, expected: MemberSet, counter: Counter) -> Outcome {
        if !expected.is_subset(self.set) {
            return Outcome::Quiet(counter);
        }
        self.state = State::Complete;
        Outcome::Release(if counter as u8 == Counter::Restored as u8 {
            counter
        } else {
            Counter::Completed
        })
    }

    /// The header of the result of a complete slot.
    #[inline(always)]
    pub fn result(&self, key: u64, epoch: Epoch, slot: u16) -> Header {
        self.header(key, epoch, slot, Kind::Data, self.flags.with(Flags::RESULT))
    }

    /// The header of a Want: its set holds the members that are in.
    #[inline(always)]
    pub fn want(&self, key: u64, epoch: Epoch, slot: u16) -> Header {
        self.header(key, epoch, slot, Kind::Want, Flags::NONE)
    }

    /// The header of a refusal of what conflicts with this slot: it states what the slot was opened with.
    #[inline(always)]
    pub fn refusal(&self, key: u64, epoch: Epoch, slot: u16, refusal: Refusal) -> Header {
        let mut header = self.header(key, epoch, slot, Kind::Refusal, Flags::NONE);
        header.member = self.offender;
        header.scale = Exponent(refusal.to_wire());
        header
    }

    #[inline(always)]
    fn header(&self, key: u64, epoch: Epoch, slot: u16, kind: Kind, flags: Flags) -> Header {
        Header {
            kind,
            flags,
            member: NO_MEMBER,
            slot,
            key,
            epoch,
            round: self.round,
            set: self.set,
            workers: self.workers,
            scale: self.scale,
            next: self.next,
            op: self.op,
            op_seq: self.op_seq,
        }
    }

    /// The same without the time of the last Want, which only paces the next: what a tool that compares states, such
    /// as a model checker, wants to compare.
    pub fn without_time(&self) -> Self {
        Self {
            wanted_at: 0,
            ..self.clone()
        }
    }

    /// Whether results of this slot carry values.
    #[inline(always)]
    pub fn has_values(&self) -> bool {
        !self.flags.has(Flags::HEADER_ONLY)
    }

    /// The members whose values are in, while the slot is not complete; `None` where nothing is being merged.
    pub fn waiting(&self) -> Option<(Round, MemberSet)> {
        matches!(self.state, State::Merging | State::Asked).then_some((self.round, self.set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: MemberSet = MemberSet(0b111);

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
        head: Head,
        values: [i32; 4],
        now: Nanos,
    }

    impl Slot {
        fn new() -> Self {
            Self {
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
            self.head.accept(&mut self.values, EXPECTED, arrival, self.now)
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
}

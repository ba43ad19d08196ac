//! All that a generation of a slot holds besides its values, and the headers of what is sent about it.

use super::{State, WANT_INTERVAL};
use crate::job::Parent;
use crate::wire::{Flags, Header, Kind, NO_MEMBER, Refusal};
use crate::{Counter, Epoch, Exponent, Job, Member, MemberSet, Nanos, Round};

/// No frame: the values, if there are any, are in the store.
pub const NO_FRAME: u32 = u32::MAX;

/// All that a generation of a slot holds besides its values: one cache line.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[repr(C)]
pub struct Head {
    pub(super) set: MemberSet,
    /// Under a quorum the members that have moved on to a later round (R-QUORUM-2); in a job with a store, which has no
    /// quorum, those of `set` whose values are there (R-SPILL-2).
    pub(super) past: MemberSet,
    pub(super) op: u64,
    /// When the first arrival of this round came.
    pub(super) opened_at: Nanos,
    pub(super) wanted_at: Nanos,
    pub(super) round: Round,
    pub(super) op_seq: u32,
    pub(super) workers: u32,
    pub(super) scale: Exponent,
    pub(super) next: Exponent,
    pub(super) state: State,
    /// [`Flags::NONFINITE`], [`Flags::HEADER_ONLY`] and [`Flags::CONGESTED`] as merged so far.
    pub(super) flags: Flags,
    /// The member whose contribution made the conflict.
    pub(super) offender: u8,
    /// The store was asked to keep the values, or to give its part of them back, and has not answered.
    pub(super) putting: bool,
    /// In a job with frames, where the values are.
    pub(super) frame: u32,
}

impl Default for Head {
    fn default() -> Self {
        Self::VACANT
    }
}

impl Head {
    /// A generation that was never used. (Memory of zeros is one, too, in a job whose generations have values of their own.)
    pub const VACANT: Self = Self {
        set: MemberSet::EMPTY,
        past: MemberSet::EMPTY,
        op: 0,
        opened_at: 0,
        wanted_at: 0,
        round: Round(0),
        op_seq: 0,
        workers: 0,
        scale: Exponent(0),
        next: Exponent(0),
        state: State::Vacant,
        flags: Flags::NONE,
        offender: 0,
        putting: false,
        frame: NO_FRAME,
    };

    /// Begins a round: nothing of an earlier one counts any more.
    #[inline(always)]
    pub(super) fn open(&mut self, round: Round, state: State, now: Nanos) {
        self.round = round;
        self.past = MemberSet::EMPTY;
        self.putting = false;
        self.opened_at = now;
        self.state = state;
    }

    /// Begins a round of which nothing is here, and asks for it.
    #[inline(always)]
    pub(super) fn open_empty(&mut self, header: &Header, now: Nanos) {
        self.open(header.round, State::Asked, now);
        self.set = MemberSet::EMPTY;
        self.workers = 0;
        self.flags = Flags::NONE;
        self.op = header.op;
        self.op_seq = header.op_seq;
        self.scale = header.scale;
        self.next = header.next;
        self.wanted_at = now;
    }

    /// R-QUORUM-2: `sender` contributes to `round`, and so has moved past this generation's round if that is earlier.
    #[inline(always)]
    pub fn pass(&mut self, round: Round, sender: MemberSet) {
        if round.is_after(self.round) {
            self.past = self.past.union(sender);
        }
    }

    /// Whether the last Want is too young for another.
    #[inline(always)]
    pub(super) fn is_silent(&self, now: Nanos) -> bool {
        self.state == State::Asked && now.wrapping_sub(self.wanted_at) < WANT_INTERVAL
    }

    /// The header of the result of a complete slot.
    #[inline(always)]
    pub fn result(&self, key: u64, epoch: Epoch, slot: u16) -> Header {
        self.header(key, epoch, slot, Kind::Data, self.flags.with(Flags::RESULT))
    }

    /// The header of the result that an arrival has completed, as it goes to every member. Where that was a contribution it
    /// says whose: who waited for nobody else, and so can tell how long the way takes (R-SLOT-7).
    #[inline(always)]
    pub fn released(&self, counter: Counter, epoch: Epoch, arrival: &Header) -> Header {
        let by_contribution = counter as u8 == Counter::Completed as u8;
        Header {
            member: if by_contribution {
                arrival.member
            } else {
                NO_MEMBER
            },
            ..self.result(arrival.key, epoch, arrival.slot)
        }
    }

    /// The header of the result as it is sent once more, to one member (R-SLOT-1).
    #[inline(always)]
    pub fn replayed(&self, key: u64, epoch: Epoch, slot: u16) -> Header {
        let flags = self.flags.with(Flags::RESULT).with(Flags::RESEND);
        self.header(key, epoch, slot, Kind::Data, flags)
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

    /// The header of the Want by which a sender that is held back learns who is behind: what it asked for, with the
    /// members that are not (R-QUORUM-3).
    #[inline(always)]
    pub fn held_back(&self, arrival: &Header, epoch: Epoch) -> Header {
        Header {
            kind: Kind::Want,
            flags: Flags::NONE,
            member: NO_MEMBER,
            epoch,
            set: self.past,
            ..*arrival
        }
    }

    /// The header of the local set's contribution to the parent; `again` marks it as a resend (R-LEAF-1, R-LEAF-2).
    #[inline(always)]
    pub fn contribution(&self, key: u64, parent: &Parent, slot: u16, again: bool) -> Header {
        let flags = self.flags.with(Flags::UP).with(Flags::RESEND.when(again));
        Header {
            member: parent.member,
            set: MemberSet::single(parent.member),
            ..self.header(key, parent.epoch, slot, Kind::Data, flags)
        }
    }

    /// The header of the result as an answer to the parent's Want (R-LEAF-4).
    #[inline(always)]
    pub fn result_up(&self, key: u64, parent: &Parent, slot: u16) -> Header {
        let flags = self.flags.with(Flags::UP).with(Flags::RESULT);
        Header {
            member: parent.member,
            ..self.header(key, parent.epoch, slot, Kind::Data, flags)
        }
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

    /// The same without its times, which only pace what is sent: what a tool that compares states, such as a model
    /// checker, wants to compare.
    pub fn without_time(&self) -> Self {
        Self {
            opened_at: 0,
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

    /// The members of `expected` that this generation waits for or keeps its result for, and since when.
    fn behind(&self, expected: MemberSet, keeps_history: bool) -> (MemberSet, Nanos) {
        let behind = match self.state {
            // An empty set is no sum that waits: a parent asked, or a result was forgotten.
            State::Merging | State::Asked if !self.set.is_empty() => expected.without(self.set),
            State::Complete if keeps_history => expected.without(self.set.union(self.past)),
            _ => MemberSet::EMPTY,
        };
        (behind, self.opened_at)
    }

    /// Adds what this generation knows to how far each member of a job is behind; `lags` and `members` are by member number.
    pub fn add_lag(&self, job: &Job, members: &[Member], now: Nanos, lags: &mut [Lag]) {
        let (behind, since) = self.behind(job.expected, job.policy.keeps_history());
        if behind.is_empty() {
            return;
        }
        let late = members.iter().map(|member| !behind.is_disjoint(member.set));
        for (lag, _) in lags.iter_mut().zip(late).filter(|(_, late)| *late) {
            lag.chunks += 1;
            lag.waiting = lag.waiting.max(now.saturating_sub(since));
        }
    }
}

/// How far a member is behind the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lag {
    /// Chunks that wait for the member or, under a quorum, went without it.
    pub chunks: u64,
    /// How long the oldest of them has waited.
    pub waiting: Nanos,
}

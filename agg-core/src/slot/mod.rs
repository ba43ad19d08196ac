//! One generation of a slot: what was merged so far, and the rules for what arrives (R-SLOT, R-LEAF, R-QUORUM).
//!
//! This is what an eBPF or DPDK host runs per packet. It takes fixed-size references, has no loop but the merge
//! and no reachable panic; the caller has found the generation and checked that the sender may send this
//! ([`crate::job::Job::authorize`], [`crate::job::Job::authorize_down`]).

mod answer;
mod down;
mod head;
mod storage;

pub use answer::{Answer, To};
pub use head::{Head, Lag, NO_FRAME};

use crate::kind::Combine;
use crate::wire::{Flags, Header, Refusal};
use crate::{Counter, Job, MemberSet, Nanos, operation};

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
    /// At a leaf: the local set is full and went up; the parent's result is waited for (R-LEAF-1).
    Full,
    /// The set is full, and a part of its values is awaited from the store (R-SPILL-3).
    Recalling,
    /// The values are final until the slot is recycled (R-SLOT-1).
    Complete,
    /// The members disagree on the operation (R-OP-4).
    ConflictingOperation,
    /// The members disagree on the scale (R-NUM-4).
    ConflictingScale,
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
    /// The local set's contribution goes to the parent; the counter says whether again (R-LEAF-1, R-LEAF-2).
    Forward(Counter),
    /// The result goes to the parent, which asked (R-LEAF-4).
    ForwardResult,
    /// The store's part of the values is needed (R-SPILL-3).
    Recall,
    /// The slot's history is full: the sender learns which members are behind (R-QUORUM-3).
    HeldBack,
}

/// What becomes of a slot's values when a packet has come: the part of a merge that touches every lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Merge {
    /// They stay.
    Keep = 0,
    /// Those of the packet take their place.
    Replace = 1,
    /// Those of the packet are added.
    Add = 2,
    /// The smaller ones stay.
    Min = 3,
    /// The larger ones stay.
    Max = 4,
}

impl From<Combine> for Merge {
    #[inline(always)]
    fn from(combine: Combine) -> Self {
        match combine {
            Combine::Add => Self::Add,
            Combine::Min => Self::Min,
            Combine::Max => Self::Max,
        }
    }
}

impl Merge {
    /// Does it: one pass over the lanes.
    #[inline(always)]
    pub fn apply<const N: usize>(self, values: &mut [i32; N], arrived: &[[u8; 4]; N]) {
        match self {
            Self::Keep => {}
            Self::Replace => each(values, arrived, |_, new| new),
            Self::Add => each(values, arrived, |old, new| Combine::Add.lanes(old, new)),
            Self::Min => each(values, arrived, |old, new| Combine::Min.lanes(old, new)),
            Self::Max => each(values, arrived, |old, new| Combine::Max.lanes(old, new)),
        }
    }
}

/// A plain loop, which compilers know how to vectorise. The eBPF build tells its own to unroll it.
#[inline(always)]
fn each<const N: usize>(values: &mut [i32; N], arrived: &[[u8; 4]; N], merge: impl Fn(i32, i32) -> i32) {
    for (value, bytes) in values.iter_mut().zip(arrived) {
        *value = merge(*value, i32::from_le_bytes(*bytes));
    }
}

/// A packet for a slot: its header, and its values unless it is header-only.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'p, const N: usize> {
    /// The header.
    pub header: &'p Header,
    /// `N` little-endian values.
    pub values: Option<&'p [[u8; 4]; N]>,
}

/// R-QUORUM-2: a contribution for `round` proves that its sender has moved past every earlier round of its slot.
/// `generations` are all of the slot's.
#[inline(always)]
pub fn mark_past(generations: &mut [Head], round: crate::Round, sender: MemberSet) {
    for head in generations {
        head.pass(round, sender);
    }
}

impl Head {
    /// Applies the merge rules, in the order of the document, to what a member of the job sent: [`Self::judge`], then what
    /// it says of the values.
    #[inline(always)]
    pub fn accept<const N: usize>(
        &mut self,
        values: &mut [i32; N],
        job: &Job,
        arrival: Arrival<'_, N>,
        now: Nanos,
    ) -> Outcome {
        let (merge, outcome) = self.judge(job, arrival.header, now);
        if let Some(arrived) = arrival.values {
            merge.apply(values, arrived);
        }
        outcome
    }

    /// Decides by the merge rules what comes of what a member of the job sent. Whoever keeps the values does what is said
    /// of them before anybody else looks at this slot.
    #[inline(always)]
    pub fn judge(&mut self, job: &Job, header: &Header, now: Nanos) -> (Merge, Outcome) {
        let quiet = |counter| (Merge::Keep, Outcome::Quiet(counter));
        let is_result = header.flags.has(Flags::RESULT);
        if self.state == State::Vacant || header.round.is_after(self.round) {
            if is_result {
                return quiet(Counter::DroppedSet);
            }
            if job.policy.keeps_history() && self.state != State::Vacant && !job.expected.is_subset(self.past)
            {
                return (Merge::Keep, self.hold_back(header));
            }
            self.open(header.round, State::Merging, now);
            self.replace(header);
            return (Merge::Replace, self.settle(job, Counter::Merged, now));
        }
        if self.round != header.round {
            return quiet(Counter::DroppedStale);
        }
        let held = match self.state {
            State::Complete => Outcome::Replay,
            State::Full => self.duplicate_when_full(header, now),
            State::Recalling => self.duplicate_when_recalling(header, now),
            State::ConflictingOperation => Outcome::Refuse(Refusal::Operation),
            State::ConflictingScale => Outcome::Refuse(Refusal::Scale),
            State::Asked | State::Merging | State::Vacant => return self.judge_open(job, header, now),
        };
        (Merge::Keep, held)
    }

    /// The rules for a round that is under way.
    #[inline(always)]
    fn judge_open(&mut self, job: &Job, header: &Header, now: Nanos) -> (Merge, Outcome) {
        let is_result = header.flags.has(Flags::RESULT);
        // Under a quorum a result may stand for other members than the next aggregator's slot will hold.
        if is_result && !(self.state == State::Asked && matches!(job.policy, crate::Policy::All)) {
            return (Merge::Keep, Outcome::Quiet(Counter::DroppedSet));
        }
        if let Some(conflict) = self.conflict(header) {
            return (Merge::Keep, conflict);
        }
        if is_result {
            self.replace(header);
            self.complete(job);
            return (Merge::Replace, Outcome::Release(Counter::Restored));
        }
        // Empty where a parent's Want opened it: what the memory holds is of an older round.
        if self.set.is_empty() {
            self.replace(header);
            return (Merge::Replace, self.settle(job, Counter::Merged, now));
        }
        if header.set.is_disjoint(self.set) {
            self.add(header);
            return (self.combine().into(), self.settle(job, Counter::Merged, now));
        }
        if header.set.is_subset(self.set) {
            return (Merge::Keep, self.duplicate(job, header, now));
        }
        let counter = if self.set.is_subset(header.set) {
            Counter::Replaced
        } else {
            Counter::Overlapped
        };
        self.replace(header);
        (Merge::Replace, self.settle(job, counter, now))
    }

    /// Rules 2, 5 and 6: the slot holds what arrived, and nothing else.
    #[inline(always)]
    fn replace(&mut self, header: &Header) {
        self.set = header.set;
        self.workers = header.workers;
        let held = Flags::NONFINITE.with(Flags::HEADER_ONLY).with(Flags::CONGESTED);
        self.flags = header.flags.and(held);
        self.op = header.op;
        self.op_seq = header.op_seq;
        self.scale = header.scale;
        self.next = header.next;
        self.past = MemberSet::EMPTY;
    }

    /// How values of this generation's operation are combined (R-SLOT-3).
    #[inline(always)]
    pub fn combine(&self) -> Combine {
        Combine::of(operation::kind_of(self.op))
    }

    /// Rule 3: values are combined, exponents take the maximum.
    #[inline(always)]
    fn add(&mut self, header: &Header) {
        self.set = self.set.union(header.set);
        self.workers = self.workers.wrapping_add(header.workers);
        let merged = Flags::NONFINITE.with(Flags::CONGESTED);
        self.flags = self.flags.with(header.flags.and(merged));
        if header.next > self.next {
            self.next = header.next;
        }
    }

    /// Rule 4: what arrived is held already. A resend means that somebody waits: ask for what is missing, or let go
    /// if the policy does by now.
    #[inline(always)]
    fn duplicate(&mut self, job: &Job, header: &Header, now: Nanos) -> Outcome {
        if self.is_due(job, now) {
            return self.settle(job, Counter::Duplicate, now);
        }
        if !header.flags.has(Flags::RESEND) || self.is_silent(now) {
            return Outcome::Quiet(Counter::Duplicate);
        }
        self.state = State::Asked;
        self.wanted_at = now;
        Outcome::Want
    }

    /// R-LEAF-2: the workers' resends are the clock by which a leaf sends up again.
    #[inline(always)]
    fn duplicate_when_full(&mut self, header: &Header, now: Nanos) -> Outcome {
        let contributes = !header.flags.has(Flags::RESULT);
        if !contributes
            || !header.flags.has(Flags::RESEND)
            || now.wrapping_sub(self.wanted_at) < WANT_INTERVAL
        {
            return Outcome::Quiet(Counter::Duplicate);
        }
        self.wanted_at = now;
        Outcome::Forward(Counter::ForwardedAgain)
    }

    /// R-SPILL-3: the store's answer may have been lost.
    #[inline(always)]
    fn duplicate_when_recalling(&mut self, header: &Header, now: Nanos) -> Outcome {
        if !header.flags.has(Flags::RESEND) || now.wrapping_sub(self.wanted_at) < WANT_INTERVAL {
            return Outcome::Quiet(Counter::Duplicate);
        }
        self.wanted_at = now;
        Outcome::Recall
    }

    /// R-QUORUM-3: the generation that the arrival needs is still somebody's only way to its result.
    #[inline(always)]
    fn hold_back(&mut self, header: &Header) -> Outcome {
        if header.flags.has(Flags::RESEND) {
            Outcome::HeldBack
        } else {
            Outcome::Quiet(Counter::HeldBack)
        }
    }

    /// R-OP-4 and R-NUM-4: a contribution of another operation or scale is never merged.
    #[inline(always)]
    fn conflict(&mut self, header: &Header) -> Option<Outcome> {
        let refusal = self.difference(header)?;
        self.state = match refusal {
            Refusal::Scale => State::ConflictingScale,
            _ => State::ConflictingOperation,
        };
        self.offender = header.member;
        Some(Outcome::RefuseAll(refusal))
    }

    /// In what an arrival differs from what the generation was opened with.
    #[inline(always)]
    fn difference(&self, header: &Header) -> Option<Refusal> {
        let same_shape = self.flags.has(Flags::HEADER_ONLY) == header.flags.has(Flags::HEADER_ONLY);
        if self.set.is_empty() {
            None
        } else if self.op != header.op || self.op_seq != header.op_seq || !same_shape {
            Some(Refusal::Operation)
        } else if self.scale != header.scale {
            Some(Refusal::Scale)
        } else {
            None
        }
    }

    /// R-SLOT-7, R-LEAF-1: lets the sum go where the policy says that it is whole.
    #[inline(always)]
    fn settle(&mut self, job: &Job, counter: Counter, now: Nanos) -> Outcome {
        if !self.is_due(job, now) {
            return Outcome::Quiet(counter);
        }
        if job.spills && !self.past.is_empty() {
            self.state = State::Recalling;
            self.wanted_at = now;
            return Outcome::Recall;
        }
        if job.parent.is_some() {
            self.state = State::Full;
            self.wanted_at = now;
            return Outcome::Forward(Counter::Forwarded);
        }
        self.state = State::Complete;
        Outcome::Release(Counter::Completed)
    }

    /// The store's part of the values is here again and was added (R-SPILL-3).
    pub(crate) fn settle_recalled(&mut self, job: &Job, now: Nanos) -> Outcome {
        if self.state == State::Recalling {
            self.state = State::Asked;
        }
        self.settle(job, Counter::Merged, now)
    }

    /// Whether the policy lets the slot go with what it holds.
    #[inline(always)]
    fn is_due(&self, job: &Job, now: Nanos) -> bool {
        job.expected.is_subset(self.set)
            || job.policy.releases(
                self.op,
                self.set,
                job.expected,
                job.late,
                now.wrapping_sub(self.opened_at),
            )
    }

    /// A result came: it stands for the whole expected set of this level, whatever level it comes from.
    #[inline(always)]
    fn complete(&mut self, job: &Job) {
        self.set = job.expected;
        self.state = State::Complete;
    }

    /// R-QUORUM-1: which members are late after an arrival of `sender`. Who contributes in time no longer is; who misses a
    /// slot is, also if the next one to be complete has held its contribution since before.
    #[inline(always)]
    pub fn late_after(&self, outcome: Outcome, sender: MemberSet, job: &Job) -> MemberSet {
        match outcome {
            Outcome::Quiet(Counter::Merged) => job.late.without(sender),
            Outcome::Release(Counter::Completed) => {
                job.late.without(sender).union(job.expected.without(self.set))
            }
            _ => job.late,
        }
    }
}

#[cfg(test)]
mod tests;

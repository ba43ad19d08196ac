//! A second writing of the slot rules, each of which can be broken.

use agg_core::kind::Combine;
use agg_core::wire::{Flags, Header, Kind, NO_MEMBER, Refusal};
use agg_core::{Epoch, Exponent, Job, MemberSet, Operation, Policy, Round, operation};

use super::AggregatorMutation as Broken;
use crate::node::{Held, is_of};
use crate::values::LANES;

/// One generation of a slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Generation(pub(super) Option<Merged>);

/// What a generation that was used holds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Merged {
    /// The first arrival's header, with set, workers, flags and next as merged.
    pub(super) header: Header,
    pub(super) values: [i32; LANES],
    pub(super) asked: bool,
    /// At a leaf, it went up.
    pub(super) full: bool,
    pub(super) complete: bool,
    /// R-QUORUM-2.
    pub(super) past: MemberSet,
    pub(super) conflict: Option<(Refusal, u8)>,
}

/// What a generation answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing.
    None,
    /// The result, to the sender.
    ResultToSender,
    /// The result, to every member.
    ResultToAll,
    /// A Want.
    Want,
    /// A refusal, to the sender.
    RefusalToSender(Refusal),
    /// A refusal, to every member.
    RefusalToAll(Refusal),
    /// A Want to the sender: what it sent must wait.
    HeldBack,
    /// The local set's contribution, to the parent.
    Up {
        /// It went up before.
        again: bool,
    },
    /// The result, to the parent.
    ResultUp,
}

impl Generation {
    /// R-SLOT, but for what is broken.
    pub fn accept(&mut self, header: &Header, values: &[i32; LANES], job: &Job, broken: Broken) -> Answer {
        let held = self.0.as_ref().map(|merged| merged.header.round);
        let is_result = header.flags.has(Flags::RESULT);
        if recycles(held, header.round, broken) {
            if is_result && broken != Broken::TakeUnaskedResults {
                return Answer::None;
            }
            if self.is_needed(job) && broken != Broken::RecycleWithoutPast {
                return match header.flags.has(Flags::RESEND) {
                    true => Answer::HeldBack,
                    false => Answer::None,
                };
            }
            return self.insert(Merged::new(header, values)).settle(job, broken);
        }
        let Some(merged) = &mut self.0 else {
            return Answer::None;
        };
        if merged.header.round != header.round && broken != Broken::IgnoreRound {
            return Answer::None;
        }
        merged.accept(header, values, job, broken)
    }

    /// R-QUORUM-2.
    pub fn pass(&mut self, round: Round, sender: u8, broken: Broken) {
        if let Some(merged) = &mut self.0 {
            let held = merged.header.round;
            let passes = match broken {
                Broken::PastOwnRound => !held.is_after(round),
                Broken::PastLaterRounds => held != round,
                _ => round.is_after(held),
            };
            if passes {
                merged.past = merged.past.union(MemberSet::single(sender));
            }
        }
    }

    /// What it holds, if it was ever used.
    pub fn held(&self) -> Option<Held> {
        let merged = self.0.as_ref()?;
        Some(Held {
            round: merged.header.round,
            is_of: is_of(&merged.header),
            set: merged.header.set,
            past: merged.past,
            complete: merged.complete,
        })
    }

    /// The members that need its result no more.
    pub fn past(&self) -> MemberSet {
        self.0.as_ref().map_or(MemberSet::EMPTY, |merged| merged.past)
    }

    /// R-QUORUM-3.
    fn is_needed(&self, job: &Job) -> bool {
        job.policy.keeps_history() && self.0.is_some() && !job.expected.is_subset(self.past())
    }

    fn insert(&mut self, merged: Merged) -> &mut Merged {
        self.0.insert(merged)
    }

    /// The flags that its result carries.
    pub fn flags(&self) -> Flags {
        self.0.as_ref().map_or(Flags::NONE, |merged| merged.header.flags)
    }

    /// The values that its result carries.
    pub fn values(&self) -> &[i32] {
        self.0.as_ref().map_or(&[], |merged| &merged.values)
    }

    /// The header of a packet about this generation.
    pub fn header(&self, arrival: &Header, kind: Kind, flags: Flags, epoch: Epoch) -> Header {
        let held = self.0.as_ref().map_or(*arrival, |merged| merged.header);
        let offender = self
            .0
            .as_ref()
            .and_then(|merged| merged.conflict)
            .map(|(_, member)| member);
        let member = if kind == Kind::Refusal {
            offender.unwrap_or(NO_MEMBER)
        } else {
            NO_MEMBER
        };
        Header {
            kind,
            flags,
            member,
            epoch,
            ..held
        }
    }
}

/// R-SLOT-0: whether the arrival takes the generation for its round.
fn recycles(held: Option<Round>, arrived: Round, broken: Broken) -> bool {
    match (held, broken) {
        (None, Broken::RefuseTooFarAhead) => arrived.0 < 2,
        (Some(held), Broken::RefuseTooFarAhead) => arrived.0 == held.0.wrapping_add(2),
        (None, _) => true,
        (Some(_), Broken::IgnoreRound) => false,
        (Some(held), Broken::RecycleByOlder) => arrived != held,
        (Some(held), _) => arrived.is_after(held),
    }
}

impl Merged {
    pub(super) fn new(header: &Header, values: &[i32; LANES]) -> Self {
        let flags = header.flags.and(Flags::NONFINITE.with(Flags::HEADER_ONLY));
        let header = Header { flags, ..*header };
        Self {
            header,
            values: *values,
            asked: false,
            full: false,
            complete: false,
            past: MemberSet::EMPTY,
            conflict: None,
        }
    }

    /// An arrival of the generation's round.
    fn accept(&mut self, header: &Header, values: &[i32; LANES], job: &Job, broken: Broken) -> Answer {
        if self.complete {
            return self.answer_complete(header, values, broken);
        }
        if let Some((refusal, _)) = self.conflict {
            return Answer::RefusalToSender(refusal);
        }
        if self.full {
            return self.answer_full(header, values, broken);
        }
        let is_result = header.flags.has(Flags::RESULT);
        let may_take = self.asked && !job.policy.keeps_history() || broken == Broken::TakeUnaskedResults;
        if is_result && (!may_take || broken == Broken::DropResults) {
            return Answer::None;
        }
        if let Some(refusal) = self
            .conflict_with(header)
            .filter(|_| broken != Broken::IgnoreOperation)
        {
            self.conflict = Some((refusal, header.member));
            return Answer::RefusalToAll(refusal);
        }
        if is_result {
            return self.take_result(header, values, job);
        }
        let (mine, theirs) = (self.header.set, header.set);
        if theirs.is_disjoint(mine) && !mine.is_empty() {
            self.merge(header, values, broken);
        } else if theirs.is_subset(mine) {
            return self.duplicate(header, values, job, broken);
        } else {
            self.replace(header, values);
        }
        self.settle(job, broken)
    }

    fn replace(&mut self, header: &Header, values: &[i32; LANES]) {
        *self = Self {
            asked: self.asked,
            past: self.past,
            ..Self::new(header, values)
        };
    }

    /// Its set is that of wherever its member was before, or another level's.
    pub(super) fn take_result(&mut self, header: &Header, values: &[i32; LANES], job: &Job) -> Answer {
        self.replace(header, values);
        self.header.set = job.expected;
        self.complete = true;
        Answer::ResultToAll
    }

    fn answer_complete(&mut self, header: &Header, values: &[i32; LANES], broken: Broken) -> Answer {
        match broken {
            Broken::SilentWhenComplete => return Answer::None,
            Broken::MergeIntoComplete => self.merge(header, values, broken),
            Broken::CountLate if header.set.is_disjoint(self.header.set) => {
                self.header.set = self.header.set.union(header.set);
                self.header.workers += header.workers;
            }
            _ => {}
        }
        Answer::ResultToSender
    }

    /// R-LEAF-2.
    fn answer_full(&mut self, header: &Header, values: &[i32; LANES], broken: Broken) -> Answer {
        let resent = header.flags.has(Flags::RESEND) && !header.flags.has(Flags::RESULT);
        if !resent || broken == Broken::ForwardOnce {
            return Answer::None;
        }
        if broken == Broken::MergeWhenFull && !self.asked {
            self.merge_once(header, values, broken);
        }
        Answer::Up { again: true }
    }

    /// Once, or there were no end of states; and the workers still add up, or no worker took the result.
    fn merge_once(&mut self, header: &Header, values: &[i32; LANES], broken: Broken) {
        self.asked = true;
        let workers = self.header.workers;
        self.merge(header, values, broken);
        self.header.workers = workers;
    }

    pub(super) fn conflict_with(&self, header: &Header) -> Option<Refusal> {
        let operation = |header: &Header| (header.op, header.op_seq, header.flags.has(Flags::HEADER_ONLY));
        if self.header.set.is_empty() {
            return None;
        }
        if operation(&self.header) != operation(header) {
            return Some(Refusal::Operation);
        }
        (self.header.scale != header.scale).then_some(Refusal::Scale)
    }

    fn merge(&mut self, header: &Header, values: &[i32; LANES], broken: Broken) {
        self.header.set = self.header.set.union(header.set);
        self.header.workers += header.workers;
        self.header.flags = self.header.flags.with(header.flags.and(Flags::NONFINITE));
        self.header.next = match broken {
            Broken::NextOfLast => header.next,
            _ => Exponent(self.header.next.0.max(header.next.0)),
        };
        let combine = match broken {
            Broken::AlwaysAdd => Combine::Add,
            _ => Combine::of(operation::kind_of(self.header.op)),
        };
        for (value, arrived) in self.values.iter_mut().zip(values) {
            *value = combine.lanes(*value, *arrived);
        }
    }

    fn duplicate(&mut self, header: &Header, values: &[i32; LANES], job: &Job, broken: Broken) -> Answer {
        if broken == Broken::MergeDuplicates && !self.asked {
            self.merge_once(header, values, broken);
            return Answer::None;
        }
        if self.is_due(job, broken) {
            return self.settle(job, broken);
        }
        let silent = match broken {
            Broken::NeverWant => true,
            Broken::WantOnce => self.asked,
            _ => false,
        };
        if silent || !header.flags.has(Flags::RESEND) {
            return Answer::None;
        }
        self.asked = true;
        Answer::Want
    }

    /// R-SLOT-7; the grace is over.
    fn is_due(&self, job: &Job, broken: Broken) -> bool {
        let (set, expected) = (self.header.set, job.expected);
        let missing = expected.without(set).len();
        let early = match broken {
            Broken::CompleteEarly => true,
            Broken::ForwardEarly => job.parent.is_some(),
            _ => false,
        };
        let enough = match job.policy {
            Policy::All => expected.len(),
            Policy::Quorum { members, .. } => {
                let sum = Operation::from_tag(self.header.op).is_some_and(|op| op.kind.is_scaled());
                match (sum, broken) {
                    (true, Broken::SmallQuorum) => u32::from(members) - 1,
                    (true, _) | (_, Broken::QuorumForAll) => u32::from(members).min(expected.len()),
                    _ => expected.len() + 1,
                }
            }
        };
        missing == 0 || early && missing == 1 || job.policy.keeps_history() && set.len() >= enough
    }

    fn settle(&mut self, job: &Job, broken: Broken) -> Answer {
        if !self.is_due(job, broken) {
            return Answer::None;
        }
        if matches!(broken, Broken::CompleteEarly | Broken::ForwardEarly) {
            // As if all were in, or no worker took the result.
            let missing = job.expected.without(self.header.set);
            self.header.set = self.header.set.union(missing);
            self.header.workers += missing.len();
        }
        self.full = job.parent.is_some();
        self.complete = !self.full;
        match self.full {
            true => Answer::Up { again: false },
            false => Answer::ResultToAll,
        }
    }
}

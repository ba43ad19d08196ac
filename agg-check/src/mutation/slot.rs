//! A second writing of the slot rules, each of which can be broken.

use agg_core::wire::{Flags, Header, Kind, NO_MEMBER, Refusal};
use agg_core::{Epoch, Exponent, MemberSet, Round};

use super::AggregatorMutation as Broken;
use crate::values::LANES;

/// One generation of a slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Generation(Option<Merged>);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Merged {
    /// The first arrival's header, with set, workers, flags and next as merged.
    header: Header,
    values: [i32; LANES],
    asked: bool,
    complete: bool,
    conflict: Option<(Refusal, u8)>,
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
}

impl Generation {
    /// R-SLOT, but for what is broken.
    pub fn accept(
        &mut self,
        header: &Header,
        values: &[i32; LANES],
        expected: MemberSet,
        broken: Broken,
    ) -> Answer {
        let held = self.0.as_ref().map(|merged| merged.header.round);
        let is_result = header.flags.has(Flags::RESULT);
        if recycles(held, header.round, broken) {
            if is_result && broken != Broken::TakeUnaskedResults {
                return Answer::None;
            }
            return self.insert(Merged::new(header, values)).settle(expected, broken);
        }
        let Some(merged) = &mut self.0 else {
            return Answer::None;
        };
        if merged.header.round != header.round && broken != Broken::IgnoreRound {
            return Answer::None;
        }
        merged.accept(header, values, expected, broken)
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
    fn new(header: &Header, values: &[i32; LANES]) -> Self {
        let flags = header.flags.and(Flags::NONFINITE.with(Flags::HEADER_ONLY));
        let header = Header { flags, ..*header };
        Self {
            header,
            values: *values,
            asked: false,
            complete: false,
            conflict: None,
        }
    }

    /// An arrival of the generation's round.
    fn accept(
        &mut self,
        header: &Header,
        values: &[i32; LANES],
        expected: MemberSet,
        broken: Broken,
    ) -> Answer {
        if self.complete {
            return self.answer_complete(header, values, broken);
        }
        if let Some((refusal, _)) = self.conflict {
            return Answer::RefusalToSender(refusal);
        }
        let is_result = header.flags.has(Flags::RESULT);
        let may_take = self.asked || broken == Broken::TakeUnaskedResults;
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
        let (mine, theirs) = (self.header.set, header.set);
        if is_result {
            *self = Self {
                asked: self.asked,
                ..Self::new(header, values)
            };
            // Its set is that of wherever its member was before.
            self.header.set = expected;
        } else if theirs.is_disjoint(mine) {
            self.merge(header, values, broken);
        } else if theirs.is_subset(mine) {
            return self.duplicate(header, values, broken);
        } else {
            *self = Self {
                asked: self.asked,
                ..Self::new(header, values)
            };
        }
        self.settle(expected, broken)
    }

    fn answer_complete(&mut self, header: &Header, values: &[i32; LANES], broken: Broken) -> Answer {
        match broken {
            Broken::SilentWhenComplete => return Answer::None,
            Broken::MergeIntoComplete => self.merge(header, values, broken),
            _ => {}
        }
        Answer::ResultToSender
    }

    fn conflict_with(&self, header: &Header) -> Option<Refusal> {
        let operation = |header: &Header| (header.op, header.op_seq, header.flags.has(Flags::HEADER_ONLY));
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
        for (value, arrived) in self.values.iter_mut().zip(values) {
            *value = value.wrapping_add(*arrived);
        }
    }

    fn duplicate(&mut self, header: &Header, values: &[i32; LANES], broken: Broken) -> Answer {
        if broken == Broken::MergeDuplicates && !self.asked {
            // Once, or there were no end of states; and the workers still add up, or no worker took the result.
            self.asked = true;
            let workers = self.header.workers;
            self.merge(header, values, broken);
            self.header.workers = workers;
            return Answer::None;
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

    fn settle(&mut self, expected: MemberSet, broken: Broken) -> Answer {
        let missing = expected.without(self.header.set).len();
        if missing > u32::from(broken == Broken::CompleteEarly) {
            return Answer::None;
        }
        if broken == Broken::CompleteEarly {
            // As if all were in, or no worker took the result.
            (self.header.set, self.header.workers) = (expected, expected.len());
        }
        self.complete = true;
        Answer::ResultToAll
    }
}

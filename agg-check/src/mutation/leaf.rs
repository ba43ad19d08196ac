//! A second writing of what a leaf's slot does with what its parent sends, each rule of which can be broken.

use agg_core::wire::{Header, Kind, NO_MEMBER, Refusal};
use agg_core::{Job, MemberSet};

use super::AggregatorMutation as Broken;
use super::slot::{Answer, Generation, Merged};
use crate::values::LANES;

impl Generation {
    /// R-LEAF-3 to R-LEAF-5, but for what is broken.
    pub fn accept_down(
        &mut self,
        header: &Header,
        values: &[i32; LANES],
        job: &Job,
        broken: Broken,
    ) -> Answer {
        let held = self.0.as_ref().map(|merged| merged.header.round);
        let opens = held.is_none_or(|held| header.round.is_after(held));
        if opens && header.kind == Kind::Want && broken != Broken::KeepWants {
            let set = MemberSet::EMPTY;
            let opened = Header {
                set,
                workers: 0,
                ..*header
            };
            self.0 = Some(Merged {
                asked: true,
                ..Merged::new(&opened, values)
            });
            return Answer::Want;
        }
        let Some(merged) = self
            .0
            .as_mut()
            .filter(|merged| merged.header.round == header.round)
        else {
            return Answer::None;
        };
        match header.kind {
            _ if merged.conflict.is_some() => Answer::None,
            Kind::Data => merged.result_from_parent(header, values, job, broken),
            Kind::Want => merged.want_from_parent(header, job, broken),
            Kind::Refusal => merged.refusal_from_parent(header, broken),
        }
    }
}

impl Merged {
    fn result_from_parent(
        &mut self,
        header: &Header,
        values: &[i32; LANES],
        job: &Job,
        broken: Broken,
    ) -> Answer {
        if self.complete && broken == Broken::AnswerParent {
            return Answer::ResultUp;
        }
        if self.complete || self.conflict_with(header).is_some() || broken == Broken::DropParentResults {
            return Answer::None;
        }
        self.take_result(header, values, job)
    }

    fn want_from_parent(&mut self, header: &Header, job: &Job, broken: Broken) -> Answer {
        if self.complete {
            return match broken {
                Broken::KeepResults => Answer::None,
                _ => Answer::ResultUp,
            };
        }
        let in_it = job
            .parent
            .is_some_and(|parent| header.set.contains(parent.member));
        if self.full && !in_it {
            return Answer::Up { again: true };
        }
        if broken == Broken::KeepWants {
            return Answer::None;
        }
        self.asked |= !self.full;
        Answer::Want
    }

    fn refusal_from_parent(&mut self, header: &Header, broken: Broken) -> Answer {
        let refusal = match Refusal::from_wire(header.scale.0) {
            Some(refusal @ (Refusal::Operation | Refusal::Scale)) => refusal,
            _ => return Answer::None,
        };
        if self.complete || broken == Broken::KeepRefusals {
            return Answer::None;
        }
        self.conflict = Some((refusal, NO_MEMBER));
        (self.header.set, self.header.op, self.header.op_seq) = (MemberSet::EMPTY, header.op, header.op_seq);
        Answer::RefusalToAll(refusal)
    }
}

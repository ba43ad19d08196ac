//! What a leaf's slot does with what its parent sends (R-LEAF).

use super::{Arrival, Head, Merge, Outcome, State};
use crate::wire::{Flags, Header, Kind, NO_MEMBER, Refusal};
use crate::{Counter, Job, MemberSet, Nanos};

impl Head {
    /// Applies the rules for a packet from the parent: [`Self::judge_down`], then what it says of the values.
    #[inline(always)]
    pub fn accept_down<const N: usize>(
        &mut self,
        values: &mut [i32; N],
        job: &Job,
        arrival: Arrival<'_, N>,
        now: Nanos,
    ) -> Outcome {
        let (merge, outcome) = self.judge_down(job, arrival.header, now);
        if let Some(arrived) = arrival.values {
            merge.apply(values, arrived);
        }
        outcome
    }

    /// Decides what comes of a packet from the parent, as [`Self::judge`] does for those of members.
    #[inline(always)]
    pub fn judge_down(&mut self, job: &Job, header: &Header, now: Nanos) -> (Merge, Outcome) {
        match header.kind {
            Kind::Data => self.result_from_parent(job, header),
            Kind::Want => (Merge::Keep, self.want_from_parent(job, header, now)),
            Kind::Refusal => (Merge::Keep, self.refusal_from_parent(header)),
        }
    }

    /// R-LEAF-3: the parent's result replaces what is here and goes to every member.
    #[inline(always)]
    fn result_from_parent(&mut self, job: &Job, header: &Header) -> (Merge, Outcome) {
        let quiet = |counter| (Merge::Keep, Outcome::Quiet(counter));
        if !header.flags.has(Flags::RESULT) {
            return quiet(Counter::DroppedDirection);
        }
        match self.state {
            State::Merging | State::Asked | State::Full if self.round == header.round => {}
            State::Complete if self.round == header.round => return quiet(Counter::Duplicate),
            _ => return quiet(Counter::DroppedStale),
        }
        if self.difference(header).is_some() {
            return quiet(Counter::DroppedSet);
        }
        self.replace(header);
        self.complete(job);
        (Merge::Replace, Outcome::Release(Counter::ResultsTaken))
    }

    /// R-LEAF-4: the parent lacks something of this slot, or says whom it waits for.
    #[inline(always)]
    fn want_from_parent(&mut self, job: &Job, header: &Header, now: Nanos) -> Outcome {
        if self.state == State::Vacant || header.round.is_after(self.round) {
            self.open_empty(header, now);
            return Outcome::Want;
        }
        if self.round != header.round {
            return Outcome::Quiet(Counter::DroppedStale);
        }
        match self.state {
            State::Complete => Outcome::ForwardResult,
            // The others are waited for: the members learn that the tree lives.
            State::Full
                if job
                    .parent
                    .is_some_and(|parent| header.set.contains(parent.member)) =>
            {
                Outcome::Want
            }
            State::Full => {
                self.wanted_at = now;
                Outcome::Forward(Counter::ForwardedAgain)
            }
            State::Merging | State::Asked => {
                self.state = State::Asked;
                self.wanted_at = now;
                Outcome::Want
            }
            State::Vacant | State::Recalling | State::ConflictingOperation | State::ConflictingScale => {
                Outcome::Quiet(Counter::Duplicate)
            }
        }
    }

    /// R-LEAF-5: ranks of other leaves called something else; the members here are told what.
    #[inline(always)]
    fn refusal_from_parent(&mut self, header: &Header) -> Outcome {
        let (state, refusal) = match Refusal::from_wire(header.scale.0) {
            Some(Refusal::Operation) => (State::ConflictingOperation, Refusal::Operation),
            Some(Refusal::Scale) => (State::ConflictingScale, Refusal::Scale),
            // Of the job as a whole: the control services tell each other.
            _ => return Outcome::Quiet(Counter::RefusedByParent),
        };
        if self.round != header.round || !matches!(self.state, State::Merging | State::Asked | State::Full) {
            return Outcome::Quiet(Counter::DroppedStale);
        }
        self.state = state;
        self.set = MemberSet::EMPTY;
        self.op = header.op;
        self.op_seq = header.op_seq;
        self.offender = NO_MEMBER;
        Outcome::RefuseAll(refusal)
    }
}

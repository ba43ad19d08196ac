//! What an aggregator with a parent does besides (docs/protocol.md, "Leaves").

use std::collections::BTreeSet;

use crate::generation::{Effect, Generation, PAUSE, Stage};
use crate::job::ModelJob;
use crate::packet::{DATA, FROM_AGGREGATOR, ModelPacket, REFUSAL, WANT};

impl Generation {
    /// R-LEAF-1: it goes to the parent.
    pub(crate) fn go_up(&mut self, about: &ModelPacket, job: &ModelJob, now: u64) -> Effect {
        let parent = job.parent.expect("a leaf");
        let again = self.sent_up_at.is_some();
        self.sent_up_at = Some(now);
        let counter = if again {
            "contributions_forwarded_again"
        } else {
            "contributions_forwarded"
        };
        let up = ModelPacket {
            up: true,
            result: false,
            resend: again,
            member: parent.member,
            epoch: parent.epoch,
            set: [parent.member].into(),
            ..self.result(about, job)
        };
        Effect::Up(counter, up)
    }

    /// R-LEAF-2.
    pub(crate) fn arrive_when_full(&mut self, arrival: &ModelPacket, job: &ModelJob, now: u64) -> Effect {
        let paused = self.sent_up_at.is_none_or(|at| now - at >= PAUSE);
        if arrival.resend && !arrival.result && paused {
            self.go_up(arrival, job, now)
        } else {
            Effect::Quiet("duplicates")
        }
    }

    /// R-LEAF-4: opened by a Want of the parent.
    pub(crate) fn opened_by_want(want: &ModelPacket, now: u64) -> Self {
        Self {
            set: BTreeSet::new(),
            workers: 0,
            header_only: false,
            nonfinite: false,
            congested: false,
            ..Self::opened_by(want, Vec::new(), now)
        }
    }

    /// A packet of the parent for this generation's round.
    pub(crate) fn arrive_from_parent(
        &mut self,
        packet: &ModelPacket,
        values: Vec<i32>,
        job: &ModelJob,
        now: u64,
    ) -> Effect {
        match packet.kind {
            WANT => self.wanted_by_parent(packet, job, now),
            REFUSAL => self.refused_by_parent(packet, job),
            _ => self.answered_by_parent(packet, values, job),
        }
    }

    /// R-LEAF-3.
    fn answered_by_parent(&mut self, result: &ModelPacket, values: Vec<i32>, job: &ModelJob) -> Effect {
        match self.stage {
            Stage::Complete => Effect::Quiet("duplicates"),
            Stage::Recalling | Stage::Conflicting { .. } => Effect::Quiet("dropped_stale_round"),
            Stage::Open | Stage::Full if self.difference(result).is_some() => {
                Effect::Quiet("dropped_forbidden_set")
            }
            Stage::Open | Stage::Full => self.restore(result, values, job, "results_from_parent"),
        }
    }

    /// R-LEAF-4, but for what opens a generation.
    fn wanted_by_parent(&mut self, want: &ModelPacket, job: &ModelJob, now: u64) -> Effect {
        let parent = job.parent.expect("a leaf");
        match self.stage {
            Stage::Open => self.want_all(want, job, now),
            Stage::Full if want.set.contains(&parent.member) => {
                Effect::ToAll("wants_sent", self.want(want, job))
            }
            Stage::Full => self.go_up(want, job, now),
            Stage::Complete => {
                let result = ModelPacket {
                    kind: DATA,
                    up: true,
                    member: parent.member,
                    epoch: parent.epoch,
                    ..self.result(want, job)
                };
                Effect::Up("results_sent_to_parent", result)
            }
            Stage::Recalling | Stage::Conflicting { .. } => Effect::Quiet("duplicates"),
        }
    }

    /// R-LEAF-5; the reason is 1 or 2.
    fn refused_by_parent(&mut self, refusal: &ModelPacket, job: &ModelJob) -> Effect {
        if !matches!(self.stage, Stage::Open | Stage::Full) {
            return Effect::Quiet("dropped_stale_round");
        }
        self.stage = Stage::Conflicting {
            reason: refusal.scale.expect("a reason"),
            offender: FROM_AGGREGATOR,
        };
        self.set.clear();
        self.op = refusal.op;
        self.op_seq = refusal.op_seq;
        Effect::ToAll(self.conflict_counter(), self.refusal(refusal, job))
    }
}

//! The policy Quorum (docs/protocol.md, "Quorum").

use std::collections::BTreeSet;

use crate::generation::{Effect, Generation};
use crate::job::ModelJob;
use crate::kind::ModelKind;
use crate::packet::{FROM_AGGREGATOR, ModelPacket, WANT};

impl Generation {
    /// R-SLOT-7, R-QUORUM-1: whether it is complete with what it holds.
    pub(crate) fn is_due(&self, job: &ModelJob, now: u64) -> bool {
        let expected = job.expected();
        let missing: BTreeSet<u8> = expected.difference(&self.set).copied().collect();
        if missing.is_empty() {
            return true;
        }
        let Some(quorum) = job.quorum else { return false };
        let enough = self.set.len() >= expected.len().min(usize::from(quorum.members));
        let waited = now - self.opened_at >= quorum.grace;
        ModelKind::of(self.op).is_some_and(ModelKind::is_scaled)
            && enough
            && (waited || missing.is_subset(&job.late))
    }

    /// R-QUORUM-3: whether nobody needs its result any more.
    pub(crate) fn is_past(&self, job: &ModelJob) -> bool {
        job.expected().is_subset(&self.past)
    }

    /// R-QUORUM-3: what becomes of an arrival that this generation is in the way of.
    pub(crate) fn hold_back(&self, arrival: &ModelPacket, job: &ModelJob) -> Effect {
        let counter = "contributions_held_back";
        if !arrival.resend {
            return Effect::Quiet(counter);
        }
        let want = ModelPacket {
            kind: WANT,
            member: FROM_AGGREGATOR,
            epoch: job.epoch,
            set: self.past.clone(),
            ..arrival.without_flags()
        };
        Effect::Reply(counter, want)
    }
}

impl ModelJob {
    /// R-QUORUM-1: who is late after an arrival from `sender` had this effect. `held` is what its generation holds now.
    pub(crate) fn note_lateness(&mut self, effect: &Effect, sender: &BTreeSet<u8>, held: &BTreeSet<u8>) {
        let completed = matches!(effect, Effect::ToAll("slots_completed", _));
        if self.quorum.is_none() || !(completed || *effect == Effect::Quiet("contributions_merged")) {
            return;
        }
        self.late.retain(|member| !sender.contains(member));
        if completed {
            self.late.extend(self.expected().difference(held));
        }
    }
}

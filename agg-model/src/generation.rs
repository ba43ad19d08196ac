//! One generation of a slot and the merge rules (docs/protocol.md, "Merging"), in the document's order.

use std::collections::BTreeSet;

use crate::job::ModelJob;
use crate::kind::combine;
use crate::packet::{DATA, FROM_AGGREGATOR, ModelPacket, REFUSAL, WANT, to_bytes};

/// The shortest time between two Wants of a generation, in ns (R-SLOT-4), and between two sends up (R-LEAF-2).
pub(crate) const PAUSE: u64 = 1_000_000;

/// How far a generation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It merges.
    Open,
    /// At a leaf: it holds every member and went up (R-LEAF-1).
    Full,
    /// It holds every member, and the store's part of its values is awaited (R-SPILL-3).
    Recalling,
    /// Its values are final.
    Complete,
    /// Its members disagree.
    Conflicting {
        /// The refusal's reason, 1 or 2.
        reason: i16,
        /// The member whose arrival differed first.
        offender: u8,
    },
}

/// What a generation of a slot holds; one that was never used is none at all.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "fields of the packet keep their names")]
pub struct Generation {
    pub stage: Stage,
    pub round: u32,
    pub set: BTreeSet<u8>,
    pub workers: u32,
    pub values: Vec<i32>,
    pub nonfinite: bool,
    pub header_only: bool,
    /// R-ECN-2: a contribution in it was marked.
    pub congested: bool,
    pub scale: Option<i16>,
    pub next: Option<i16>,
    pub op: u64,
    pub op_seq: u32,
    /// When the last Want went out; *asked* when there is one.
    pub wanted_at: Option<u64>,
    /// When its round's first arrival came.
    pub opened_at: u64,
    /// When it last went up, at a leaf.
    pub sent_up_at: Option<u64>,
    /// R-QUORUM-2: who needs its result no more.
    pub past: BTreeSet<u8>,
    /// In a job with a store: its values are in a frame.
    pub near: bool,
    /// Those of its set whose values are in the store, and not in `values` (R-SPILL-3).
    pub stored: BTreeSet<u8>,
    /// The store was asked to keep what it holds, to which nothing was added since (R-SPILL-2).
    pub putting: bool,
    /// The store's part is to be asked for now (R-SPILL-3).
    pub recalls: bool,
}

/// What an arrival does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Counted, nothing sent.
    Quiet(&'static str),
    /// Counted, and this goes to the sender.
    Reply(&'static str, ModelPacket),
    /// Counted, and this goes to every member.
    ToAll(&'static str, ModelPacket),
    /// Counted, and this goes to the parent.
    Up(&'static str, ModelPacket),
}

impl Generation {
    /// R-SLOT-0: the generation holds just the arrival.
    pub fn opened_by(arrival: &ModelPacket, values: Vec<i32>, now: u64) -> Self {
        Self {
            stage: Stage::Open,
            round: arrival.round,
            set: arrival.set.clone(),
            workers: arrival.workers,
            values,
            nonfinite: arrival.nonfinite,
            header_only: arrival.header_only,
            congested: arrival.congested,
            scale: arrival.scale,
            next: arrival.next,
            op: arrival.op,
            op_seq: arrival.op_seq,
            wanted_at: None,
            opened_at: now,
            sent_up_at: None,
            past: BTreeSet::new(),
            near: false,
            stored: BTreeSet::new(),
            putting: false,
            recalls: false,
        }
    }

    /// An arrival of this generation's round, from a member: R-SLOT-1 to R-SLOT-6.
    pub fn arrive(&mut self, arrival: &ModelPacket, values: Vec<i32>, job: &ModelJob, now: u64) -> Effect {
        match self.stage {
            // R-SLOT-1
            Stage::Complete => {
                let again = ModelPacket {
                    resend: true,
                    ..self.result(arrival, job)
                };
                return Effect::Reply("results_replayed", again);
            }
            // R-OP-4, R-NUM-4: later arrivals are answered by the same refusal.
            Stage::Conflicting { .. } => {
                return Effect::Reply(self.conflict_counter(), self.refusal(arrival, job));
            }
            Stage::Full => return self.arrive_when_full(arrival, job, now),
            Stage::Recalling => return self.arrive_when_recalling(arrival, now),
            Stage::Open => {}
        }
        // R-SLOT-2, the part that drops.
        if arrival.result && (self.wanted_at.is_none() || job.quorum.is_some()) {
            return Effect::Quiet("dropped_forbidden_set");
        }
        // R-OP-4, then R-NUM-4.
        if let Some(reason) = self.difference(arrival) {
            let offender = arrival.member;
            self.stage = Stage::Conflicting { reason, offender };
            return Effect::ToAll(self.conflict_counter(), self.refusal(arrival, job));
        }
        // R-SLOT-2, the part that takes.
        if arrival.result {
            return self.restore(arrival, values, job, "slots_restored");
        }
        // R-SLOT-3
        if self.set.is_empty() {
            self.replace(arrival, values);
            return self.settle(arrival, job, "contributions_merged", now);
        }
        if arrival.set.is_disjoint(&self.set) {
            self.combine(&values);
            self.set.extend(&arrival.set);
            self.workers = self.workers.wrapping_add(arrival.workers);
            self.nonfinite = self.nonfinite || arrival.nonfinite;
            self.congested = self.congested || arrival.congested;
            self.next = self.next.max(arrival.next);
            return self.settle(arrival, job, "contributions_merged", now);
        }
        // R-SLOT-4
        if arrival.set.is_subset(&self.set) {
            return self.duplicate(arrival, job, now);
        }
        // R-SLOT-5 and R-SLOT-6
        let counter = if arrival.set.is_superset(&self.set) {
            "contributions_replaced"
        } else {
            "contributions_overlapping"
        };
        self.replace(arrival, values);
        self.settle(arrival, job, counter, now)
    }

    /// R-SLOT-3, R-SPILL-3: merges values with those that are here, if any are.
    pub(crate) fn combine(&mut self, others: &[i32]) {
        if self.values.is_empty() {
            self.values = others.to_vec();
            return;
        }
        for (value, other) in self.values.iter_mut().zip(others) {
            *value = combine(self.op, *value, *other);
        }
    }

    fn duplicate(&mut self, arrival: &ModelPacket, job: &ModelJob, now: u64) -> Effect {
        // R-QUORUM-1 and R-QUORUM-5: what is due goes with whatever arrives.
        if self.is_due(job, now) {
            return self.settle(arrival, job, "duplicates", now);
        }
        let paused = self.wanted_at.is_none_or(|at| now - at >= PAUSE);
        if !arrival.resend || !paused {
            return Effect::Quiet("duplicates");
        }
        self.want_all(arrival, job, now)
    }

    /// It is *asked*, and a Want with what it holds goes to every member.
    pub(crate) fn want_all(&mut self, about: &ModelPacket, job: &ModelJob, now: u64) -> Effect {
        self.wanted_at = Some(now);
        Effect::ToAll("wants_sent", self.want(about, job))
    }

    /// The refusal's reason, if the arrival is of another operation (1) or scale (2) than what is held, if anything is.
    pub(crate) fn difference(&self, arrival: &ModelPacket) -> Option<i16> {
        let op = |of: &ModelPacket| (of.op, of.op_seq, of.header_only);
        if self.set.is_empty() {
            None
        } else if op(arrival) != (self.op, self.op_seq, self.header_only) {
            Some(1)
        } else if arrival.scale != self.scale {
            Some(2)
        } else {
            None
        }
    }

    /// Everything that was merged gives way to the arrival. Whether a Want went out, and when, is not merged: it stays.
    fn replace(&mut self, arrival: &ModelPacket, values: Vec<i32>) {
        let old = self.clone();
        *self = Self {
            wanted_at: old.wanted_at,
            sent_up_at: old.sent_up_at,
            past: old.past,
            ..Self::opened_by(arrival, values, old.opened_at)
        };
    }

    /// R-SLOT-2, R-LEAF-3: a RESULT replaces everything; the set is this level's.
    pub(crate) fn restore(
        &mut self,
        result: &ModelPacket,
        values: Vec<i32>,
        job: &ModelJob,
        counter: &'static str,
    ) -> Effect {
        self.replace(result, values);
        self.set = job.expected();
        self.stage = Stage::Complete;
        Effect::ToAll(counter, self.result(result, job))
    }

    /// R-SLOT-7 and R-LEAF-1: goes to all, or up, if it is due; else it is just counted as `open`.
    pub fn settle(&mut self, arrival: &ModelPacket, job: &ModelJob, open: &'static str, now: u64) -> Effect {
        if !self.is_due(job, now) {
            Effect::Quiet(open)
        } else if !self.stored.is_empty() {
            self.recall(now)
        } else if job.parent.is_some() {
            self.stage = Stage::Full;
            self.go_up(arrival, job, now)
        } else {
            self.stage = Stage::Complete;
            // R-SLOT-7: it says whose contribution came last.
            let result = ModelPacket {
                member: arrival.member,
                ..self.result(arrival, job)
            };
            Effect::ToAll("slots_completed", result)
        }
    }

    /// Its result, in a packet about the slot of `arrival`.
    pub(crate) fn result(&self, arrival: &ModelPacket, job: &ModelJob) -> ModelPacket {
        let rest = if self.header_only {
            Vec::new()
        } else {
            to_bytes(&self.values)
        };
        ModelPacket {
            kind: DATA,
            result: true,
            nonfinite: self.nonfinite,
            header_only: self.header_only,
            congested: self.congested,
            rest,
            ..self.bare(arrival, job)
        }
    }

    /// A Want that says what it holds.
    pub(crate) fn want(&self, arrival: &ModelPacket, job: &ModelJob) -> ModelPacket {
        ModelPacket {
            kind: WANT,
            ..self.bare(arrival, job)
        }
    }

    /// What its members are told once they disagree.
    pub(crate) fn refusal(&self, arrival: &ModelPacket, job: &ModelJob) -> ModelPacket {
        let Stage::Conflicting { reason, offender } = self.stage else {
            panic!("not conflicting")
        };
        ModelPacket {
            kind: REFUSAL,
            member: offender,
            scale: Some(reason),
            ..self.bare(arrival, job)
        }
    }

    pub(crate) fn conflict_counter(&self) -> &'static str {
        match self.stage {
            Stage::Conflicting { reason: 1, .. } => "refused_operation_differs",
            _ => "refused_scale_differs",
        }
    }

    /// What this generation says of itself, in a packet about the slot of `arrival`.
    fn bare(&self, arrival: &ModelPacket, job: &ModelJob) -> ModelPacket {
        ModelPacket {
            member: FROM_AGGREGATOR,
            epoch: job.epoch,
            round: self.round,
            set: self.set.clone(),
            workers: self.workers,
            scale: self.scale,
            next: self.next,
            op: self.op,
            op_seq: self.op_seq,
            ..arrival.without_flags()
        }
    }
}

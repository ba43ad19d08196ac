//! One generation of a slot and the merge rules (docs/protocol.md, "Merging"), in the document's order.

use std::collections::BTreeSet;

use crate::packet::{DATA, FROM_AGGREGATOR, ModelPacket, REFUSAL, WANT, to_bytes};

/// The shortest time between two Wants of a generation, in ns (R-SLOT-4).
const WANT_PAUSE: u64 = 1_000_000;

/// How far a generation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It merges.
    Open,
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
    pub scale: Option<i16>,
    pub next: Option<i16>,
    pub op: u64,
    pub op_seq: u32,
    /// When the last Want went out; *asked* when there is one.
    pub wanted_at: Option<u64>,
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
}

impl Generation {
    /// R-SLOT-0: the generation holds just the arrival.
    pub fn opened_by(arrival: &ModelPacket, values: Vec<i32>) -> Self {
        Self {
            stage: Stage::Open,
            round: arrival.round,
            set: arrival.set.clone(),
            workers: arrival.workers,
            values,
            nonfinite: arrival.nonfinite,
            header_only: arrival.header_only,
            scale: arrival.scale,
            next: arrival.next,
            op: arrival.op,
            op_seq: arrival.op_seq,
            wanted_at: None,
        }
    }

    /// An arrival of this generation's round: R-SLOT-1 to R-SLOT-6.
    pub fn arrive(
        &mut self,
        arrival: &ModelPacket,
        values: Vec<i32>,
        expected: &BTreeSet<u8>,
        now: u64,
    ) -> Effect {
        match self.stage {
            // R-SLOT-1
            Stage::Complete => return Effect::Reply("results_replayed", self.result(arrival)),
            // R-OP-4, R-NUM-4: later arrivals are answered by the same refusal.
            Stage::Conflicting { .. } => {
                return Effect::Reply(self.conflict_counter(), self.refusal(arrival));
            }
            Stage::Open => {}
        }
        // R-SLOT-2, the part that drops.
        let asked = self.wanted_at.is_some();
        if arrival.result && !(asked && arrival.set == *expected) {
            return Effect::Quiet("dropped_forbidden_set");
        }
        // R-OP-4, then R-NUM-4.
        let same_op =
            (arrival.op, arrival.op_seq, arrival.header_only) == (self.op, self.op_seq, self.header_only);
        if !same_op || arrival.scale != self.scale {
            let reason = if same_op { 2 } else { 1 };
            self.stage = Stage::Conflicting {
                reason,
                offender: arrival.member,
            };
            return Effect::ToAll(self.conflict_counter(), self.refusal(arrival));
        }
        // R-SLOT-2, the part that takes.
        if arrival.result {
            self.replace(arrival, values);
            return self.settle(arrival, expected, "slots_restored", "slots_restored");
        }
        // R-SLOT-3
        if arrival.set.is_disjoint(&self.set) {
            for (value, arrived) in self.values.iter_mut().zip(values) {
                *value = value.wrapping_add(arrived);
            }
            self.set.extend(&arrival.set);
            self.workers = self.workers.wrapping_add(arrival.workers);
            self.nonfinite = self.nonfinite || arrival.nonfinite;
            self.next = self.next.max(arrival.next);
            return self.settle(arrival, expected, "contributions_merged", "slots_completed");
        }
        // R-SLOT-4
        if arrival.set.is_subset(&self.set) {
            let paused = self
                .wanted_at
                .is_none_or(|wanted_at| now - wanted_at >= WANT_PAUSE);
            if !arrival.resend || !paused {
                return Effect::Quiet("duplicates");
            }
            self.wanted_at = Some(now);
            return Effect::ToAll("wants_sent", self.want(arrival));
        }
        // R-SLOT-5 and R-SLOT-6
        let counter = if arrival.set.is_superset(&self.set) {
            "contributions_replaced"
        } else {
            "contributions_overlapping"
        };
        self.replace(arrival, values);
        self.settle(arrival, expected, counter, "slots_completed")
    }

    /// Everything that was merged gives way to the arrival. Whether a Want went out is not merged: it stays.
    fn replace(&mut self, arrival: &ModelPacket, values: Vec<i32>) {
        let wanted_at = self.wanted_at;
        *self = Self {
            wanted_at,
            ..Self::opened_by(arrival, values)
        };
    }

    /// R-SLOT-7: counted as `complete` and sent to all when every member is in, else just counted as `open`.
    pub fn settle(
        &mut self,
        arrival: &ModelPacket,
        expected: &BTreeSet<u8>,
        open: &'static str,
        complete: &'static str,
    ) -> Effect {
        if !self.set.is_superset(expected) {
            return Effect::Quiet(open);
        }
        self.stage = Stage::Complete;
        Effect::ToAll(complete, self.result(arrival))
    }

    fn result(&self, arrival: &ModelPacket) -> ModelPacket {
        let flags = (self.nonfinite, self.header_only);
        let rest = if self.header_only {
            Vec::new()
        } else {
            to_bytes(&self.values)
        };
        ModelPacket {
            kind: DATA,
            result: true,
            nonfinite: flags.0,
            header_only: flags.1,
            rest,
            ..self.bare(arrival)
        }
    }

    fn want(&self, arrival: &ModelPacket) -> ModelPacket {
        ModelPacket {
            kind: WANT,
            ..self.bare(arrival)
        }
    }

    fn refusal(&self, arrival: &ModelPacket) -> ModelPacket {
        let Stage::Conflicting { reason, offender } = self.stage else {
            panic!("not conflicting")
        };
        ModelPacket {
            kind: REFUSAL,
            member: offender,
            scale: Some(reason),
            ..self.bare(arrival)
        }
    }

    fn conflict_counter(&self) -> &'static str {
        match self.stage {
            Stage::Conflicting { reason: 1, .. } => "refused_operation_differs",
            _ => "refused_scale_differs",
        }
    }

    /// What this generation says of itself, in a packet about the slot of `arrival`.
    fn bare(&self, arrival: &ModelPacket) -> ModelPacket {
        ModelPacket {
            kind: DATA,
            up: false,
            result: false,
            resend: false,
            nonfinite: false,
            header_only: false,
            member: FROM_AGGREGATOR,
            slot: arrival.slot,
            key: arrival.key,
            epoch: arrival.epoch,
            round: self.round,
            set: self.set.clone(),
            workers: self.workers,
            scale: self.scale,
            next: self.next,
            op: self.op,
            op_seq: self.op_seq,
            rest: Vec::new(),
        }
    }
}

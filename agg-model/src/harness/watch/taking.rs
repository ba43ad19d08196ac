//! What a worker must take of what it receives, and what that does to it.

use super::Watch;
use crate::ModelPredictions;
use crate::packet::{DATA, ModelPacket, REFUSAL, WANT};

impl Watch {
    /// R-RESULT-1, R-QUORUM-4: the chunk whose result this is, if it must be taken.
    pub(super) fn result_of(&self, packet: &ModelPacket) -> Option<u64> {
        let index = self.index_at(packet.slot, packet.round)?;
        let current = self.current.as_ref()?;
        let is_result = packet.kind == DATA && packet.result && packet.values(self.job.lanes).is_some();
        let (waited_for, enough) = if self.job.quorum.is_some() {
            let some = 1..=current.workers;
            (self.is_begun(index), some.contains(&packet.workers))
        } else {
            let sent = self.waiting.contains_key(&index);
            (sent, packet.workers == current.workers)
        };
        let says = (packet.op, packet.op_seq, packet.header_only);
        let same = says == (current.input.op(), current.op_seq, current.block(index).is_none());
        let taken = is_result && waited_for && enough && packet.epoch == self.epoch && same;
        (taken && packet.scale == self.scale_of(index)).then_some(index)
    }

    pub(super) fn take(&mut self, packet: &ModelPacket, index: u64) {
        self.results += 1;
        self.waiting.remove(&index);
        self.finished.insert(index);
        self.exponents.insert(index, packet.next);
        self.owed.remove(&packet.slot);
        self.kept.insert(packet.slot, packet.clone());
        let current = self.current.as_ref().expect("an operation");
        let whole = self.finished.len() as u64 == current.total();
        if current.prediction.is_some() {
            if whole {
                self.judge_prediction();
            }
            return;
        }
        let (operation, data) = (current.input.clone(), current.data);
        if let Some(block) = current.block(index) {
            self.take_block(packet, block);
        }
        if whole && self.remembers(&operation) {
            let agreed: Vec<_> = (0..data).map(|block| self.exponents[&block]).collect();
            self.predictions.learn(operation.op(), &agreed);
        }
    }

    /// R-NUM-11: all chunks that went by a prediction have their results. Either all their blocks are taken, or none.
    fn judge_prediction(&mut self) {
        let current = self.current.as_mut().expect("an operation");
        let prediction = current.prediction.clone().expect("it went by one");
        let agreed: Vec<_> = (0..current.data).map(|block| self.exponents[&block]).collect();
        if !ModelPredictions::all_hold(&prediction, &agreed) {
            current.prediction = None;
            self.predicted[1] += 1;
            self.next_chunk += current.data;
            return;
        }
        self.predicted[0] += 1;
        let (op, base) = (current.input.op(), current.base);
        for block in 0..current.data {
            let slot = ((base + block) % self.window()) as u16;
            let result = self.kept[&slot].clone();
            self.take_block(&result, block);
        }
        self.predictions.learn(op, &agreed);
    }

    fn take_block(&mut self, packet: &ModelPacket, block: u64) {
        let current = self.current.as_ref().expect("an operation");
        let held = self.job.quorum.is_none() || packet.set.contains(&self.place.member);
        self.late += u64::from(!held);
        let sums = packet.values(self.job.lanes).expect("checked before");
        let scale = self.expected.scale(packet.scale, current.workers);
        let whom = (packet.workers, held);
        self.expected.take(block, &sums, scale, packet.nonfinite, whom);
    }

    /// R-EPOCH-3: up, by a Want or a refusal of an old epoch.
    pub(super) fn note_epoch(&mut self, packet: &ModelPacket) {
        let moves = packet.kind == WANT || (packet.kind == REFUSAL && packet.scale == Some(3));
        if moves {
            self.epoch = self.epoch.max(packet.epoch);
        }
    }

    /// R-REFORM-1: it is to register again.
    pub(super) fn note_reform(&mut self, packet: &ModelPacket) {
        let refused = packet.kind == REFUSAL && packet.scale == Some(7);
        self.reform |= refused && packet.epoch == self.epoch;
    }

    /// R-WANT-1: the kept result of that slot and round is owed.
    pub(super) fn note_want(&mut self, packet: &ModelPacket) {
        let kept = self.kept.get(&packet.slot);
        if packet.kind == WANT && packet.epoch == self.epoch && kept.is_some_and(|k| k.round == packet.round)
        {
            self.owed.insert(packet.slot);
        }
    }
}

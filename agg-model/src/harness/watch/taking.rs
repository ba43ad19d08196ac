//! What a worker must take of what it receives, and what that does to it.

use super::Watch;
use crate::ModelSum;
use crate::harness::Values;
use crate::packet::{DATA, ModelPacket, REFUSAL, WANT};

impl Watch {
    /// R-RESULT-1: the chunk whose result this is, if it must be taken.
    pub(super) fn result_of(&self, packet: &ModelPacket) -> Option<u64> {
        let index = self.index_at(packet.slot, packet.round)?;
        let sent = self.waiting.get(&index)?;
        let says = |p: &ModelPacket| (p.op, p.op_seq, p.header_only, p.scale);
        let is_result = packet.kind == DATA && packet.result && packet.values(self.job.lanes).is_some();
        let whole = packet.workers == self.job.members.len() as u32;
        (is_result && whole && packet.epoch == self.epoch && says(packet) == says(sent)).then_some(index)
    }

    pub(super) fn take(&mut self, packet: &ModelPacket, index: u64) {
        let current = self.current.as_ref().expect("an operation");
        self.results += 1;
        self.waiting.remove(&index);
        self.finished.insert(index);
        self.exponents.insert(index, packet.next);
        self.owed.remove(&packet.slot);
        let sums = packet.values(self.job.lanes).expect("checked before");
        if index >= current.headers {
            let start = (index - current.headers) as usize * self.job.lanes;
            let workers = self.job.members.len() as u32;
            match &mut self.expected {
                Values::I32(values) => values[start..]
                    .iter_mut()
                    .zip(sums)
                    .for_each(|(value, sum)| *value = sum),
                Values::F32(values) => values[start..].iter_mut().zip(sums).for_each(|(value, sum)| {
                    *value = if packet.nonfinite {
                        f32::NAN
                    } else {
                        ModelSum::dequantize(sum, packet.scale, workers)
                    };
                }),
                Values::Barrier => {}
            }
        }
        self.kept.insert(packet.slot, packet.clone());
    }

    /// R-EPOCH-3: up, by a Want or a refusal of an old epoch.
    pub(super) fn note_epoch(&mut self, packet: &ModelPacket) {
        let moves = packet.kind == WANT || (packet.kind == REFUSAL && packet.scale == Some(3));
        if moves {
            self.epoch = self.epoch.max(packet.epoch);
        }
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

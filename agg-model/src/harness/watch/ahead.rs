//! The next operation, whose exponents may be agreed on while one runs (R-OP-7).

use std::collections::{BTreeMap, BTreeSet};

use super::Watch;
use super::operation::Current;
use crate::ModelSum;
use crate::harness::Values;
use crate::packet::{DATA, ModelPacket};

/// What has come of it so far.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    pub(super) current: Current,
    pub(super) waiting: BTreeMap<u64, ModelPacket>,
    pub(super) finished: BTreeSet<u64>,
    pub(super) exponents: BTreeMap<u64, Option<i16>>,
}

impl Watch {
    /// Announces the operation that will be started next, on these elements. Whether the worker did.
    pub fn announce(&mut self, values: &mut Values) -> bool {
        let changes = self.reform || self.ending.is_some() || self.worker.failure().is_some();
        let predicted = self.current.as_ref().is_some_and(|of| of.prediction.is_some());
        let may = self.is_busy() && !predicted && self.ahead.is_none() && !changes;
        let is_long = values.kind.is_scaled() && values.elements() > 0 && !self.remembers(values);
        let operation = values.operation();
        let elements_of = values.kind.elements_of(self.job.lanes);
        let tensor = values.tensor();
        let exponent = |block| tensor.exponent(block, elements_of);
        let did = self.worker.announce(operation, operation.elements, exponent);
        let expected = may && is_long && self.job.quorum.is_none();
        assert_eq!(did, expected, "R-OP-7: {operation}");
        if did {
            let (lanes, window) = (self.job.lanes, self.window());
            let (op_seq, base) = (self.operations, self.next_chunk);
            let workers = self.place.workers;
            self.ahead = Some(Ahead {
                current: Current::new(values.clone(), op_seq, base, lanes, window, workers),
                waiting: BTreeMap::new(),
                finished: BTreeSet::new(),
                exponents: BTreeMap::new(),
            });
        }
        self.check_place();
        did
    }

    /// Whether the next operation was announced.
    pub fn has_announced(&self) -> bool {
        self.ahead.is_some()
    }

    /// R-CHUNK-3: whether a header-only chunk of the next operation may be sent.
    fn is_free_for(&self, ahead: &Ahead, index: u64) -> bool {
        let last = (ahead.current.base + index).checked_sub(self.window());
        let of_current = self
            .current
            .as_ref()
            .zip(last)
            .and_then(|(current, last)| last.checked_sub(current.base));
        of_current.is_none_or(|index| self.finished.contains(&index))
    }

    /// The chunk of the next operation that a packet is about.
    fn ahead_at(&self, packet: &ModelPacket) -> Option<(&Ahead, u64)> {
        let ahead = self.ahead.as_ref()?;
        let index = ahead.current.index_at(packet.slot, packet.round, self.window())?;
        Some((ahead, index))
    }

    /// What the worker sends ahead, if it is of the next operation.
    pub(super) fn check_ahead(&mut self, packet: &ModelPacket) -> bool {
        let Some((ahead, index)) = self.ahead_at(packet) else {
            return false;
        };
        let (current, lanes) = (&ahead.current, self.job.lanes);
        assert!(index < current.headers, "R-OP-7: values ahead");
        assert!(!ahead.finished.contains(&index), "chunk {index} has its result");
        assert!(self.is_free_for(ahead, index), "R-CHUNK-3: chunk {index} ahead");
        let as_specified = ModelPacket {
            kind: DATA,
            up: true,
            result: false,
            resend: ahead.waiting.contains_key(&index),
            nonfinite: false,
            header_only: true,
            member: self.place.member,
            key: self.job.key,
            epoch: self.epoch,
            set: BTreeSet::from([self.place.member]),
            workers: 1,
            scale: None,
            next: ModelSum::exponent(&current.input.block(index, lanes)),
            op: current.input.op(),
            op_seq: current.op_seq,
            rest: Vec::new(),
            ..packet.clone()
        };
        assert_eq!(packet, &as_specified, "chunk {index} ahead; left: sent");
        let ahead = self.ahead.as_mut().expect("just seen");
        ahead.waiting.insert(index, packet.clone());
        true
    }

    /// R-RESULT-1, for what went ahead.
    pub(super) fn result_ahead(&self, packet: &ModelPacket) -> Option<u64> {
        let (ahead, index) = self.ahead_at(packet)?;
        let current = &ahead.current;
        let is_result = packet.kind == DATA && packet.result && packet.values(self.job.lanes).is_some();
        let says = (packet.op, packet.op_seq, packet.header_only, packet.scale);
        let same = says == (current.input.op(), current.op_seq, true, None);
        let counts = (packet.epoch, packet.workers) == (self.epoch, current.workers);
        (is_result && same && counts && ahead.waiting.contains_key(&index)).then_some(index)
    }

    pub(super) fn take_ahead(&mut self, packet: &ModelPacket, index: u64) {
        self.results += 1;
        self.owed.remove(&packet.slot);
        self.kept.insert(packet.slot, packet.clone());
        let ahead = self.ahead.as_mut().expect("it is of that");
        ahead.waiting.remove(&index);
        ahead.finished.insert(index);
        ahead.exponents.insert(index, packet.next);
    }

    /// Whatever may go ahead was sent, unless so much is in flight that it must not.
    pub(super) fn check_ahead_was_sent(&self, is_full: bool) {
        let Some(ahead) = self.ahead.as_ref().filter(|_| !is_full) else {
            return;
        };
        let due = |index: &u64| !ahead.finished.contains(index) && self.is_free_for(ahead, *index);
        for index in (0..ahead.current.headers).filter(due) {
            let sent = ahead.waiting.get(&index);
            let sent = sent.map(|packet| (packet.epoch, packet.member));
            let here = (self.epoch, self.place.member);
            assert_eq!(sent, Some(here), "R-OP-7: chunk {index} did not go ahead");
        }
    }
}

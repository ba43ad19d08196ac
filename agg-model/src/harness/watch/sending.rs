//! What a worker may send: every field of each packet, when it is due, and when nothing is left.

use std::collections::BTreeSet;

use super::Watch;
use crate::ModelSum;
use crate::packet::{DATA, ModelPacket, to_bytes};

/// R-CC-1: chunks that may be in flight whatever the network says.
const SMALLEST_WINDOW: usize = 4;

impl Watch {
    /// R-WANT-1: what was asked for, as it was kept.
    pub(super) fn check_answer(&mut self, packet: &ModelPacket) {
        let kept = self
            .kept
            .get(&packet.slot)
            .expect("only kept results are sent up");
        let as_sent = ModelPacket {
            up: true,
            member: self.place.member,
            epoch: self.epoch,
            resend: false,
            congested: false,
            ..kept.clone()
        };
        assert_eq!(packet, &as_sent, "left: sent, right: kept");
        assert!(self.owed.remove(&packet.slot), "nobody asked for {packet:?}");
    }

    pub(super) fn check_contribution(&mut self, packet: &ModelPacket) {
        let index = self
            .index_at(packet.slot, packet.round)
            .expect("a chunk of the operation");
        let current = self.current.as_ref().expect("an operation");
        assert!(
            !self.finished.contains(&index),
            "chunk {index} has its result already"
        );
        for earlier in current.waits_for(index, self.window()) {
            assert!(
                self.finished.contains(&earlier),
                "chunk {index} is sent before the result of {earlier}"
            );
        }
        let (input, lanes) = (&current.input, self.job.lanes);
        let header_only = current.block(index).is_none();
        let scale = match header_only {
            true => None,
            false => self.scale_of(index),
        };
        let mut values = Vec::new();
        let mut nonfinite = false;
        if let Some(block) = current.block(index) {
            let floats = input.block(block, lanes);
            nonfinite = input.kind.is_scaled() && floats.iter().any(|x| !x.is_finite());
            values = input.lanes_of(block, lanes, input.scale(scale, current.workers));
        }
        let as_specified = ModelPacket {
            kind: DATA,
            up: true,
            result: false,
            resend: self.waiting.contains_key(&index),
            nonfinite,
            header_only,
            congested: false,
            member: self.place.member,
            slot: packet.slot,
            key: self.job.key,
            epoch: self.epoch,
            round: packet.round,
            set: BTreeSet::from([self.place.member]),
            workers: 1,
            scale,
            next: if input.kind.is_scaled() && index < current.data {
                ModelSum::exponent(&input.block(index, lanes))
            } else {
                None
            },
            op: input.op(),
            op_seq: current.op_seq,
            rest: to_bytes(&values),
        };
        assert_eq!(
            packet, &as_specified,
            "chunk {index}; left: sent, right: specified"
        );
        self.waiting.insert(index, packet.clone());
    }

    /// It has nothing to send: then whatever may be sent was sent, to the current epoch.
    pub(super) fn check_nothing_left_to_send(&self) {
        let Some(current) = self.current.as_ref().filter(|_| self.worker.failure().is_none()) else {
            return;
        };
        assert!(
            self.owed.is_empty(),
            "R-WANT-1: results of slots {:?} were not sent",
            self.owed
        );
        // R-CC-1: what may be sent, and then what must.
        let here = (self.epoch, self.place.member);
        let in_flight = self.waiting.values();
        let in_flight = in_flight.filter(|packet| (packet.epoch, packet.member) == here);
        let in_flight = in_flight.count() + self.ahead.as_ref().map_or(0, |ahead| ahead.waiting.len());
        let is_full = in_flight >= SMALLEST_WINDOW;
        self.check_ahead_was_sent(is_full);
        let oldest = (0..current.total()).find(|index| !self.finished.contains(index));
        for index in (0..current.total()).filter(|index| self.is_begun(*index)) {
            if is_full && Some(index) != oldest {
                continue;
            }
            let sent = self
                .waiting
                .get(&index)
                .map(|packet| (packet.epoch, packet.member));
            assert_eq!(
                sent,
                Some(here),
                "R-OP-3, R-EPOCH-3, R-REFORM-2: chunk {index} was not sent to this place"
            );
        }
    }
}

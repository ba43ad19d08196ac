//! A worker under watch: whatever it is fed, it must do what the document says of workers, chunks and numbers.
//!
//! The watch remembers what the worker sent and derives from that alone which result it must take next, what its
//! tensor then holds, and what every packet that it sends must say.

mod ahead;
mod operation;
mod place;
mod sending;
mod taking;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use agg_core::worker::{Membership, SlotState, StartError};
use agg_core::{Failure, Lanes, Worker, WorkerConfig};

use crate::harness::Values;
use crate::harness::lockstep::policy;
use crate::packet::{DATA, ModelPacket, REFUSAL};
use crate::{ModelJob, ModelPredictions};
use ahead::Ahead;
use operation::Current;

/// A worker and what must be true of it. Every method panics where a rule is broken.
#[derive(Clone, Debug)]
pub struct Watch {
    worker: Worker<Vec<SlotState>, Vec<i32>>,
    job: ModelJob,
    place: Membership,
    epoch: u32,
    /// What is reduced in place, and what it must hold now.
    values: Values,
    expected: Values,
    current: Option<Current>,
    ahead: Option<Ahead>,
    /// R-NUM-11.
    predictions: ModelPredictions,
    /// Operations started so far, and the number of the chunk after their last.
    operations: u32,
    next_chunk: u64,
    /// The number of the first chunk of the last operation that was started.
    begun_at: u64,
    /// R-REFORM-3: the operations that end when they are started, and the number of the first chunk after them.
    ending: Option<(RangeInclusive<u32>, u64)>,
    /// Whether the last operation was ended so.
    abandoned: bool,
    /// Whether the aggregator wants another registration.
    reform: bool,
    /// The last contribution of each chunk that waits for its result, by its index in the operation.
    waiting: BTreeMap<u64, ModelPacket>,
    finished: BTreeSet<u64>,
    /// The exponents that results brought, by the index of the chunk they came with.
    exponents: BTreeMap<u64, Option<i16>>,
    /// R-KEEP-1, by slot.
    kept: BTreeMap<u16, ModelPacket>,
    /// Slots whose kept result was asked for and not sent yet.
    owed: BTreeSet<u16>,
    results: u64,
    /// Of those: with values, and without this worker's.
    late: u64,
    /// Operations by predictions that were right and wrong (R-NUM-11).
    predicted: [u64; 2],
}

impl Watch {
    /// A worker of the job; its chunks are numbered from `first_chunk`.
    pub fn new(job: &ModelJob, place: Membership, timeout: u64, first_chunk: u64) -> Self {
        let window = usize::from(job.window);
        let config = WorkerConfig {
            key: job.key,
            epoch: place.epoch,
            member: place.member,
            members: place.members,
            workers: place.workers,
            lanes: Lanes::from_count(job.lanes as u16).expect("a number of lanes that exists"),
            window: job.window,
            policy: policy(job),
            timeout,
            first_chunk,
        };
        let memory = (vec![SlotState::default(); window], vec![0; window * job.lanes]);
        Self {
            worker: Worker::new(config, memory.0, memory.1).expect("memory of the right size"),
            job: job.clone(),
            place,
            epoch: place.epoch.0,
            values: Values::BARRIER,
            expected: Values::BARRIER,
            current: None,
            ahead: None,
            predictions: ModelPredictions::default(),
            operations: 0,
            next_chunk: first_chunk,
            begun_at: first_chunk,
            ending: None,
            abandoned: false,
            reform: false,
            waiting: BTreeMap::new(),
            finished: BTreeSet::new(),
            exponents: BTreeMap::new(),
            kept: BTreeMap::new(),
            owed: BTreeSet::new(),
            results: 0,
            late: 0,
            predicted: [0; 2],
        }
    }

    /// Starts an operation on these elements. Not if it ends without a result at once (R-REFORM-3).
    pub fn start(&mut self, values: Values, now: u64) -> bool {
        let operation = values.operation();
        let started = self.worker.start(operation, operation.elements, now);
        let op_seq = self.operations;
        self.operations += 1;
        self.abandoned = false;
        if let Some((operations, next_chunk)) = self.ending.clone()
            && operations.contains(&op_seq)
        {
            assert_eq!(started, Err(StartError::Abandoned), "operation {op_seq}");
            if *operations.end() == op_seq {
                self.ending = None;
                self.next_chunk = self.after(self.next_chunk, next_chunk);
                self.predictions = ModelPredictions::default();
            }
            self.check_place();
            return false;
        }
        let ahead = self.ahead.take();
        if let (Some(_), Err(StartError::Failed(_))) = (&ahead, started) {
            // It was refused before it was started.
            self.current = None;
            return false;
        }
        started.expect("the last operation has ended");
        let (lanes, window) = (self.job.lanes, self.window());
        let base = self.next_chunk;
        self.begun_at = base;
        let mut current = Current::new(values.clone(), op_seq, base, lanes, window, self.place.workers);
        if self.remembers(&values) {
            current.prediction = self.predictions.of(values.op());
        }
        self.next_chunk += current.total();
        self.finished.clear();
        self.exponents.clear();
        if let Some(ahead) = ahead {
            (self.waiting, self.finished, self.exponents) = (ahead.waiting, ahead.finished, ahead.exponents);
        }
        self.values = values.clone();
        self.expected = values;
        self.current = Some(current);
        self.check_place();
        true
    }

    /// Whether an operation is under way.
    pub fn is_busy(&self) -> bool {
        self.worker.is_busy()
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.worker.failure()
    }

    /// The elements as they are now.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Option<u64> {
        self.worker.next_timeout()
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: u64) {
        self.worker.handle_timeout(now);
    }

    /// The epoch it contributes to.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The contributions that wait for their results, as last sent.
    pub fn in_flight(&self) -> impl Iterator<Item = &ModelPacket> {
        let ahead = self.ahead.iter().flat_map(|ahead| ahead.waiting.values());
        self.waiting.values().chain(ahead)
    }

    /// The kept results.
    pub fn kept(&self) -> impl Iterator<Item = &ModelPacket> {
        self.kept.values()
    }

    /// How many operations went by predictions that were right, and wrong (R-NUM-11).
    pub fn predicted(&self) -> [u64; 2] {
        self.predicted
    }

    fn window(&self) -> u64 {
        u64::from(self.job.window)
    }

    /// R-CHUNK-1, backwards: the chunk of the operation that is in this slot and round.
    fn index_at(&self, slot: u16, round: u32) -> Option<u64> {
        self.current.as_ref()?.index_at(slot, round, self.window())
    }

    /// Whether a chunk of the operation may be sent (R-OP-3) and has no result yet.
    fn is_begun(&self, index: u64) -> bool {
        let current = self.current.as_ref().expect("an operation");
        let waits_for = current.waits_for(index, self.window());
        !self.finished.contains(&index) && waits_for.iter().all(|index| self.finished.contains(index))
    }

    /// Whether exponents of an operation on these elements are remembered.
    fn remembers(&self, values: &Values) -> bool {
        let (lanes, window) = (self.job.lanes, self.window());
        self.job.quorum.is_none() && ModelPredictions::suit(values.kind, values.elements(), lanes, window)
    }

    /// R-NUM-3: the exponent of a chunk that may be sent; it came with the result of the chunk L before, or is predicted.
    fn scale_of(&self, index: u64) -> Option<i16> {
        let current = self.current.as_ref()?;
        if let Some(prediction) = &current.prediction {
            return prediction[index as usize];
        }
        let scaled = current.input.kind.is_scaled() && index >= current.headers;
        scaled.then(|| self.exponents[&(index - current.headers)])?
    }

    /// The next packet that it sends, checked.
    pub fn transmit(&mut self, now: u64) -> Option<Vec<u8>> {
        let mut out = vec![0xa5; 56 + 4 * self.job.lanes];
        let Some(len) = self.worker.transmit(now, &self.values.tensor(), &mut out) else {
            self.check_nothing_left_to_send();
            return None;
        };
        out.truncate(len);
        let packet = ModelPacket::parse(&out).expect("a worker sends packets that can be read");
        // R-WIRE-4, R-EPOCH-2
        assert!(packet.kind == DATA && packet.up, "{packet:?}");
        let from = (packet.key, packet.member, packet.epoch);
        assert_eq!(from, (self.job.key, self.place.member, self.epoch), "{packet:?}");
        if packet.result {
            self.check_answer(&packet);
        } else if !self.check_ahead(&packet) {
            self.check_contribution(&packet);
        }
        Some(out)
    }

    /// Takes in one packet; then the worker must be just where the rules put it. Whether it took a result.
    pub fn handle(&mut self, now: u64, bytes: &[u8]) -> bool {
        let packet = ModelPacket::parse(bytes).ok();
        let packet = packet.filter(|p| p.key == self.job.key && !p.up && p.slot < self.job.window);
        let taken = packet.as_ref().and_then(|packet| self.result_of(packet));
        let ahead = packet.as_ref().and_then(|packet| self.result_ahead(packet));
        let failed = self.worker.failure();
        self.worker.handle(now, bytes, &mut self.values.tensor());

        if let (Some(packet), Some(index)) = (&packet, taken) {
            self.take(packet, index);
        } else if let (Some(packet), Some(index)) = (&packet, ahead) {
            self.take_ahead(packet, index);
        }
        if let Some(packet) = &packet {
            self.note_epoch(packet);
            self.note_want(packet);
            self.note_reform(packet);
        }
        assert_eq!(self.worker.epoch().0, self.epoch, "R-EPOCH-3, after {packet:?}");
        assert_eq!(
            self.worker.stats().results,
            self.results,
            "R-RESULT-1: results taken, after {packet:?}"
        );
        assert_eq!(
            self.worker.stats().late,
            self.late,
            "R-QUORUM-4, after {packet:?}"
        );
        let stats = self.worker.stats();
        let predicted = [stats.predicted, stats.mispredicted];
        assert_eq!(predicted, self.predicted, "R-NUM-11, after {packet:?}");
        assert_eq!(
            self.values.bits(),
            self.expected.bits(),
            "the tensor and the residual, after {packet:?}"
        );
        if self.worker.failure() != failed {
            let refusal = packet
                .as_ref()
                .is_some_and(|p| p.kind == REFUSAL && !matches!(p.scale, Some(3 | 7)));
            assert!(
                refusal && failed.is_none(),
                "only a refusal fails a worker, not {packet:?}"
            );
        }
        let current = self.current.as_ref();
        let all = current.is_none_or(|current| self.finished.len() as u64 == current.total());
        assert_eq!(
            self.is_busy(),
            !all && self.worker.failure().is_none(),
            "it ends with its last result"
        );
        self.check_place();
        taken.or(ahead).is_some()
    }

    /// The result that an aggregator could send for one of the contributions in flight, were every other worker's
    /// values zero.
    pub fn result_for(&self, sent: &ModelPacket) -> ModelPacket {
        ModelPacket {
            up: false,
            result: true,
            resend: false,
            member: 255,
            epoch: self.epoch,
            set: self.job.expected(),
            workers: self.current.as_ref().map_or(0, |current| current.workers),
            ..sent.clone()
        }
    }

    /// The same for a chunk that may be sent and was not; none where there is no such.
    pub fn result_before_sending(&self) -> Option<ModelPacket> {
        let current = self.current.as_ref()?;
        let unsent = |index: &u64| self.is_begun(*index) && !self.waiting.contains_key(index);
        let index = (0..current.total()).find(unsent)?;
        let chunk = current.base + index;
        let header_only = current.block(index).is_none();
        let lanes = if header_only { 0 } else { self.job.lanes };
        let like = ModelPacket {
            kind: DATA,
            up: true,
            result: false,
            resend: false,
            nonfinite: false,
            header_only,
            congested: false,
            member: self.place.member,
            slot: (chunk % self.window()) as u16,
            key: self.job.key,
            epoch: self.epoch,
            round: (chunk / self.window()) as u32,
            set: BTreeSet::new(),
            workers: 0,
            scale: self.scale_of(index),
            next: Some(4),
            op: current.input.op(),
            op_seq: current.op_seq,
            rest: vec![1; 4 * lanes],
        };
        Some(self.result_for(&like))
    }
}

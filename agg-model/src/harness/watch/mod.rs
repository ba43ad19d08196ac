//! A worker under watch: whatever it is fed, it must do what the document says of workers, chunks and numbers.
//!
//! The watch remembers what the worker sent and derives from that alone which result it must take next, what its
//! tensor then holds, and what every packet that it sends must say.

mod operation;
mod sending;
mod taking;

use std::collections::{BTreeMap, BTreeSet};

use agg_core::worker::SlotState;
use agg_core::{Epoch, Failure, Lanes, Worker, WorkerConfig};

use crate::ModelJob;
use crate::harness::Values;
use crate::harness::lockstep::policy;
use crate::packet::{DATA, ModelPacket, REFUSAL};
use operation::Current;

/// A worker and what must be true of it. Every method panics where a rule is broken.
#[derive(Clone, Debug)]
pub struct Watch {
    worker: Worker<Vec<SlotState>, Vec<i32>>,
    job: ModelJob,
    member: u8,
    first_chunk: u64,
    epoch: u32,
    /// What is reduced in place, and what it must hold now.
    values: Values,
    expected: Values,
    current: Option<Current>,
    operations: u32,
    chunks: u64,
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
}

impl Watch {
    /// Member `member` of a job whose members are single workers; its chunks are numbered from `first_chunk`.
    pub fn new(job: &ModelJob, member: u8, epoch: u32, timeout: u64, first_chunk: u64) -> Self {
        let window = usize::from(job.window);
        let config = WorkerConfig {
            key: job.key,
            epoch: Epoch(epoch),
            member,
            members: job.members.len() as u8,
            workers: job.members.len() as u32,
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
            member,
            first_chunk,
            epoch,
            values: Values::Barrier,
            expected: Values::Barrier,
            current: None,
            operations: 0,
            chunks: 0,
            waiting: BTreeMap::new(),
            finished: BTreeSet::new(),
            exponents: BTreeMap::new(),
            kept: BTreeMap::new(),
            owed: BTreeSet::new(),
            results: 0,
        }
    }

    /// Starts an operation on these elements.
    pub fn start(&mut self, values: Values, now: u64) {
        let operation = values.operation();
        self.worker
            .start(operation, operation.elements, now)
            .expect("the last operation has ended");
        let base = self.first_chunk + self.chunks;
        let current = Current::new(
            values.clone(),
            self.operations,
            base,
            self.job.lanes,
            self.window(),
        );
        self.chunks += current.total();
        self.operations += 1;
        self.finished.clear();
        self.exponents.clear();
        self.values = values.clone();
        self.expected = values;
        self.current = Some(current);
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
        self.waiting.values()
    }

    /// The kept results.
    pub fn kept(&self) -> impl Iterator<Item = &ModelPacket> {
        self.kept.values()
    }

    fn window(&self) -> u64 {
        u64::from(self.job.window)
    }

    /// R-CHUNK-1, backwards: the chunk of the operation that is in this slot and round.
    fn index_at(&self, slot: u16, round: u32) -> Option<u64> {
        self.current.as_ref()?.index_at(slot, round, self.window())
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
        assert_eq!(from, (self.job.key, self.member, self.epoch), "{packet:?}");
        if packet.result {
            self.check_answer(&packet);
        } else {
            self.check_contribution(&packet);
        }
        Some(out)
    }

    /// Takes in one packet; then the worker must be just where the rules put it. Whether it took a result.
    pub fn handle(&mut self, now: u64, bytes: &[u8]) -> bool {
        let packet = ModelPacket::parse(bytes).ok();
        let packet = packet.filter(|p| p.key == self.job.key && !p.up && p.slot < self.job.window);
        let taken = packet.as_ref().and_then(|packet| self.result_of(packet));
        let failed = self.worker.failure();
        self.worker.handle(now, bytes, &mut self.values.tensor());

        if let (Some(packet), Some(index)) = (&packet, taken) {
            self.take(packet, index);
        }
        if let Some(packet) = &packet {
            self.note_epoch(packet);
            self.note_want(packet);
        }
        assert_eq!(self.worker.epoch().0, self.epoch, "R-EPOCH-3, after {packet:?}");
        assert_eq!(
            self.worker.stats().results,
            self.results,
            "R-RESULT-1: results taken, after {packet:?}"
        );
        assert_eq!(
            self.values.bits(),
            self.expected.bits(),
            "the tensor, after {packet:?}"
        );
        if self.worker.failure() != failed {
            let refusal = packet
                .as_ref()
                .is_some_and(|p| p.kind == REFUSAL && p.scale != Some(3));
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
        taken.is_some()
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
            workers: self.job.members.len() as u32,
            ..sent.clone()
        }
    }
}

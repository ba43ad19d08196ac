//! A worker under watch: whatever it is fed, it must do what the document says of workers, chunks and numbers.
//!
//! The watch remembers what the worker sent and derives from that alone which result it must take next, what its
//! tensor then holds, and what every packet that it sends must say.

use std::collections::{BTreeMap, BTreeSet};

use agg_core::worker::SlotState;
use agg_core::{Epoch, Failure, Lanes, Worker, WorkerConfig};

use crate::harness::Values;
use crate::packet::{DATA, ModelPacket, REFUSAL, WANT, bits, members};
use crate::{ModelJob, ModelSum};

/// The operation under way, or the last one.
#[derive(Clone, Debug)]
struct Current {
    /// The elements as they were at the start.
    input: Values,
    op_seq: u32,
    /// The number of its first chunk.
    base: u64,
    /// Its header-only chunks in front (L, or a barrier's one), and its chunks with values.
    headers: u64,
    data: u64,
}

impl Current {
    fn is_f32(&self) -> bool {
        matches!(self.input, Values::F32(_))
    }

    fn total(&self) -> u64 {
        self.headers + self.data
    }

    /// R-OP-3: the chunks that chunk `index` waits for.
    fn waits_for(&self, index: u64, window: u64) -> Vec<u64> {
        let mut earlier = vec![index.checked_sub(window)];
        if self.is_f32() {
            earlier.push(index.checked_sub(self.headers));
        }
        earlier.into_iter().flatten().collect()
    }
}

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
        let blocks = operation.elements.div_ceil(self.job.lanes as u64);
        // R-OP-2
        let (headers, data) = match values {
            Values::I32(_) => (0, blocks),
            Values::F32(_) => (blocks.min(self.window()), blocks),
            Values::Barrier => (1, 0),
        };
        let base = self.first_chunk + self.chunks;
        let current = Current {
            input: values.clone(),
            op_seq: self.operations,
            base,
            headers,
            data,
        };
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
        let current = self.current.as_ref()?;
        (0..current.total()).find(|index| {
            let chunk = current.base + index;
            (chunk % self.window()) as u16 == slot && (chunk / self.window() % (1 << 32)) as u32 == round
        })
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

    /// R-WANT-1: what was asked for, as it was kept.
    fn check_answer(&mut self, packet: &ModelPacket) {
        let kept = self
            .kept
            .get(&packet.slot)
            .expect("only kept results are sent up");
        let as_sent = ModelPacket {
            up: true,
            member: self.member,
            epoch: self.epoch,
            ..kept.clone()
        };
        assert_eq!(packet, &as_sent, "left: sent, right: kept");
        assert!(self.owed.remove(&packet.slot), "nobody asked for {packet:?}");
    }

    fn check_contribution(&mut self, packet: &ModelPacket) {
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
        let workers = self.job.members.len() as u32;
        let header_only = index < current.headers;
        let block = |index: u64| match &current.input {
            Values::F32(values) => values
                .chunks(self.job.lanes)
                .nth(index as usize)
                .unwrap_or_default(),
            _ => &[],
        };
        let (scale, values, nonfinite) = match &current.input {
            _ if header_only => (None, Vec::new(), false),
            Values::I32(values) => (
                None,
                values
                    .chunks(self.job.lanes)
                    .nth(index as usize)
                    .unwrap()
                    .to_vec(),
                false,
            ),
            Values::F32(_) => {
                // R-NUM-3: the exponent came with the result of the chunk L before.
                let scale = self.exponents[&(index - current.headers)];
                let block = block(index - current.headers);
                let values = block
                    .iter()
                    .map(|x| ModelSum::quantize(*x, scale, workers))
                    .collect();
                (scale, values, block.iter().any(|x| !x.is_finite()))
            }
            Values::Barrier => panic!("a barrier has no values"),
        };
        let mut padded = values;
        padded.resize(if header_only { 0 } else { self.job.lanes }, 0);
        let as_specified = ModelPacket {
            kind: DATA,
            up: true,
            result: false,
            resend: self.waiting.contains_key(&index),
            nonfinite,
            header_only,
            member: self.member,
            slot: packet.slot,
            key: self.job.key,
            epoch: self.epoch,
            round: packet.round,
            set: BTreeSet::from([self.member]),
            workers: 1,
            scale,
            next: if index < current.data {
                ModelSum::exponent(block(index))
            } else {
                None
            },
            op: current.input.op(),
            op_seq: current.op_seq,
            rest: crate::packet::to_bytes(&padded),
        };
        assert_eq!(
            packet, &as_specified,
            "chunk {index}; left: sent, right: specified"
        );
        self.waiting.insert(index, packet.clone());
    }

    /// It has nothing to send: then whatever may be sent was sent, to the current epoch.
    fn check_nothing_left_to_send(&self) {
        let Some(current) = self.current.as_ref().filter(|_| self.worker.failure().is_none()) else {
            return;
        };
        assert!(
            self.owed.is_empty(),
            "R-WANT-1: results of slots {:?} were not sent",
            self.owed
        );
        for index in 0..current.total() {
            let ready = current
                .waits_for(index, self.window())
                .iter()
                .all(|index| self.finished.contains(index));
            let sent = self.waiting.get(&index).map(|packet| packet.epoch);
            if ready && !self.finished.contains(&index) {
                assert_eq!(
                    sent,
                    Some(self.epoch),
                    "R-OP-3, R-EPOCH-3: chunk {index} was not sent to this epoch"
                );
            }
        }
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

    /// R-RESULT-1: the chunk whose result this is, if it must be taken.
    fn result_of(&self, packet: &ModelPacket) -> Option<u64> {
        let index = self.index_at(packet.slot, packet.round)?;
        let sent = self.waiting.get(&index)?;
        let says = |p: &ModelPacket| (p.op, p.op_seq, p.header_only, p.scale);
        let is_result = packet.kind == DATA && packet.result && packet.values(self.job.lanes).is_some();
        let whole = packet.workers == self.job.members.len() as u32;
        (is_result && whole && packet.epoch == self.epoch && says(packet) == says(sent)).then_some(index)
    }

    fn take(&mut self, packet: &ModelPacket, index: u64) {
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
    fn note_epoch(&mut self, packet: &ModelPacket) {
        let moves = packet.kind == WANT || (packet.kind == REFUSAL && packet.scale == Some(3));
        if moves {
            self.epoch = self.epoch.max(packet.epoch);
        }
    }

    /// R-WANT-1: the kept result of that slot and round is owed.
    fn note_want(&mut self, packet: &ModelPacket) {
        let kept = self.kept.get(&packet.slot);
        if packet.kind == WANT && packet.epoch == self.epoch && kept.is_some_and(|k| k.round == packet.round)
        {
            self.owed.insert(packet.slot);
        }
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
            set: members(bits(&self.job.expected())),
            workers: self.job.members.len() as u32,
            ..sent.clone()
        }
    }
}

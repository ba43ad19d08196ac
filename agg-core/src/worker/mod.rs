//! The worker: one stream of one member (docs/protocol.md, "Worker").
//!
//! Sans-IO: the host hands packets to [`Worker::handle`], sends what [`Worker::transmit`] writes until it has no
//! more, and calls [`Worker::handle_timeout`] when [`Worker::next_timeout`] has come. Its memory is the window:
//! a [`SlotState`] and one chunk's lanes a slot, provided by the host; tensors stay the caller's, in place.

mod failure;
mod plan;
mod protocol_state;
mod reordering;
mod rtt;
mod tensor;
mod window;

pub use failure::Failure;
pub use protocol_state::ProtocolState;
pub use tensor::Tensor;
pub use window::SlotState;

use plan::Plan;
use reordering::Reordering;
use rtt::Rtt;
use window::List;

use crate::fixed_point::Scale;
use crate::wire::{Flags, HEADER_LEN, Header, Kind, Refusal};
use crate::{Abort, AbortCause, Epoch, Exponent, Lanes, MemberSet, Nanos, Operation, Round};

/// What a worker is told when it joins a job.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WorkerConfig {
    /// The job's key.
    pub key: u64,
    /// The aggregator's epoch.
    pub epoch: Epoch,
    /// This member's number.
    pub member: u8,
    /// Members of the aggregator that this worker talks to.
    pub members: u8,
    /// Workers of the whole job: the headroom of sums, and what a result must hold.
    pub workers: u32,
    /// The chunk size.
    pub lanes: Lanes,
    /// Chunks in flight, a power of two.
    pub window: u16,
    /// An operation fails when no result came for this long.
    pub timeout: Nanos,
    /// The number of the job's first chunk: 0 but in tests of the wrap-around.
    pub first_chunk: u64,
}

/// The memory handed to a worker does not fit its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongMemory {
    /// Slots needed.
    pub slots: usize,
    /// Lanes needed.
    pub lanes: usize,
}

/// What a worker has counted since it joined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WorkerStats {
    /// Contributions sent, resends not counted.
    pub sent: u64,
    /// Contributions sent again since the timer fired.
    pub resent_timeout: u64,
    /// Contributions sent again since later ones were answered before.
    pub resent_overtaken: u64,
    /// Contributions sent again since the aggregator said that it lacks them.
    pub resent_wanted: u64,
    /// Contributions sent again to a new epoch.
    pub resent_epoch: u64,
    /// Results taken.
    pub results: u64,
    /// Results sent to the aggregator since it asked.
    pub answered: u64,
    /// Packets that had nothing new: results again, or of another epoch.
    pub stale: u64,
    /// Packets that are not of this job, or damaged.
    pub invalid: u64,
}

impl WorkerStats {
    /// Contributions sent again, for whatever reason.
    pub fn resent(&self) -> u64 {
        self.resent_timeout + self.resent_overtaken + self.resent_wanted + self.resent_epoch
    }
}

/// A new operation cannot start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartError {
    /// The last one has not ended.
    Busy,
    /// The worker failed before.
    Failed(Failure),
}

/// One stream of one member: `S` holds the slots' states, `V` the lanes of their last results.
#[derive(Clone, Debug)]
pub struct Worker<S, V> {
    config: WorkerConfig,
    epoch: Epoch,
    slots: S,
    kept: V,
    to_send: List,
    in_flight: List,
    plan: Option<Plan>,
    /// Chunks of the operation that have their result.
    done: u64,
    next_chunk: u64,
    next_op: u32,
    rtt: Rtt,
    /// Contributions sent so far; orders them.
    sends: u64,
    /// The latest send that was answered.
    answered_order: u64,
    reordering: Reordering,
    /// When an operation started or a result last came.
    progress_at: Nanos,
    heard_at: Nanos,
    failure: Option<Failure>,
    stats: WorkerStats,
}

impl<S, V> Worker<S, V>
where
    S: AsRef<[SlotState]> + AsMut<[SlotState]>,
    V: AsRef<[i32]> + AsMut<[i32]>,
{
    /// A worker that has just joined. `slots` must hold one state a slot, `kept` one chunk's lanes a slot.
    pub fn new(config: WorkerConfig, slots: S, kept: V) -> Result<Self, WrongMemory> {
        let needed = WrongMemory {
            slots: usize::from(config.window),
            lanes: usize::from(config.window) * config.lanes.count(),
        };
        let window = u64::from(config.window);
        let fits = slots.as_ref().len() == needed.slots && kept.as_ref().len() == needed.lanes;
        if !fits || !config.window.is_power_of_two() {
            return Err(needed);
        }
        Ok(Self {
            epoch: config.epoch,
            next_chunk: config.first_chunk,
            config,
            slots,
            kept,
            to_send: List::to_send(),
            in_flight: List::in_flight(),
            plan: None,
            done: 0,
            next_op: 0,
            rtt: Rtt::default(),
            sends: 0,
            answered_order: 0,
            reordering: Reordering::new(window),
            progress_at: 0,
            heard_at: 0,
            failure: None,
            stats: WorkerStats::default(),
        })
    }

    /// Starts an operation of which this stream carries `elements` elements (for a barrier: 1 on one stream). Every
    /// member must start the same operations in the same order.
    pub fn start(&mut self, operation: Operation, elements: u64, now: Nanos) -> Result<(), StartError> {
        if let Some(failure) = self.failure {
            return Err(StartError::Failed(failure));
        }
        if self.plan.is_some() {
            return Err(StartError::Busy);
        }
        let lanes = self.config.lanes.count() as u64;
        let plan =
            Plan::new(operation, self.next_op, self.next_chunk, elements, lanes, u64::from(self.config.window));
        self.next_op = self.next_op.wrapping_add(1);
        self.next_chunk += plan.total();
        self.progress_at = now;
        self.heard_at = now;
        self.done = 0;
        if plan.total() > 0 {
            self.plan = Some(plan);
            for index in 0..plan.initial() {
                self.begin(&plan, index);
            }
        }
        Ok(())
    }

    /// Whether an operation is under way.
    pub fn is_busy(&self) -> bool {
        self.plan.is_some() && self.failure.is_none()
    }

    /// Why the worker failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// What was counted.
    pub fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    /// The smoothed round trip in nanoseconds; 0 before the first.
    pub fn rtt(&self) -> Nanos {
        self.rtt.smoothed()
    }

    /// The epoch that this worker contributes to.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Writes the next packet to send and returns its length; `None` when there is nothing to send now. `out` must
    /// hold a packet of the job's chunk size.
    #[inline(always)]
    pub fn transmit(&mut self, now: Nanos, tensor: &Tensor<'_>, out: &mut [u8]) -> Option<usize> {
        if self.failure.is_some() {
            return None;
        }
        let slot = self.to_send.first()?;
        let state = &mut self.slots.as_mut()[usize::from(slot)];
        if state.answer {
            state.answer = false;
            if !state.outstanding || self.in_flight.contains(self.slots.as_ref(), slot) {
                self.to_send.remove(self.slots.as_mut(), slot);
            }
            return self.write_answer(slot, out);
        }
        self.to_send.remove(self.slots.as_mut(), slot);
        let len = self.write_contribution(slot, tensor, out)?;
        let order = self.sends;
        self.sends += 1;
        let state = &mut self.slots.as_mut()[usize::from(slot)];
        if state.sends == 0 {
            self.stats.sent += 1;
        }
        state.sends += 1;
        state.sent_at = now;
        state.order = order;
        self.in_flight.push_back(self.slots.as_mut(), slot);
        Some(len)
    }

    /// When [`Self::handle_timeout`] is to be called; `None` while no operation is under way.
    pub fn next_timeout(&self) -> Option<Nanos> {
        if !self.is_busy() {
            return None;
        }
        let deadline = self.progress_at + self.config.timeout;
        Some(self.resend_at().map_or(deadline, |resend| resend.min(deadline)))
    }

    /// Acts on what is due: sends the oldest chunks again, or fails the operation.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if !self.is_busy() {
            return;
        }
        if now >= self.progress_at + self.config.timeout {
            self.fail_overdue();
            return;
        }
        if self.resend_at().is_some_and(|due| now >= due) {
            for _ in 0..self.rtt.back_off() {
                let Some(slot) = self.in_flight.first() else { break };
                self.stats.resent_timeout += 1;
                self.requeue(slot);
            }
        }
    }

    /// Takes in one packet from the aggregator. Any bytes at all may come.
    #[inline(always)]
    pub fn handle(&mut self, now: Nanos, packet: &[u8], tensor: &mut Tensor<'_>) {
        let Ok((header, rest)) = Header::split(packet) else {
            self.stats.invalid += 1;
            return;
        };
        let in_window = header.slot < self.config.window;
        if header.key != self.config.key || header.flags.has(Flags::UP) || !in_window {
            self.stats.invalid += 1;
            return;
        }
        self.heard_at = now;
        match header.kind {
            Kind::Data => self.on_result(now, &header, rest, tensor),
            Kind::Want => self.on_want(now, &header),
            Kind::Refusal => self.on_refusal(&header),
        }
    }

    /// R-KEEP-1, R-CHUNK-3: a result that is waited for is written back, kept, and lets its dependents be sent.
    #[inline(always)]
    fn on_result(&mut self, now: Nanos, header: &Header, rest: &[u8], tensor: &mut Tensor<'_>) {
        let lanes = self.config.lanes.count();
        let (values, leftover) = rest.as_chunks::<4>();
        let carried = if header.flags.has(Flags::HEADER_ONLY) { 0 } else { lanes };
        if !header.flags.has(Flags::RESULT) || values.len() != carried || !leftover.is_empty() {
            self.stats.invalid += 1;
            return;
        }
        let Some(index) = self.expected_index(header) else {
            self.stats.stale += 1;
            let state = &self.slots.as_ref()[usize::from(header.slot)];
            let again = !state.outstanding && state.kept.is_some_and(|kept| kept.round == header.round);
            if again && state.sends > 1 {
                self.reordering.spurious();
            }
            return;
        };
        let Some(plan) = self.plan else { return };
        let kept = &mut self.kept.as_mut()[usize::from(header.slot) * lanes..][..carried];
        for (kept, value) in kept.iter_mut().zip(values) {
            *kept = i32::from_le_bytes(*value);
        }
        if let Some(block) = plan.block(index) {
            let scale = Scale::new(header.scale, self.config.workers);
            tensor.write(block, scale.as_ref(), header.flags.has(Flags::NONFINITE), kept);
        }
        let slots = self.slots.as_mut();
        if plan.announced(index).is_some() {
            slots[plan.exponent_place(index)].exponent = header.next;
        }
        let state = &mut slots[usize::from(header.slot)];
        state.kept = Some(*header);
        state.finished = state.chunk + 1;
        state.outstanding = false;
        state.answer = false;
        // Of a chunk that was sent again it is unknown which send was answered (Karn's rule): it tells neither the
        // round trip nor what has been overtaken.
        if state.sends == 1 {
            self.rtt.measured(now.saturating_sub(state.sent_at));
            self.answered_order = self.answered_order.max(state.order);
        }
        self.to_send.remove(slots, header.slot);
        self.in_flight.remove(slots, header.slot);
        self.rtt.heard();
        self.reordering.answered();
        self.stats.results += 1;
        self.progress_at = now;
        self.done += 1;
        for dependent in plan.dependents(index).into_iter().flatten() {
            if plan.dependencies(dependent).into_iter().flatten().all(|index| self.is_finished(&plan, index)) {
                self.begin(&plan, dependent);
            }
        }
        if self.done == plan.total() {
            self.plan = None;
        } else {
            self.resend_overtaken(now);
        }
    }

    /// The index of the chunk that this result is for, if it is waited for and says what it must.
    #[inline(always)]
    fn expected_index(&self, header: &Header) -> Option<u64> {
        let plan = self.plan.as_ref()?;
        let state = &self.slots.as_ref()[usize::from(header.slot)];
        let waited_for = state.outstanding && state.sends > 0 && self.round(state.chunk) == header.round;
        if !waited_for || header.epoch != self.epoch || header.workers != self.config.workers {
            return None;
        }
        let index = state.chunk - plan.base;
        let same_operation = header.op == plan.operation.tag() && header.op_seq == plan.op_seq;
        let same_shape = header.flags.has(Flags::HEADER_ONLY) == plan.block(index).is_none();
        (same_operation && same_shape && header.scale == self.scale_of(plan, index)).then_some(index)
    }

    /// R-WANT: the aggregator lacks something of this slot, or says who it waits for.
    fn on_want(&mut self, now: Nanos, header: &Header) {
        if header.epoch > self.epoch {
            self.move_to(header.epoch);
        }
        if header.epoch < self.epoch {
            self.stats.stale += 1;
            return;
        }
        let slot = header.slot;
        let state = &mut self.slots.as_mut()[usize::from(slot)];
        if state.kept.is_some_and(|kept| kept.round == header.round) {
            state.answer = true;
            self.stats.answered += 1;
            self.to_send.push_front(self.slots.as_mut(), slot);
            return;
        }
        let (chunk, outstanding) = (state.chunk, state.outstanding && state.sends > 0);
        if !outstanding || self.round(chunk) != header.round {
            return;
        }
        let state = &mut self.slots.as_mut()[usize::from(slot)];
        state.present = Some(header.set);
        // Our contribution may be on its way still.
        let overdue = now.saturating_sub(state.sent_at) >= self.rtt.overdue();
        if !header.set.contains(self.config.member) && overdue && self.in_flight.contains(self.slots.as_ref(), slot) {
            self.stats.resent_wanted += 1;
            self.requeue(slot);
        }
    }

    fn on_refusal(&mut self, header: &Header) {
        let Some(refusal) = Refusal::from_wire(header.scale.0) else {
            self.stats.invalid += 1;
            return;
        };
        let abort = |cause| Failure::Aborted(Abort { cause, member: header.member });
        let failure = match refusal {
            Refusal::Epoch => {
                if header.epoch > self.epoch {
                    self.move_to(header.epoch);
                } else {
                    self.stats.stale += 1;
                }
                return;
            }
            Refusal::LostMember => abort(AbortCause::LostMember),
            Refusal::MemberFailed => abort(AbortCause::MemberFailed),
            Refusal::Ended => abort(AbortCause::Ended),
            Refusal::Operation | Refusal::Scale => {
                let Some(plan) = self.plan else { return };
                let state = &self.slots.as_ref()[usize::from(header.slot)];
                if !state.outstanding || self.round(state.chunk) != header.round || header.epoch != self.epoch {
                    self.stats.stale += 1;
                    return;
                }
                if refusal == Refusal::Scale {
                    Failure::ScaleDiffers { chunk: state.chunk, offender: header.member }
                } else {
                    Failure::OperationDiffers {
                        mine: plan.operation,
                        op_seq: plan.op_seq,
                        theirs: Operation::from_tag(header.op),
                        their_seq: header.op_seq,
                        agreeing: header.set,
                        offender: header.member,
                    }
                }
            }
        };
        self.failure.get_or_insert(failure);
    }

    /// R-EPOCH-3: everything in flight goes to the new incarnation again, which starts empty.
    fn move_to(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.rtt.heard();
        // Back to front, so that what was sent first is sent first again.
        let slots = self.slots.as_ref().len() as u64;
        let Some(plan) = self.plan else { return };
        let from = (plan.base + plan.total()).saturating_sub(1);
        for back in 0..plan.total().min(2 * slots) {
            let slot = self.slot(from - back);
            let state = &self.slots.as_ref()[usize::from(slot)];
            if state.outstanding && self.in_flight.contains(self.slots.as_ref(), slot) {
                self.stats.resent_epoch += 1;
                self.requeue(slot);
            }
        }
    }

    /// Makes a chunk of the operation the slot's current one and queues it.
    fn begin(&mut self, plan: &Plan, index: u64) {
        let chunk = plan.base + index;
        let slot = self.slot(chunk);
        let state = &mut self.slots.as_mut()[usize::from(slot)];
        state.chunk = chunk;
        state.outstanding = true;
        state.sends = 0;
        state.present = None;
        self.to_send.push_back(self.slots.as_mut(), slot);
    }

    /// Queues a chunk in flight to be sent again, before anything new.
    fn requeue(&mut self, slot: u16) {
        self.in_flight.remove(self.slots.as_mut(), slot);
        self.to_send.push_front(self.slots.as_mut(), slot);
    }

    /// R-RESEND-2: results of later sends have come, at least a round trip after this one went out.
    fn resend_overtaken(&mut self, now: Nanos) {
        while let Some(slot) = self.in_flight.first() {
            let state = &self.slots.as_ref()[usize::from(slot)];
            let overtaken = state.order + self.reordering.window() < self.answered_order;
            if !overtaken || now.saturating_sub(state.sent_at) < self.rtt.overdue() {
                break;
            }
            self.stats.resent_overtaken += 1;
            self.requeue(slot);
        }
    }

    #[inline(always)]
    fn write_contribution(&mut self, slot: u16, tensor: &Tensor<'_>, out: &mut [u8]) -> Option<usize> {
        let plan = self.plan.as_ref()?;
        let state = &self.slots.as_ref()[usize::from(slot)];
        let index = state.chunk.checked_sub(plan.base)?;
        debug_assert!(tensor.suits(plan.operation.kind), "a tensor of another type for {}", plan.operation);
        let lanes = self.config.lanes.count();
        let (front, rest) = out.split_first_chunk_mut::<HEADER_LEN>()?;
        let mut flags = Flags::UP.with(Flags::RESEND.when(state.sends > 0));
        let scale = self.scale_of(plan, index);
        let len = match plan.block(index) {
            None => {
                flags = flags.with(Flags::HEADER_ONLY);
                HEADER_LEN
            }
            Some(block) => {
                let out = rest.as_chunks_mut::<4>().0.get_mut(..lanes)?;
                let nonfinite = tensor.read(block, Scale::new(scale, self.config.workers).as_ref(), out);
                flags = flags.with(Flags::NONFINITE.when(nonfinite));
                HEADER_LEN + 4 * lanes
            }
        };
        let next = plan.announced(index).map_or(Exponent::NONE, |block| tensor.exponent(block, lanes));
        let header = Header {
            kind: Kind::Data,
            flags,
            member: self.config.member,
            slot,
            key: self.config.key,
            epoch: self.epoch,
            round: self.round(state.chunk),
            set: MemberSet::single(self.config.member),
            workers: 1,
            scale,
            next,
            op: plan.operation.tag(),
            op_seq: plan.op_seq,
        };
        *front = header.emit();
        Some(len)
    }

    /// The kept result of a slot, as an answer to a Want.
    fn write_answer(&self, slot: u16, out: &mut [u8]) -> Option<usize> {
        let kept = self.slots.as_ref()[usize::from(slot)].kept?;
        let (front, rest) = out.split_first_chunk_mut::<HEADER_LEN>()?;
        let flags = kept.flags.with(Flags::UP);
        *front = Header { flags, member: self.config.member, epoch: self.epoch, ..kept }.emit();
        if kept.flags.has(Flags::HEADER_ONLY) {
            return Some(HEADER_LEN);
        }
        let lanes = self.config.lanes.count();
        let values = &self.kept.as_ref()[usize::from(slot) * lanes..][..lanes];
        for (lane, value) in rest.as_chunks_mut::<4>().0.get_mut(..lanes)?.iter_mut().zip(values) {
            *lane = value.to_le_bytes();
        }
        Some(HEADER_LEN + 4 * lanes)
    }

    /// The agreed exponent that chunk `index` is scaled with; none for chunks without scaled values.
    fn scale_of(&self, plan: &Plan, index: u64) -> Exponent {
        match plan.block(index) {
            Some(_) if plan.headers > 0 => self.slots.as_ref()[plan.exponent_place(index)].exponent,
            _ => Exponent::NONE,
        }
    }

    fn fail_overdue(&mut self) {
        let Some(plan) = self.plan else { return };
        let slots = self.slots.as_ref();
        let oldest = slots.iter().filter(|state| state.outstanding).min_by_key(|state| state.chunk);
        let chunk = oldest.map_or(plan.base, |state| state.chunk);
        let (waited, op_seq, operation) = (self.config.timeout, plan.op_seq, plan.operation);
        // The oldest chunk that the aggregator spoke of; its silence on one slot may be a lost packet.
        let present = slots.iter().filter(|state| state.outstanding && state.present.is_some());
        let present = present.min_by_key(|state| state.chunk).and_then(|state| state.present);
        let missing = present.map(|present| MemberSet::first(self.config.members).without(present));
        self.failure = Some(match missing {
            Some(missing) if self.heard_at > self.progress_at && !missing.is_empty() => {
                Failure::MembersMissing { missing, waited, chunk, op_seq, operation }
            }
            _ => Failure::AggregatorSilent { waited, chunk, op_seq, operation },
        });
    }

    fn resend_at(&self) -> Option<Nanos> {
        let slot = self.in_flight.first()?;
        Some(self.slots.as_ref()[usize::from(slot)].sent_at + self.rtt.resend_after())
    }

    fn is_finished(&self, plan: &Plan, index: u64) -> bool {
        let chunk = plan.base + index;
        self.slots.as_ref()[usize::from(self.slot(chunk))].finished > chunk
    }

    fn slot(&self, chunk: u64) -> u16 {
        (chunk & (u64::from(self.config.window) - 1)) as u16
    }

    fn round(&self, chunk: u64) -> Round {
        Round((chunk >> self.config.window.trailing_zeros()) as u32)
    }
}

//! What a worker sends: contributions, and kept results that the aggregator wants.

use super::{SlotState, Tensor, Worker, congestion};
use crate::wire::{Flags, HEADER_LEN, Header, Kind};
use crate::{Exponent, MemberSet, Nanos};

impl<S, V> Worker<S, V>
where
    S: AsRef<[SlotState]> + AsMut<[SlotState]>,
    V: AsRef<[i32]> + AsMut<[i32]>,
{
    /// Writes the next packet to send and returns its length; `None` when there is nothing to send now. `out` must
    /// hold a packet of the job's chunk size.
    #[inline(always)]
    pub fn transmit(&mut self, now: Nanos, tensor: &Tensor<'_>, out: &mut [u8]) -> Option<usize> {
        if self.failure.is_some() {
            return None;
        }
        let slot = self.next_to_send(now)?;
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
            state.first_sent_at = now;
        }
        state.sends += 1;
        state.passed_over = false;
        state.urgent = false;
        state.sent_at = now;
        state.order = order;
        self.in_flight.push_back(self.slots.as_mut(), slot);
        Some(len)
    }

    /// What is sent next, in the order of the list as far as the congestion window lets it (R-CC-1).
    #[inline(always)]
    fn next_to_send(&mut self, now: Nanos) -> Option<u16> {
        let first = self.to_send.first()?;
        if self.slots.as_ref()[usize::from(first)].answer {
            return Some(first);
        }
        let admitted = self.congestion.admits(self.in_flight.len()) && self.pacing.admits(now);
        if admitted { Some(first) } else { self.exempt() }
    }

    /// What is sent whatever the window: kept results, which others wait for, and the oldest chunks. Each member has its
    /// own order of chunks and its own window: were all that one has in flight waited for by another whose window is full,
    /// and the other way round, neither would go on. The oldest chunk of all that has no result is so for each member
    /// that has all results before it: all send it. (Where slots have too few frames, R-SPILL, it may find none, so that
    /// those that have must go on: chunks that are asked for when nothing has come for long.)
    #[inline(never)]
    fn exempt(&mut self) -> Option<u16> {
        let slots = self.slots.as_ref();
        if self.urgent {
            let is_urgent = |slot: &u16| {
                let state = &slots[usize::from(*slot)];
                state.answer || state.urgent
            };
            let urgent = self.to_send.iter(slots).find(is_urgent);
            self.urgent = urgent.is_some();
            if urgent.is_some() {
                return urgent;
            }
        }
        let plan = self.plan?;
        let end = plan.base + plan.total();
        while self.oldest < end && self.is_finished(&plan, self.oldest - plan.base) {
            self.oldest += 1;
        }
        let mut oldest = self.oldest..end.min(self.oldest + u64::from(congestion::SMALLEST));
        let waits = |chunk: &u64| {
            let slot = self.slot(*chunk);
            let is_current = self.slots.as_ref()[usize::from(slot)].chunk == *chunk;
            is_current && self.to_send.contains(self.slots.as_ref(), slot)
        };
        oldest.find(waits).map(|chunk| self.slot(chunk))
    }

    #[inline(always)]
    fn write_contribution(&mut self, slot: u16, tensor: &Tensor<'_>, out: &mut [u8]) -> Option<usize> {
        let state = &self.slots.as_ref()[usize::from(slot)];
        let (plan, is_ahead) = self.plan_of(state.chunk)?;
        let plan = &plan;
        let index = state.chunk.checked_sub(plan.base)?;
        debug_assert!(
            is_ahead || tensor.suits(plan.operation.kind),
            "a tensor of another type for {}",
            plan.operation
        );
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
                let nonfinite = tensor.read(block, plan.operation.kind, plan.scale(scale).as_ref(), out);
                flags = flags.with(Flags::NONFINITE.when(nonfinite));
                HEADER_LEN + 4 * lanes
            }
        };
        // No closure: it would not be compiled for the processor's best instructions.
        let next = match plan.announced(index) {
            Some(_) if is_ahead => state.announces,
            Some(block) => tensor.exponent(block, plan.operation.kind.elements_of(lanes)),
            None => Exponent::NONE,
        };
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
        *front = Header {
            flags,
            member: self.config.member,
            epoch: self.epoch,
            ..kept
        }
        .emit();
        if kept.flags.has(Flags::HEADER_ONLY) {
            return Some(HEADER_LEN);
        }
        let lanes = self.config.lanes.count();
        let values = &self.kept.as_ref()[usize::from(slot) * lanes..][..lanes];
        for (lane, value) in rest
            .as_chunks_mut::<4>()
            .0
            .get_mut(..lanes)?
            .iter_mut()
            .zip(values)
        {
            *lane = value.to_le_bytes();
        }
        Some(HEADER_LEN + 4 * lanes)
    }
}

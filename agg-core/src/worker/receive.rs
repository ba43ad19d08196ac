//! What a packet from the aggregator does: results, Wants, refusals.

use super::congestion::Answered;
use super::plan::Plan;
use super::predictions::{Prediction, is_covered};
use super::tensor::Sums;
use super::{Count, Failure, SlotState, Tensor, Worker};
use crate::wire::{Ecn, Flags, Header, Kind, NO_MEMBER, Refusal};
use crate::{Abort, AbortCause, Epoch, Nanos, Operation};

impl<S, V> Worker<S, V>
where
    S: AsRef<[SlotState]> + AsMut<[SlotState]>,
    V: AsRef<[i32]> + AsMut<[i32]>,
{
    /// Takes in one packet from the aggregator, of whose way nothing is known: [`Self::handle_ecn`] without a mark.
    #[inline(always)]
    pub fn handle(&mut self, now: Nanos, packet: &[u8], tensor: &mut Tensor<'_>) {
        self.handle_ecn(now, packet, Ecn::Clear, tensor);
    }

    /// Takes in one packet from the aggregator, and whether the network has marked it (R-ECN-3). Any bytes at all may come.
    #[inline(always)]
    pub fn handle_ecn(&mut self, now: Nanos, packet: &[u8], ecn: Ecn, tensor: &mut Tensor<'_>) {
        let Ok((header, rest)) = Header::split(packet) else {
            self.stats.invalid += 1;
            return;
        };
        let header = header.arrived(ecn);
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
        let carried = if header.flags.has(Flags::HEADER_ONLY) {
            0
        } else {
            lanes
        };
        if !header.flags.has(Flags::RESULT) || values.len() != carried || !leftover.is_empty() {
            self.stats.invalid += 1;
            return;
        }
        let Some((plan, is_ahead, index)) = self.expected(header) else {
            self.stats.stale += 1;
            let state = &self.slots.as_ref()[usize::from(header.slot)];
            let again = !state.outstanding && state.kept.is_some_and(|kept| kept.round == header.round);
            if again && state.sends > 1 {
                self.reordering.spurious();
            }
            return;
        };
        let quorum = self.config.policy.keeps_history();
        let kept = &mut self.kept.as_mut()[usize::from(header.slot) * lanes..][..carried];
        for (kept, value) in kept.iter_mut().zip(values) {
            *kept = i32::from_le_bytes(*value);
        }
        // By a prediction all values are needed until it has proved right, and only then overwritten.
        if plan.prediction.is_none()
            && let Some(block) = plan.block(index)
        {
            // Without a quorum a result always stands for all, on whatever level of the tree its set was made.
            let mine = !quorum || header.set.contains(self.config.member);
            self.stats.late += u64::from(!mine);
            tensor.write(block, &sums(&plan, header, kept, mine));
        }
        let overtaken = self.is_overtaken(self.slots.as_ref()[usize::from(header.slot)].order);
        let slots = self.slots.as_mut();
        if plan.announced(index).is_some() {
            slots[plan.exponent_place(index)].exponents[plan.exponent_turn()] = header.next;
        }
        let state = &mut slots[usize::from(header.slot)];
        // Without what says something of its way here only.
        let lasting = Flags::RESULT.with(Flags::HEADER_ONLY).with(Flags::NONFINITE);
        state.kept = Some(Header {
            flags: header.flags.and(lasting),
            member: NO_MEMBER,
            ..*header
        });
        state.finished = state.chunk + 1;
        state.outstanding = false;
        state.answer = false;
        // R-CC-4, R-CC-5: whose contribution came last has waited for nobody else. Where it had to send that again, it was
        // lost; what came as a replay was lost on its way down. Under a quorum resends are the clock.
        let came_last = header.member == self.config.member;
        let again = state.sends > 1;
        let lost = again && (state.lost || header.flags.has(Flags::RESEND) || came_last && !quorum);
        // Of a chunk that was sent again it is unknown which send was answered (Karn's rule): it does not tell the round trip,
        // nor what has been overtaken unless the last send has had the time (RFC 8985, section 6.2).
        let waited = now.saturating_sub(state.first_sent_at);
        let once = state.sends == 1;
        let had_time = now.saturating_sub(state.sent_at) >= self.rtt.smoothed();
        // What later sends have overtaken, or the aggregator has asked after, has waited for a repair: were that measured, the
        // next one would take longer still.
        let repaired = overtaken || state.present.is_some();
        if once && (came_last || !repaired) {
            self.rtt.measured(waited);
        }
        if once || lost && had_time {
            self.answered_order = self.answered_order.max(state.order);
        }
        let answered = Answered {
            order: (once || had_time).then_some(state.order),
            delay: (once && came_last).then_some(waited),
            lost,
            marked: header.flags.has(Flags::CONGESTED),
        };
        self.congestion.answered(answered, self.sends);
        self.stats.marked += u64::from(answered.marked);
        self.stats.decreases = self.congestion.decreases();
        self.to_send.remove(slots, header.slot);
        self.in_flight.remove(slots, header.slot);
        self.rtt.heard();
        self.reordering.answered();
        self.stats.results += 1;
        self.progress_at = now;
        if let Some(ahead) = self.ahead.as_mut().filter(|_| is_ahead) {
            ahead.done += 1;
            self.resend_overtaken(now);
            return;
        }
        self.done += 1;
        self.begin_dependents(&plan, index);
        self.begin_ahead(plan.base + index);
        if self.done == plan.total() {
            self.conclude(plan, tensor);
        } else {
            self.resend_overtaken(now);
        }
    }

    /// All chunks have their results: the operation has ended, unless its prediction was wrong (R-NUM-11).
    fn conclude(&mut self, mut plan: Plan, tensor: &mut Tensor<'_>) {
        if let Some(prediction) = plan.prediction.take() {
            if !self.was_right(&plan, prediction) {
                self.stats.mispredicted += 1;
                self.next_chunk = plan.base + plan.total();
                self.plan = Some(plan);
                for index in plan.repeated() {
                    self.begin(&plan, index);
                }
                return;
            }
            self.stats.predicted += 1;
            self.write_predicted(&plan, tensor);
        }
        if plan.is_remembered {
            let (slots, turn) = (self.slots.as_ref(), plan.exponent_turn());
            let agreed = slots.iter().map(|slot| slot.exponents[turn]);
            let agreed = agreed.take(plan.data as usize);
            self.predictions.learn(plan.operation, agreed);
        }
        self.plan = None;
    }

    /// Whether every block was scaled so that nothing of it was lost.
    fn was_right(&self, plan: &Plan, prediction: Prediction) -> bool {
        (0..plan.data).all(|block| {
            is_covered(
                self.agreed(plan, block),
                self.predictions.exponent(prediction, block),
            )
        })
    }

    /// Writes all blocks of an operation that went by a prediction. Their results are the last of their slots.
    fn write_predicted(&mut self, plan: &Plan, tensor: &mut Tensor<'_>) {
        let lanes = self.config.lanes.count();
        for block in 0..plan.data {
            let slot = usize::from(self.slot(plan.base + block));
            if let Some(header) = &self.slots.as_ref()[slot].kept {
                let kept = &self.kept.as_ref()[slot * lanes..][..lanes];
                tensor.write(block, &sums(plan, header, kept, true));
            }
        }
    }

    /// The chunk that this result is for, if it is waited for and says what it must: its operation, whether that is the
    /// next one, and its index there.
    #[inline(always)]
    fn expected(&self, header: &Header) -> Option<(Plan, bool, u64)> {
        let state = &self.slots.as_ref()[usize::from(header.slot)];
        let (plan, is_ahead) = self.plan_of(state.chunk)?;
        // Under a quorum the others may be faster than this worker's first send.
        let quorum = self.config.policy.keeps_history();
        let sent = state.sends > 0 || quorum;
        let waited_for = state.outstanding && sent && self.round(state.chunk) == header.round;
        let enough = if quorum {
            (1..=plan.workers).contains(&header.workers)
        } else {
            header.workers == plan.workers
        };
        if !waited_for || header.epoch != self.epoch || !enough {
            return None;
        }
        let index = state.chunk - plan.base;
        let same_operation = header.op == plan.operation.tag() && header.op_seq == plan.op_seq;
        let same_shape = header.flags.has(Flags::HEADER_ONLY) == plan.block(index).is_none();
        let same = same_operation && same_shape && header.scale == self.scale_of(&plan, index);
        same.then_some((plan, is_ahead, index))
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
            self.urgent = true;
            self.stats.answered += 1;
            self.to_send.push_front(self.slots.as_mut(), slot);
            return;
        }
        let (chunk, outstanding) = (state.chunk, state.outstanding);
        if !outstanding || self.round(chunk) != header.round {
            return;
        }
        let misses = !header.set.contains(self.config.member);
        if misses && self.to_send.contains(self.slots.as_ref(), slot) && self.is_stuck(now) {
            self.slots.as_mut()[usize::from(slot)].urgent = true;
            self.urgent = true;
        }
        let state = &mut self.slots.as_mut()[usize::from(slot)];
        if state.sends == 0 {
            return;
        }
        let news = state.present.is_some_and(|present| present != header.set);
        state.present = Some(header.set);
        if news {
            self.rtt.told();
        }
        let state = &self.slots.as_ref()[usize::from(slot)];
        // Our contribution may be on its way still.
        let overdue = now.saturating_sub(state.sent_at) >= self.rtt.overdue();
        if misses && overdue && self.in_flight.contains(self.slots.as_ref(), slot) {
            self.slots.as_mut()[usize::from(slot)].lost = true;
            self.stats.resent_wanted += 1;
            self.requeue(slot);
        }
    }

    fn on_refusal(&mut self, header: &Header) {
        let Some(refusal) = Refusal::from_wire(header.scale.0) else {
            self.stats.invalid += 1;
            return;
        };
        let abort = |cause| {
            Failure::Aborted(Abort {
                cause,
                member: header.member,
            })
        };
        let failure = match refusal {
            Refusal::Epoch => {
                if header.epoch > self.epoch {
                    self.move_to(header.epoch);
                } else {
                    self.stats.stale += 1;
                }
                return;
            }
            Refusal::Reform => {
                self.reform |= header.epoch == self.epoch;
                return;
            }
            Refusal::Excluded => Failure::Excluded,
            Refusal::LostMember => abort(AbortCause::LostMember),
            Refusal::MemberFailed => abort(AbortCause::MemberFailed),
            Refusal::Ended if self.has_stand_by => {
                self.departs |= header.epoch == self.epoch;
                return;
            }
            Refusal::Ended => abort(AbortCause::Ended),
            Refusal::Operation | Refusal::Scale => {
                let state = &self.slots.as_ref()[usize::from(header.slot)];
                let Some((plan, is_ahead)) = self.plan_of(state.chunk) else {
                    return;
                };
                if !state.outstanding || self.round(state.chunk) != header.round || header.epoch != self.epoch
                {
                    self.stats.stale += 1;
                    return;
                }
                let failure = if refusal == Refusal::Scale {
                    Failure::ScaleDiffers {
                        chunk: state.chunk,
                        offender: header.member,
                    }
                } else {
                    Failure::OperationDiffers {
                        mine: plan.operation,
                        op_seq: plan.op_seq,
                        theirs: Operation::from_tag(header.op),
                        their_seq: header.op_seq,
                        agreeing: header.set,
                        offender: header.member,
                    }
                };
                if let Some(ahead) = self.ahead.as_mut().filter(|_| is_ahead) {
                    // The operation under way is not to blame.
                    ahead.failure.get_or_insert(failure);
                    return;
                }
                failure
            }
        };
        self.failure.get_or_insert(failure);
    }

    /// R-EPOCH-3: everything in flight goes to the new incarnation again, which starts empty.
    pub(super) fn move_to(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.rtt.heard();
        self.congestion.restart(self.sends);
        // Back to front, so that what was sent first is sent first again.
        let slots = self.slots.as_ref().len() as u64;
        let end = self.position().next_chunk;
        for back in 1..=slots.min(end) {
            let slot = self.slot(end - back);
            let state = &self.slots.as_ref()[usize::from(slot)];
            if state.outstanding && self.in_flight.contains(self.slots.as_ref(), slot) {
                self.stats.resent_epoch += 1;
                self.requeue(slot);
            }
        }
    }
}

/// What a result says of a block; `mine` if it holds this worker's values.
fn sums<'r>(plan: &Plan, header: &Header, lanes: &'r [i32], mine: bool) -> Sums<'r> {
    Sums {
        kind: plan.operation.kind,
        scale: plan.scale(header.scale),
        nonfinite: header.flags.has(Flags::NONFINITE),
        lanes,
        count: Count {
            summed: header.workers,
            workers: plan.workers,
            mine,
        },
    }
}

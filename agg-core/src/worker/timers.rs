//! What time does: chunks are sent again, and operations fail at their deadline (R-RESEND).

use super::{Failure, SlotState, Worker, congestion};
use crate::{MemberSet, Nanos};

impl<S, V> Worker<S, V>
where
    S: AsRef<[SlotState]> + AsMut<[SlotState]>,
    V: AsRef<[i32]> + AsMut<[i32]>,
{
    /// When [`Self::handle_timeout`] is to be called, and then [`Self::transmit`]; `None` while no operation is under way.
    pub fn next_timeout(&self) -> Option<Nanos> {
        if !self.is_busy() {
            return None;
        }
        let deadline = self.progress_at.saturating_add(self.config.timeout);
        let due = [
            self.resend_at(),
            self.probe_at(),
            self.overtaken_at(),
            self.pacing.due(),
        ];
        Some(due.into_iter().flatten().fold(deadline, Nanos::min))
    }

    /// Acts on what is due: sends the oldest chunks again, or fails the operation.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if !self.is_busy() {
            return;
        }
        self.pacing.woken(now);
        if now >= self.progress_at.saturating_add(self.config.timeout) {
            self.fail_overdue();
            return;
        }
        if self.overtaken_at().is_some_and(|due| now >= due) {
            self.resend_overtaken(now);
        }
        if self.probe_at().is_some_and(|due| now >= due) {
            self.probe();
        }
        if self.resend_at().is_some_and(|due| now >= due) {
            // What the aggregator has said to hold waits for others: a few such resends ask after them, and find out if it
            // has lost it since.
            let mut asks = self.asks();
            // Each is looked at once: were those that are passed over turned round and round, some could stay last for ever.
            let last = self.in_flight.last();
            let mut unanswered = 0;
            self.fall_silent();
            for _ in 0..self.rtt.back_off() {
                let Some(slot) = self.in_flight.first() else { break };
                let state = &mut self.slots.as_mut()[usize::from(slot)];
                let held = state
                    .present
                    .is_some_and(|present| present.contains(self.config.member));
                if held && asks == 0 {
                    state.sent_at = now;
                    self.in_flight.push_back(self.slots.as_mut(), slot);
                } else {
                    asks -= u16::from(held);
                    unanswered += u32::from(!held && state.sends > 1);
                    self.stats.resent_timeout += 1;
                    self.requeue(slot);
                }
                if last == Some(slot) {
                    break;
                }
            }
            if unanswered >= congestion::MANY {
                self.congestion.silenced();
            }
        }
    }

    /// The timer fires. What is in flight may be lost, all of it: see [`Self::resend_overtaken`].
    fn fall_silent(&mut self) {
        let oldest = self.in_flight.first();
        let order = oldest.map(|slot| self.slots.as_ref()[usize::from(slot)].order);
        if order.is_some_and(|order| order >= self.silent_order) {
            self.silent_order = self.sends;
            self.resumed_at = None;
        }
    }

    /// How many chunks that the aggregator has said to hold are sent again when the timer fires (R-RESEND-4).
    fn asks(&self) -> u16 {
        (self.config.window / 8).max(1)
    }

    /// R-RESEND-2: results of later sends have come, at least a round trip after this one went out; or the timer has fired,
    /// results come again, and in a round trip of them that of this one did not: most of a burst may have been lost, of
    /// which the timer would find one after the other.
    pub(super) fn resend_overtaken(&mut self, now: Nanos) {
        self.resumed_at.get_or_insert(now);
        while let Some(slot) = self.in_flight.first() {
            if self.overtaken_at().is_none_or(|due| now < due) {
                break;
            }
            let state = &self.slots.as_ref()[usize::from(slot)];
            let held = state
                .present
                .is_some_and(|present| present.contains(self.config.member));
            if held && !state.passed_over {
                // Somebody else's is missing, and who that is has been told. Next time it may be the result that is.
                let state = &mut self.slots.as_mut()[usize::from(slot)];
                state.passed_over = true;
                state.sent_at = now;
                self.in_flight.push_back(self.slots.as_mut(), slot);
                continue;
            }
            self.stats.resent_overtaken += 1;
            self.requeue(slot);
        }
    }

    /// When the chunk longest in flight is to be sent again by R-RESEND-2, if it has been overtaken.
    fn overtaken_at(&self) -> Option<Nanos> {
        let state = &self.slots.as_ref()[usize::from(self.in_flight.first()?)];
        let since = if self.is_overtaken(state.order) {
            state.sent_at
        } else if state.order < self.silent_order {
            state.sent_at.max(self.resumed_at?)
        } else {
            return None;
        };
        Some(since.saturating_add(self.rtt.overdue()))
    }

    /// Whether so many later sends were answered that disorder does not explain it.
    pub(super) fn is_overtaken(&self, order: u64) -> bool {
        // Of a smaller window many wait for repairs, too: few are left that can overtake.
        let window = self.congestion.window();
        let most = if window < u32::from(self.config.window) {
            window / 2
        } else {
            window
        };
        order + self.reordering.window().min(u64::from(most)) < self.answered_order
    }

    fn fail_overdue(&mut self) {
        let Some(plan) = self.plan else { return };
        let slots = self.slots.as_ref();
        let oldest = slots
            .iter()
            .filter(|state| state.outstanding)
            .min_by_key(|state| state.chunk);
        let chunk = oldest.map_or(plan.base, |state| state.chunk);
        let (waited, op_seq, operation) = (self.config.timeout, plan.op_seq, plan.operation);
        // The oldest chunk that the aggregator spoke of; its silence on one slot may be a lost packet.
        let present = slots
            .iter()
            .filter(|state| state.outstanding && state.present.is_some());
        let present = present
            .min_by_key(|state| state.chunk)
            .and_then(|state| state.present);
        let missing = present.map(|present| MemberSet::first(self.config.members).without(present));
        self.failure = Some(match missing {
            Some(missing) if self.heard_at > self.progress_at && missing.is_empty() => {
                Failure::OthersMissing {
                    waited,
                    chunk,
                    op_seq,
                    operation,
                }
            }
            Some(missing) if self.heard_at > self.progress_at => Failure::MembersMissing {
                missing,
                waited,
                chunk,
                op_seq,
                operation,
            },
            _ => Failure::AggregatorSilent {
                waited,
                chunk,
                op_seq,
                operation,
            },
        });
    }

    fn resend_at(&self) -> Option<Nanos> {
        let slot = self.in_flight.first()?;
        let sent_at = self.slots.as_ref()[usize::from(slot)].sent_at;
        if let Some(grace) = self.config.policy.grace() {
            return Some(sent_at + self.rtt.resend_within(grace));
        }
        // Each result starts it anew (RFC 6298, section 5.3): while results come, others will, or R-RESEND-2 finds out. Else
        // a wait that has become longer than the timer would have all sent again, and never be measured.
        Some(sent_at.max(self.progress_at) + self.rtt.resend_after())
    }

    /// R-RESEND-5: when the chunk longest in flight is to be sent again since nothing can overtake it.
    fn probe_at(&self) -> Option<Nanos> {
        // Under a quorum resends are the clock, and have their own time.
        let probes = self.config.policy.grace().is_none() && self.is_held_back();
        let slot = self.in_flight.first().filter(|_| probes)?;
        let sent_at = self.slots.as_ref()[usize::from(slot)].sent_at;
        Some(
            sent_at
                .max(self.progress_at)
                .saturating_add(self.rtt.probe_after()),
        )
    }

    fn probe(&mut self) {
        if let Some(slot) = self.in_flight.first() {
            self.rtt.probe();
            if self.to_send.first().is_some() {
                // The window is full of what waits for repairs: one probe for each chunk would take too long.
                self.fall_silent();
            }
            self.stats.resent_timeout += 1;
            self.requeue(slot);
        }
    }

    /// Whether no result has come for as long as the timer is.
    pub(super) fn is_stuck(&self, now: Nanos) -> bool {
        now.saturating_sub(self.progress_at) >= self.rtt.resend_after()
    }

    /// Whether nothing can be sent now that would overtake what is in flight: the operation has nothing left, or the congestion
    /// window is full.
    fn is_held_back(&self) -> bool {
        if self.to_send.first().is_none() {
            return !self.is_stalled();
        }
        self.congestion.is_full()
    }

    /// Queues a chunk in flight to be sent again, before anything new.
    pub(super) fn requeue(&mut self, slot: u16) {
        self.in_flight.remove(self.slots.as_mut(), slot);
        self.to_send.push_front(self.slots.as_mut(), slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Flags, Header, Kind, NO_MEMBER};
    use crate::worker::WorkerConfig;
    use crate::worker::congestion::Congestion;
    use crate::{Epoch, Exponent, Lanes, OpKind, Operation, Policy, Tensor};
    extern crate std;
    use std::vec::Vec;
    use std::{format, vec};

    type TestWorker = Worker<Vec<SlotState>, Vec<i32>>;

    /// A worker with chunks in flight in the first slots.
    fn worker(window: u16, chunks: u16, values: &[i32]) -> TestWorker {
        let config = WorkerConfig {
            key: 1,
            epoch: Epoch(1),
            member: 0,
            members: 2,
            workers: 2,
            lanes: Lanes::L16,
            window,
            policy: Policy::All,
            timeout: Nanos::MAX,
            first_chunk: 0,
        };
        let slots = vec![SlotState::default(); usize::from(window)];
        let mut worker = Worker::new(config, slots, vec![0; 16 * usize::from(window)]).unwrap();
        worker.congestion = Congestion::opened(window);
        worker.start(operation(values), values.len() as u64, 0).unwrap();
        assert_eq!(sent(&mut worker, 0, values).len(), usize::from(chunks));
        worker
    }

    fn operation(values: &[i32]) -> Operation {
        Operation {
            kind: OpKind::SUM_I32,
            elements: values.len() as u64,
        }
    }

    /// The slots of which something is sent now.
    fn sent(worker: &mut TestWorker, now: Nanos, values: &[i32]) -> Vec<u16> {
        let mut values = values.to_vec();
        let mut out = [0; 56 + 4 * 16];
        let mut slots = Vec::new();
        while let Some(len) = worker.transmit(now, &Tensor::I32(&mut values), &mut out) {
            slots.push(Header::split(&out[..len]).unwrap().0.slot);
        }
        slots
    }

    /// The aggregator holds this worker's part of a slot's first chunk and waits for the other's.
    fn say_held(worker: &mut TestWorker, slot: u16, values: &[i32]) {
        let want = Header {
            kind: Kind::Want,
            flags: Flags::NONE,
            member: NO_MEMBER,
            slot,
            key: 1,
            epoch: Epoch(1),
            round: worker.round(u64::from(slot)),
            set: MemberSet::single(0),
            workers: 1,
            scale: Exponent::NONE,
            next: Exponent::NONE,
            op: operation(values).tag(),
            op_seq: 0,
        };
        worker.handle(0, &want.emit(), &mut Tensor::I32(&mut values.to_vec()));
    }

    /// Each timer asks after the next in line. (Of three chunks in flight one was once passed over for ever, whose result was
    /// complete and lost on its way: all others waited for who waited for it.)
    #[test]
    fn resend_4_every_chunk_that_is_held_has_its_turn() {
        for window in [1_u16, 4, 8, 32, 64] {
            for chunks in 1..=window {
                let values = vec![1; 16 * usize::from(chunks)];
                let mut worker = worker(window, chunks, &values);
                for slot in 0..chunks {
                    say_held(&mut worker, slot, &values);
                }
                let mut asked = Vec::new();
                for _ in 0..40 {
                    let now = worker.next_timeout().unwrap();
                    worker.handle_timeout(now);
                    asked.push(sent(&mut worker, now, &values));
                }
                let each = usize::from(worker.asks().min(chunks));
                // From when the timer looks at all of them.
                for turn in asked[8..].windows(usize::from(chunks).div_ceil(each)) {
                    let case = format!("window {window}, {chunks} chunks: {turn:?}");
                    assert!(turn.iter().all(|slots| slots.len() == each), "{case}");
                    let mut turn = turn.concat();
                    turn.sort_unstable();
                    turn.dedup();
                    assert_eq!(turn.len(), usize::from(chunks), "{case}");
                }
            }
        }
    }

    /// What is held costs its share of each timer; what is not is sent with each.
    #[test]
    fn resend_4_what_is_not_held_is_not_passed_over() {
        let values = [1; 16 * 4];
        let mut worker = worker(4, 4, &values);
        for slot in 0..3 {
            say_held(&mut worker, slot, &values);
        }
        let mut held = Vec::new();
        for fired in 0..12 {
            let now = worker.next_timeout().unwrap();
            worker.handle_timeout(now);
            let slots = sent(&mut worker, now, &values);
            if fired >= 3 {
                assert_eq!(slots.iter().filter(|slot| **slot == 3).count(), 1, "{slots:?}");
                held.extend(slots.into_iter().filter(|slot| *slot != 3));
            }
        }
        assert_eq!(held[..3], held[3..6], "one each time, in turn");
        assert_eq!(held[3..6], held[6..9]);
        held.truncate(3);
        held.sort_unstable();
        assert_eq!(held, [0, 1, 2]);
    }
}

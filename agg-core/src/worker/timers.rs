//! What time does: chunks are sent again, and operations fail at their deadline (R-RESEND).

use super::{Failure, SlotState, Worker};
use crate::{MemberSet, Nanos};

impl<S, V> Worker<S, V>
where
    S: AsRef<[SlotState]> + AsMut<[SlotState]>,
    V: AsRef<[i32]> + AsMut<[i32]>,
{
    /// When [`Self::handle_timeout`] is to be called; `None` while no operation is under way.
    pub fn next_timeout(&self) -> Option<Nanos> {
        if !self.is_busy() {
            return None;
        }
        let deadline = self.progress_at.saturating_add(self.config.timeout);
        Some(self.resend_at().map_or(deadline, |resend| resend.min(deadline)))
    }

    /// Acts on what is due: sends the oldest chunks again, or fails the operation.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if !self.is_busy() {
            return;
        }
        if now >= self.progress_at.saturating_add(self.config.timeout) {
            self.fail_overdue();
            return;
        }
        if self.resend_at().is_some_and(|due| now >= due) {
            // What the aggregator has said to hold waits for others: a few such resends ask after them, and find out if it
            // has lost it since.
            let mut asks = (self.config.window / 8).max(1);
            for _ in 0..self.rtt.back_off() {
                let Some(slot) = self.in_flight.first() else { break };
                let state = &mut self.slots.as_mut()[usize::from(slot)];
                let held = state
                    .present
                    .is_some_and(|present| present.contains(self.config.member));
                if held && asks == 0 {
                    state.sent_at = now;
                    self.in_flight.remove(self.slots.as_mut(), slot);
                    self.in_flight.push_back(self.slots.as_mut(), slot);
                    continue;
                }
                asks -= u16::from(held);
                self.stats.resent_timeout += 1;
                self.requeue(slot);
            }
        }
    }

    /// R-RESEND-2: results of later sends have come, at least a round trip after this one went out.
    pub(super) fn resend_overtaken(&mut self, now: Nanos) {
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
        Some(
            self.slots.as_ref()[usize::from(slot)].sent_at
                + self.rtt.resend_within(self.config.policy.grace()),
        )
    }

    /// Queues a chunk in flight to be sent again, before anything new.
    pub(super) fn requeue(&mut self, slot: u16) {
        self.in_flight.remove(self.slots.as_mut(), slot);
        self.to_send.push_front(self.slots.as_mut(), slot);
    }
}

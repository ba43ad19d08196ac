//! The operation after the current one, which begins to agree on its exponents before that has ended (R-OP-7).
//!
//! Only its header-only chunks go ahead. They need no elements when they are sent, so that a host has one tensor at hand at a
//! time, and their results overwrite none.

use super::plan::Plan;
use super::predictions::Predictions;
use super::{Failure, SlotState, Worker};
use crate::{Exponent, OpKind, Operation};

/// An operation of which header-only chunks may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Ahead {
    pub(super) plan: Plan,
    /// Its chunks that have their result.
    pub(super) done: u64,
    /// Why it fails when it is started.
    pub(super) failure: Option<Failure>,
}

impl<S, V> Worker<S, V>
where
    S: AsRef<[SlotState]> + AsMut<[SlotState]>,
    V: AsRef<[i32]> + AsMut<[i32]>,
{
    /// Announces the operation that will be [started](Self::start) after the one under way, with so many elements on this
    /// stream; its exponents are agreed on meanwhile. `exponent` says what each block needs ([`Tensor::exponent`](
    /// super::Tensor::exponent)), of the elements as they will be then. It is asked for each of the first blocks, as many
    /// as the window has. `false` where this cannot be, or saves nothing: the operation is just started later then. Members
    /// need not do the same.
    pub fn announce(
        &mut self,
        operation: Operation,
        elements: u64,
        exponent: impl Fn(u64) -> Exponent,
    ) -> bool {
        if !self.can_announce(operation, elements) {
            return false;
        }
        let plan = self.plan_of_next(operation, elements);
        for index in 0..plan.headers {
            let slot = usize::from(self.slot(plan.base + index));
            self.slots.as_mut()[slot].announces = exponent(index);
        }
        self.stats.announced += 1;
        self.ahead = Some(Ahead {
            plan,
            done: 0,
            failure: None,
        });
        for index in 0..plan.headers {
            if self.is_free_for(plan.base + index) {
                self.begin(&plan, index);
            }
        }
        true
    }

    /// Whether [`Self::announce`] would do something for an operation with so many elements here. Not before a prediction has
    /// been judged: the number of chunks is not known then; nor where the job is about to change.
    pub fn can_announce(&self, operation: Operation, elements: u64) -> bool {
        let (lanes, window) = (self.config.lanes.count(), u64::from(self.config.window));
        let is_long = |kind: OpKind| {
            let blocks = elements.div_ceil(kind.elements_of(lanes) as u64);
            blocks > 0 && kind.is_scaled() && !Predictions::suit(kind, elements, blocks, window)
        };
        let changes = self.reform || self.departs || self.boundary.is_some() || self.failure.is_some();
        let has_room = self.ahead.is_none() && self.plan.is_some_and(|plan| plan.prediction.is_none());
        has_room && !changes && !self.config.policy.keeps_history() && is_long(operation.kind)
    }

    /// R-CHUNK-3, for a chunk of the next operation: the slot's last one is of an operation that has ended, or has its result.
    fn is_free_for(&self, chunk: u64) -> bool {
        let Some(last) = chunk.checked_sub(u64::from(self.config.window)) else {
            return true;
        };
        let of_current = self.plan.is_some_and(|plan| last >= plan.base);
        !of_current || self.slots.as_ref()[usize::from(self.slot(chunk))].finished > last
    }

    /// A chunk of the current operation has its result: that of the next one in its slot may be sent.
    pub(super) fn begin_ahead(&mut self, chunk: u64) {
        let Some(Ahead { plan, .. }) = self.ahead else {
            return;
        };
        let next = chunk + u64::from(self.config.window);
        if (plan.base..plan.base + plan.headers).contains(&next) {
            self.begin(&plan, next - plan.base);
        }
    }

    /// The operation of a chunk, and whether it is the next one.
    #[inline(always)]
    pub(super) fn plan_of(&self, chunk: u64) -> Option<(Plan, bool)> {
        match self.ahead {
            Some(ahead) if chunk >= ahead.plan.base => Some((ahead.plan, true)),
            _ => Some((self.plan?, false)),
        }
    }

    /// The chunks that are left to begin with when an operation starts that was announced.
    pub(super) fn go_on_from(&mut self, ahead: &Ahead) {
        let plan = ahead.plan;
        self.done = ahead.done;
        for index in 0..plan.headers {
            if !self.has_begun(&plan, index) {
                self.begin(&plan, index);
            }
        }
        for index in 0..plan.headers {
            if self.is_finished(&plan, index) {
                self.begin_dependents(&plan, index);
            }
        }
    }

    /// Takes back what was announced: the operation will be another, or have other chunks.
    pub(super) fn withdraw(&mut self) {
        let Some(Ahead { plan, .. }) = self.ahead.take() else {
            return;
        };
        for index in 0..plan.headers {
            let slot = self.slot(plan.base + index);
            let slots = self.slots.as_mut();
            let state = &mut slots[usize::from(slot)];
            let chunk = plan.base + index;
            if state.finished == chunk + 1 {
                // The chunk that gets its number has no result.
                state.finished = chunk;
            }
            if state.chunk != chunk || !state.outstanding {
                continue;
            }
            state.outstanding = false;
            state.present = None;
            let answers = state.answer;
            self.in_flight.remove(slots, slot);
            if !answers {
                self.to_send.remove(slots, slot);
            }
        }
    }
}

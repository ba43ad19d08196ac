//! A worker without its clock, for tools that compare states.

use core::hash::{Hash, Hasher};

use super::ahead::Ahead;
use super::plan::Plan;
use super::predictions::Predictions;
use super::{Failure, SlotState, Worker};
use crate::Epoch;

/// What decides *which* packets a worker takes and sends, without what only decides *when* (send times and order,
/// round trips, back-off, the order of the lists, counters) or words an error (who was missing last). A model checker
/// takes two workers with equal protocol states for one.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolState<'w> {
    epoch: Epoch,
    plan: Option<Plan>,
    ahead: Option<Ahead>,
    predictions: &'w Predictions,
    done: u64,
    next_chunk: u64,
    next_op: u32,
    failure: Option<Failure>,
    slots: &'w [SlotState],
    kept: &'w [i32],
}

impl<S: AsRef<[SlotState]>, V: AsRef<[i32]>> Worker<S, V> {
    /// The worker's state without its clock. Two workers of the same configuration can be compared by it.
    pub fn protocol_state(&self) -> ProtocolState<'_> {
        ProtocolState {
            epoch: self.epoch,
            plan: self.plan,
            ahead: self.ahead,
            predictions: &self.predictions,
            done: self.done,
            next_chunk: self.next_chunk,
            next_op: self.next_op,
            failure: self.failure,
            slots: self.slots.as_ref(),
            kept: self.kept.as_ref(),
        }
    }
}

impl ProtocolState<'_> {
    fn stream(&self) -> impl Eq + Hash {
        (
            self.epoch,
            self.plan,
            self.ahead,
            self.predictions,
            self.done,
            self.next_chunk,
            self.next_op,
            self.failure,
        )
    }

    fn slots(&self) -> impl Iterator<Item = impl Eq + Hash> {
        self.slots.iter().map(SlotState::without_time)
    }
}

impl PartialEq for ProtocolState<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.stream() == other.stream() && self.slots().eq(other.slots()) && self.kept == other.kept
    }
}

impl Eq for ProtocolState<'_> {}

impl Hash for ProtocolState<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.stream().hash(state);
        for slot in self.slots() {
            slot.hash(state);
        }
        self.kept.hash(state);
    }
}

//! A worker's place in its job, and how it changes while the job runs (R-REFORM).

use super::{SlotState, Worker};
use crate::{Epoch, Nanos};

/// A worker's place at an aggregator, as the control service gives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Membership {
    /// The aggregator's epoch for the job.
    pub epoch: Epoch,
    /// This worker's number there.
    pub member: u8,
    /// Members of that aggregator.
    pub members: u8,
    /// Workers of the whole job.
    pub workers: u32,
}

/// Where the survivors of a lost member go on: the operation that ends without a result everywhere, and the number of
/// the first chunk after it (R-REFORM-3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Boundary {
    /// The first operation that no worker has completed.
    pub operation: u32,
    /// The number of the first chunk of the operation after it, on this stream.
    pub next_chunk: u64,
}

/// How far a worker is on its stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Position {
    /// Operations completed.
    pub operations: u32,
    /// The number after the last chunk of the last operation that was started.
    pub next_chunk: u64,
}

impl<S, V> Worker<S, V>
where
    S: AsRef<[SlotState]> + AsMut<[SlotState]>,
    V: AsRef<[i32]> + AsMut<[i32]>,
{
    /// How far this worker is.
    pub fn position(&self) -> Position {
        Position {
            operations: self.next_op.wrapping_sub(u32::from(self.plan.is_some())),
            next_chunk: self.next_chunk,
        }
    }

    /// Whether the aggregator has asked for a new registration; [`Self::rejoin`] ends that.
    pub fn wants_to_register(&self) -> bool {
        self.reform
    }

    /// How long the aggregator has said nothing at all during the current operation; 0 between operations.
    pub fn silent_for(&self, now: Nanos) -> Nanos {
        if self.is_busy() && self.in_flight.first().is_some() {
            now.saturating_sub(self.heard_at)
        } else {
            0
        }
    }

    /// Whether the last operation ended without a result since a member was lost (R-REFORM-3).
    pub fn was_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Takes a new place, at the same aggregator or another, and sends everything in flight there, which starts empty. With
    /// a boundary the operation it names ends without a result, now or when it is started; one before it goes on.
    pub fn rejoin(&mut self, place: &Membership, boundary: Option<Boundary>, now: Nanos) {
        self.config.member = place.member;
        self.config.members = place.members;
        self.config.workers = place.workers;
        self.reform = false;
        self.heard_at = now;
        self.progress_at = now;
        for state in self.slots.as_mut() {
            state.present = None;
        }
        if let Some(boundary) = boundary {
            // One that is still ahead here has ended for others: both operations end.
            let ahead = self.boundary.map(|_| self.ends_from);
            self.ends_from = ahead.unwrap_or(boundary.operation).min(boundary.operation);
            self.boundary = Some(boundary);
            let next = boundary.operation.wrapping_add(1);
            if self.next_op == next {
                self.abandon();
                self.pass_boundary(self.begun_at);
            }
        }
        self.move_to(place.epoch);
    }

    /// Ends the operation under way, if there is one: its results will not come.
    fn abandon(&mut self) {
        self.abandoned = true;
        self.plan = None;
        for slot in 0..self.config.window {
            let slots = self.slots.as_mut();
            self.to_send.remove(slots, slot);
            self.in_flight.remove(slots, slot);
            slots[usize::from(slot)].outstanding = false;
            slots[usize::from(slot)].answer = false;
        }
    }

    /// Whether the operation that would start now ends without a result (R-REFORM-3); then it has done so.
    pub(super) fn ends_at_once(&mut self) -> bool {
        let Some(boundary) = self.boundary else {
            return false;
        };
        if !(self.ends_from..=boundary.operation).contains(&self.next_op) {
            return false;
        }
        if self.next_op == boundary.operation {
            self.pass_boundary(self.next_chunk);
        } else {
            self.next_op = self.next_op.wrapping_add(1);
        }
        true
    }

    /// Goes on after the operation that ended without a result, whose first chunk was `base` (R-REFORM-3). Its rounds are
    /// skipped in pairs, so that the next ones live where its own would: a rank that is an operation behind may still need
    /// the other generation of each slot.
    fn pass_boundary(&mut self, base: u64) {
        if let Some(boundary) = self.boundary.take() {
            let pair = 2 * u64::from(self.config.window);
            let skipped = boundary.next_chunk.saturating_sub(base);
            self.next_op = boundary.operation.wrapping_add(1);
            self.next_chunk = base + skipped.next_multiple_of(pair);
        }
    }
}

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
    /// The number after the last chunk of the last operation that was started, or after those of the next that went ahead.
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
            // What was announced has numbers that nothing else may have.
            next_chunk: self
                .ahead
                .map_or(self.next_chunk, |ahead| ahead.plan.base + ahead.plan.headers),
        }
    }

    /// Whether the aggregator has asked for a new registration; [`Self::rejoin`] ends that.
    pub fn wants_to_register(&self) -> bool {
        self.reform
    }

    /// From now on the job goes on elsewhere when the aggregator is stopped (R-JOB-2): all members know another one.
    pub fn set_stand_by(&mut self) {
        self.has_stand_by = true;
    }

    /// Whether the aggregator is being stopped and the job goes on at another; [`Self::rejoin`] ends that.
    pub fn wants_to_move(&self) -> bool {
        self.departs
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
        if boundary.is_some() || place.workers != self.config.workers {
            // It was announced for another place in the order, or other headroom.
            self.withdraw();
        }
        self.config.member = place.member;
        self.config.members = place.members;
        self.config.workers = place.workers;
        self.reform = false;
        self.departs = false;
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
            // At the same operation everywhere: whoever goes on predicts alike, whatever ranks have seen of this one.
            self.predictions.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::{StartError, WorkerConfig};
    use crate::{Lanes, OpKind, Operation, Policy};

    const ONE: Operation = Operation {
        kind: OpKind::SUM_I32,
        elements: 1,
    };

    fn worker() -> Worker<[SlotState; 2], [i32; 32]> {
        let config = WorkerConfig {
            key: 1,
            epoch: Epoch(1),
            member: 0,
            members: 3,
            workers: 3,
            lanes: Lanes::from_count(16).unwrap(),
            window: 2,
            policy: Policy::All,
            timeout: 1000,
            first_chunk: 0,
        };
        Worker::new(config, core::array::from_fn(|_| SlotState::default()), [0; 32]).unwrap()
    }

    fn place(epoch: u32, workers: u8) -> Membership {
        Membership {
            epoch: Epoch(epoch),
            member: 0,
            members: workers,
            workers: u32::from(workers),
        }
    }

    fn boundary(operation: u32, next_chunk: u64) -> Option<Boundary> {
        Some(Boundary {
            operation,
            next_chunk,
        })
    }

    #[test]
    fn reform_3_what_is_under_way_at_the_boundary_ends_and_the_next_goes_on() {
        let mut worker = worker();
        worker.start(ONE, 1, 0).unwrap();
        worker.rejoin(&place(2, 2), boundary(0, 5), 0);
        assert!(!worker.is_busy() && worker.was_abandoned());
        assert_eq!(
            (worker.position().operations, worker.position().next_chunk),
            (1, 8)
        );
        worker.start(ONE, 1, 0).unwrap();
        assert!(worker.is_busy() && !worker.was_abandoned());
    }

    /// A rank that computes for long while members are lost one after the other.
    #[test]
    fn reform_3_boundaries_that_were_not_reached_yet_add_up() {
        let mut worker = worker();
        worker.rejoin(&place(2, 2), boundary(0, 5), 0);
        worker.rejoin(&place(3, 2), None, 0);
        worker.rejoin(&place(4, 1), boundary(1, 9), 0);
        for _ in 0..2 {
            assert_eq!(worker.start(ONE, 1, 0), Err(StartError::Abandoned));
        }
        worker.start(ONE, 1, 0).unwrap();
        assert_eq!(
            (worker.position().operations, worker.position().next_chunk),
            (2, 13)
        );
    }

    #[test]
    fn reform_3_an_operation_before_the_boundary_goes_on() {
        let mut worker = worker();
        worker.start(ONE, 1, 0).unwrap();
        worker.rejoin(&place(2, 2), boundary(1, 5), 0);
        assert!(worker.is_busy() && !worker.was_abandoned());
    }
}

//! A worker's place in its job, and how it changes (R-REFORM).

use agg_core::worker::{Boundary, Membership};

use super::Watch;
use crate::ModelPredictions;

impl Watch {
    /// Takes a new place; with a boundary, the operation it names ends without a result.
    pub fn rejoin(&mut self, place: Membership, boundary: Option<Boundary>, now: u64) {
        self.worker.rejoin(&place, boundary, now);
        if boundary.is_some() || place.workers != self.place.workers {
            self.ahead = None;
        }
        self.place = place;
        self.epoch = place.epoch.0;
        self.reform = false;
        if let Some(Boundary {
            operation,
            next_chunk,
        }) = boundary
        {
            if self.operations == operation + 1 {
                self.abandoned = true;
                self.current = None;
                self.waiting.clear();
                self.owed.clear();
                self.ending = None;
                self.next_chunk = self.after(self.begun_at, next_chunk);
                self.predictions = ModelPredictions::default();
            } else {
                // One that was given before is still ahead: its operation has ended for others.
                let before = self.ending.take().map(|(operations, _)| *operations.start());
                let first = before.map_or(operation, |before| before.min(operation));
                self.ending = Some((first..=operation, next_chunk));
            }
        }
        self.check_place();
    }

    /// The number of the first chunk after the operation that ended without a result and began with `base` (R-REFORM-3).
    pub(super) fn after(&self, base: u64, next_chunk: u64) -> u64 {
        let pair = 2 * self.window();
        (base..)
            .step_by(pair as usize)
            .find(|chunk| *chunk >= next_chunk)
            .unwrap_or(base)
    }

    /// Whether the last operation ended without a result.
    pub fn was_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Whether it was told to register again.
    pub fn wants_to_register(&self) -> bool {
        self.reform
    }

    /// How far it says that it is: operations completed, and the number after the last chunk of the last one started.
    pub fn position(&self) -> (u32, u64) {
        let position = self.worker.position();
        (position.operations, position.next_chunk)
    }

    /// How far another rank can be, as [`Self::position`]: it cannot complete what this one has not begun, but for operations
    /// that end without a result.
    pub fn furthest(&self) -> (u32, u64) {
        match &self.ending {
            Some((operations, next_chunk)) => (operations.end() + 1, self.next_chunk.max(*next_chunk)),
            None => (self.operations, self.position().1),
        }
    }

    /// The worker says of itself what it must.
    pub(super) fn check_place(&self) {
        assert_eq!(self.worker.was_abandoned(), self.abandoned, "R-REFORM-3");
        assert_eq!(self.worker.wants_to_register(), self.reform, "R-REFORM-1");
        assert_eq!(self.worker.epoch().0, self.epoch, "R-EPOCH-3, R-REFORM-2");
        if self.worker.failure().is_none() {
            let under_way = u32::from(self.worker.is_busy());
            // R-OP-7: numbers that went ahead count.
            let next_chunk = self.ahead.as_ref().map_or(self.next_chunk, |ahead| {
                ahead.current.base + ahead.current.headers
            });
            let position = (self.operations - under_way, next_chunk);
            assert_eq!(self.position(), position, "R-REFORM-1: how far it is");
        }
    }
}

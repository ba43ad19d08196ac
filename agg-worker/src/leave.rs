//! Leaving a world: a rank that has all its results answers others until they have theirs (R-JOB-3).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use agg_control::ControlError;

use crate::keeper::CALL;
use crate::moves::Trouble;
use crate::place::Place;
use crate::shared::Shared;

/// A rank says that it leaves again and again: after a move the aggregator is another.
const SLICE: Duration = Duration::from_secs(1);

impl Shared {
    /// Leaves, and waits until all have left, at most for `linger`. An aggregator that is lost meanwhile is followed to
    /// where the job moves: others may still need what this rank keeps.
    pub(crate) fn leave(&self, linger: Duration) {
        self.leaving.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + linger;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let place = self.moves.place();
            let control = place.control.with_timeout(CALL);
            match control.leave(self.member, left.min(SLICE)) {
                Ok(answer) if answer.remaining == 0 || answer.aborted.is_some() => return,
                Ok(answer) if left <= SLICE => {
                    tracing::debug!(remaining = answer.remaining, "left before others did");
                    return;
                }
                Ok(_) => {}
                // All have left, and it is forgotten; or it was restarted.
                Err(ControlError::UnknownJob { .. }) if !was_restarted(&place) => return,
                Err(error) => {
                    tracing::debug!(%error, "could not say that this rank leaves");
                    if self.immovable.is_some() || left.is_zero() || self.is_over() {
                        return;
                    }
                    self.moves.raise(Trouble::Silent, place.generation);
                    self.wait_for_move(&place, left.min(SLICE));
                }
            }
        }
    }

    fn wait_for_move(&self, place: &Place, limit: Duration) {
        let began = Instant::now();
        while self.moves.generation() == place.generation && !self.is_over() {
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            self.moves.wait(left);
        }
    }
}

fn was_restarted(place: &Place) -> bool {
    let description = place.control.with_timeout(CALL).describe();
    description.is_ok_and(|description| description.host.epoch != place.host_epoch)
}

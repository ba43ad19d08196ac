//! The thread that keeps this rank in its job: it says at intervals that the rank lives, and has it registered again when the
//! aggregator is lost or asks for it (R-REFORM-1).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use agg_control::{AbortKind, ControlError, Pulse};

use crate::failover;
use crate::moves::Trouble;
use crate::place::Place;
use crate::shared::Shared;

/// How long a call may take that shows whether an aggregator is there.
pub(crate) const CALL: Duration = Duration::from_secs(1);

/// How long this thread sleeps at most before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// After one heartbeat without an answer the next is soon: two of them are a lost aggregator.
const SOON: Duration = Duration::from_millis(250);

/// What an aggregator says of itself when it is stopped.
const STOPPED: &str = "it was stopped";

/// Times that a job may move without a single result in between, before that is an error.
const MOST_MOVES: u32 = 8;

/// Runs until the communicator is dropped, or the job has ended.
pub(crate) fn keep(shared: &Shared) {
    let mut keeper = Keeper {
        shared,
        misses: 0,
        heard: Instant::now(),
        progress: 0,
        moves: 0,
    };
    let mut due = Instant::now();
    while !shared.is_over() {
        let trouble = shared.moves.take_trouble();
        let left = due.saturating_duration_since(Instant::now());
        if trouble.is_none() && !left.is_zero() {
            shared.moves.wait(left.min(STOP_INTERVAL));
            continue;
        }
        due = Instant::now() + keeper.look(trouble);
    }
}

struct Keeper<'s> {
    shared: &'s Shared,
    /// Heartbeats without an answer, one after the other.
    misses: u32,
    /// When the control service answered last.
    heard: Instant,
    /// Results at the last move.
    progress: u64,
    /// Moves since then.
    moves: u32,
}

impl Keeper<'_> {
    /// Looks after the job, and returns when to look again.
    fn look(&mut self, trouble: Option<Trouble>) -> Duration {
        let place = self.shared.moves.place();
        if trouble == Some(Trouble::Reforming) {
            return self.register_again(&place, place.index, trouble);
        }
        if trouble == Some(Trouble::Departing) {
            return self.next_aggregator(&place, trouble, STOPPED.into());
        }
        let pulse = self.shared.heartbeat(&place);
        if pulse.is_ok() {
            self.heard = Instant::now();
        }
        // A rank that leaves has all its results. That nobody knows the job any more is then as it should be, unless the
        // closing thread says otherwise.
        let is_leaving = self.shared.leaving.load(Ordering::Relaxed) && trouble.is_none();
        match pulse {
            Ok(Pulse::Ok) => {
                self.misses = 0;
                self.shared.moves.answered();
                place.heartbeat
            }
            Ok(Pulse::Reform) => self.register_again(&place, place.index, trouble),
            Ok(Pulse::Aborted(reason))
                if reason.kind == AbortKind::Shutdown && self.shared.has_stand_by() && !is_leaving =>
            {
                self.next_aggregator(&place, trouble, STOPPED.into())
            }
            Ok(Pulse::Aborted(reason) | Pulse::Excluded(reason)) => {
                self.shared.end(reason.text);
                place.heartbeat
            }
            Ok(Pulse::UnknownJob) if is_leaving => place.heartbeat,
            Ok(Pulse::UnknownJob) => {
                let said = "it was restarted and does not know the job";
                if let Some(reason) = self.shared.immovable {
                    self.shared
                        .end(format!("the aggregator does not know it; {reason}"));
                    return place.heartbeat;
                }
                self.next_aggregator(&place, trouble, said.into())
            }
            Err(error) => {
                self.misses += 1;
                tracing::debug!(%error, "no answer to a heartbeat");
                let is_lost = self.misses > 1 || trouble.is_some();
                if !is_lost || is_leaving {
                    return SOON.min(place.heartbeat);
                }
                if let Some(reason) = self.shared.immovable {
                    self.end_if_lost(reason, error);
                    return SOON.min(place.heartbeat);
                }
                self.next_aggregator(&place, trouble, said(error))
            }
        }
    }

    /// Ends a job that goes nowhere else, when the aggregator was silent for so long that it would have given this rank up.
    fn end_if_lost(&self, reason: &str, error: ControlError) {
        let silent = self.heard.elapsed();
        if silent > self.shared.terms.lost_after {
            self.shared.end(format!(
                "the aggregator has not answered for {:.1} s ({}); {reason}",
                silent.as_secs_f64(),
                said(error)
            ));
        }
    }

    fn next_aggregator(&mut self, place: &Place, trouble: Option<Trouble>, said: String) -> Duration {
        let moves = &self.shared.moves;
        moves.tried(&self.shared.addresses[place.index], said);
        let next = (place.index + 1) % self.shared.addresses.len();
        self.register_again(place, next, trouble)
    }

    fn register_again(&mut self, place: &Place, first: usize, trouble: Option<Trouble>) -> Duration {
        self.misses = 0;
        let progress = self.shared.moves.progress();
        // Between operations no result can come.
        self.moves = if trouble.is_some() && progress == self.progress {
            self.moves + 1
        } else {
            0
        };
        self.progress = progress;
        if self.moves > MOST_MOVES {
            self.shared.end(format!(
                "it moved {MOST_MOVES} times without any result in between: look at the aggregators' logs"
            ));
            return place.heartbeat;
        }
        failover::register_again(self.shared, place, first);
        // The new aggregator has heard this rank just now.
        self.shared.moves.place().heartbeat
    }
}

fn said(error: ControlError) -> String {
    match error {
        // The list of aggregators that were tried names the address already.
        ControlError::Unreachable { detail, .. } => format!("no aggregator answers ({detail})"),
        error => error.to_string(),
    }
}

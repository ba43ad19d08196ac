//! Why an operation ended, in one line for the caller; the other ranks are told.

use std::sync::Arc;
use std::time::Duration;

use agg_control::Pulse;
use agg_core::Failure;

use crate::Error;
use crate::place::Place;
use crate::shared::{Shared, lock};
use crate::stream::Stopped;

/// How long a call may take that only explains a failure, or tells others of it: the deadline has passed already.
const EXPLAIN: Duration = Duration::from_secs(1);

/// What ranks do that disagree, as often as not: one has fewer batches than the others and is done.
const SAME_ORDER: &str = "; every rank must call the same operations in the same order (closing a communicator, as a script's end does, is a barrier)";

impl Shared {
    /// A panic in the caller's buffer: the operation did not take place here, so that this rank is out of step.
    pub(crate) fn fail_by_panic(&self) -> Error {
        if !self.has_failed() {
            self.tell_others("the buffer of a submitted operation panicked");
        }
        self.fail(Error::BufferPanicked {
            world: self.config.world.clone(),
            rank: self.config.rank,
        })
    }

    /// Ends the job for the other ranks, so that they need not wait for their own deadlines.
    pub(crate) fn tell_others(&self, reason: &str) {
        let control = self.moves.place().control.with_timeout(EXPLAIN);
        if let Err(error) = control.abort(self.member, reason) {
            tracing::debug!(%error, "could not tell the other ranks");
        }
    }

    pub(crate) fn ended_error(&self, reason: String) -> Error {
        Error::Ended {
            world: self.config.world.clone(),
            rank: self.config.rank,
            reason,
        }
    }

    /// The error for the caller; the other ranks are told through the control service, and it is asked what it knows.
    pub(crate) fn explain(&self, stopped: Stopped) -> Error {
        let place = self.moves.place();
        let failure = match stopped {
            Stopped::Socket(source) => {
                return Error::Socket {
                    world: self.config.world.clone(),
                    rank: self.config.rank,
                    aggregator: place.data_addr,
                    source: Arc::new(source),
                };
            }
            Stopped::Ended | Stopped::Abandoned => {
                let reason = self.ended.get().cloned();
                return self.ended_error(reason.unwrap_or_else(|| "an operation was cut short".into()));
            }
            Stopped::Failed(failure) => failure,
        };
        let text = place.members.describe(&failure);
        // Who opened the slot and is alone with its operation so far agrees with nobody else.
        let text = text.replacen(&format!(", as rank {} did, ", self.config.rank), ", ", 1);
        let ranks = place.members.concerned(&failure);
        let detail = match failure {
            Failure::Aborted(_) => self
                .why_aborted(&place)
                .map_or_else(String::new, |reason| format!(" ({reason})")),
            Failure::AggregatorSilent { .. } => self.why_silent(&place),
            Failure::Excluded => String::new(),
            Failure::MembersMissing { .. }
            | Failure::OthersMissing { .. }
            | Failure::OperationDiffers { .. }
            | Failure::ScaleDiffers { .. } => match self.moves.tries() {
                // Nobody is there to be told.
                Some(tries) => format!("; no aggregator has taken over: {tries}"),
                None => {
                    self.tell_others(&text);
                    match failure {
                        Failure::OperationDiffers { .. } => SAME_ORDER.into(),
                        _ => String::new(),
                    }
                }
            },
        };
        Error::Operation {
            world: self.config.world.clone(),
            rank: self.config.rank,
            aggregator: place.data_addr,
            failure: Box::new(failure),
            ranks: ranks.into(),
            text: text.into(),
            detail: detail.into(),
        }
    }

    fn why_aborted(&self, place: &Place) -> Option<String> {
        match self.heartbeat(place) {
            Ok(Pulse::Aborted(reason)) => Some(reason.text),
            Ok(Pulse::Ok | Pulse::UnknownJob | Pulse::Reform | Pulse::Excluded(_)) | Err(_) => None,
        }
    }

    /// What else is known of an aggregator that does not answer: what others said that might have taken over, packets that
    /// the kernel would not send, and whether its control service is there.
    fn why_silent(&self, place: &Place) -> String {
        if let Some(tries) = self.moves.tries() {
            return format!("; no aggregator has taken over: {tries}");
        }
        let unsent: Vec<_> = self.streams.iter().map(|stream| lock(stream).unsent()).collect();
        if let Some((count, Some(error))) = unsent.into_iter().find(|(count, _)| *count > 0) {
            return format!("; {count} packets could not be sent: {error}");
        }
        let immovable = self
            .immovable
            .map_or_else(String::new, |reason| format!("; {reason}"));
        match self.heartbeat(place) {
            Ok(Pulse::UnknownJob) => format!("; it was restarted and does not know the job{immovable}"),
            Ok(Pulse::Aborted(reason) | Pulse::Excluded(reason)) => {
                format!("; the job was aborted: {}", reason.text)
            }
            Ok(Pulse::Ok | Pulse::Reform) => {
                "; its control service does answer: does a firewall drop UDP between here and there?".into()
            }
            Err(error) => format!("; {error}{immovable}"),
        }
    }
}

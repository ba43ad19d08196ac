//! What an aggregator with a parent remembers of a world's registration there, and of a job's membership.

use std::time::{Duration, Instant};

use crate::messages::Member;

/// Registrations that come together make one call to the parent.
pub(super) const DEBOUNCE: Duration = Duration::from_millis(20);

/// How soon a call to a parent that did not answer is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// Ranks below a parent wait this much longer, for the parent's word about those that are missing: it comes about when
/// their own time is over.
pub(crate) const PARENTS_TURN: Duration = Duration::from_millis(300);

/// A world's registration at the parent.
#[derive(Debug)]
pub(super) struct Upward {
    /// Fixed for the world: a later call supersedes the earlier one.
    pub(super) nonce: u64,
    /// Changes with the seats.
    pub(super) version: u64,
    changed: Instant,
    /// The version that the parent was asked for.
    asked: Option<u64>,
    not_before: Instant,
    /// Since when the parent does not answer, and how.
    pub(super) silent: Option<(Instant, String)>,
    /// The job's last epoch at the parent; 0: unknown.
    pub(super) epoch: u32,
}

impl Upward {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            nonce: rand::random::<u64>().max(1),
            version: 0,
            changed: now,
            asked: None,
            not_before: now,
            silent: None,
            epoch: 0,
        }
    }

    /// The seats have changed: the parent has to be asked again.
    pub(super) fn touch(&mut self, now: Instant) {
        self.version += 1;
        self.changed = now;
    }

    /// The version to ask for, if it is time.
    pub(super) fn due(&mut self, now: Instant) -> Option<u64> {
        if self.asked == Some(self.version) || now < self.changed + DEBOUNCE || now < self.not_before {
            return None;
        }
        self.asked = Some(self.version);
        Some(self.version)
    }

    /// The call for this version came to nothing.
    pub(super) fn ask_again(&mut self, version: u64, now: Instant) {
        if self.asked == Some(version) {
            self.asked = None;
            self.not_before = now + RETRY;
        }
    }
}

/// A job's membership at the parent.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) member: Member,
    /// The job's epoch at the parent.
    pub(super) epoch: u32,
    /// When the parent answered last.
    pub(super) heard: Instant,
    pub(super) next_beat: Instant,
    /// A heartbeat is under way.
    pub(super) beating: bool,
}

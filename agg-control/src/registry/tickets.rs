//! Who waits for the outcome of a registration.

use std::collections::BTreeMap;

use super::Outcome;
use crate::refusal::Refusal;

/// A registration that was accepted and waits for the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

#[derive(Debug)]
enum Progress {
    Waiting { world: String },
    Done(Outcome),
}

/// All tickets whose outcome nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    open: BTreeMap<Ticket, Progress>,
    next: u64,
}

impl Tickets {
    pub(super) fn waiting(&mut self, world: &str) -> Ticket {
        self.add(Progress::Waiting { world: world.into() })
    }

    pub(super) fn done(&mut self, outcome: Outcome) -> Ticket {
        self.add(Progress::Done(outcome))
    }

    /// The world that a ticket waits for; none if it has its outcome.
    pub(super) fn world_of(&self, ticket: Ticket) -> Option<&str> {
        match self.open.get(&ticket) {
            Some(Progress::Waiting { world }) => Some(world),
            _ => None,
        }
    }

    /// Not for a ticket that was withdrawn: nobody would take the outcome.
    pub(super) fn finish(&mut self, ticket: Ticket, outcome: Outcome) {
        if let Some(progress) = self.open.get_mut(&ticket) {
            *progress = Progress::Done(outcome);
        }
    }

    pub(super) fn take(&mut self, ticket: Ticket) -> Outcome {
        match self.open.remove(&ticket) {
            Some(Progress::Done(outcome)) => outcome,
            // A ticket that waits belongs to a world, and one that was used up has no second outcome.
            _ => Err(Refusal::Malformed {
                what: "a registration was answered twice".into(),
            }),
        }
    }

    /// The world that it waited for.
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> Option<String> {
        match self.open.remove(&ticket) {
            Some(Progress::Waiting { world }) => Some(world),
            _ => None,
        }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    fn add(&mut self, progress: Progress) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.open.insert(ticket, progress);
        ticket
    }
}

//! Broken variants of the protocol: the proof that the checker can fail.
//!
//! The core holds no switch for any of this. A broken aggregator is an [`AggregatorMutation`] of a second, small
//! writing of the slot rules, which unbroken passes all that the real one passes; a broken worker is the real one
//! behind a [`WorkerFilter`] that changes what it hears or says.

mod aggregator;
mod leaf;
mod slot;
mod worker;

pub use aggregator::AggregatorMutation;
pub use slot::Generation;
pub use worker::{WorkerFilter, WorkerMutation};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mutation {
    /// By the aggregators.
    Aggregator(AggregatorMutation),
    /// By all workers.
    Worker(WorkerMutation),
}

impl Mutation {
    /// The aggregators' part.
    pub fn aggregator(self) -> Option<AggregatorMutation> {
        match self {
            Self::Aggregator(mutation) => Some(mutation),
            Self::Worker(_) => None,
        }
    }

    /// The workers' part.
    pub fn worker(self) -> Option<WorkerMutation> {
        match self {
            Self::Aggregator(_) => None,
            Self::Worker(mutation) => Some(mutation),
        }
    }
}

//! Broken variants of the protocol: the proof that the checker can fail.
//!
//! The core holds no switch for any of this. A broken aggregator is an [`AggregatorMutation`] of a second, small
//! writing of the slot rules, which unbroken passes all that the real one passes; a broken worker is the real one
//! behind a [`WorkerFilter`] that changes what it hears or says, and so is an aggregator that uses its store wrongly
//! ([`SpillMutation`]).

mod aggregator;
mod leaf;
mod slot;
mod spill;
mod worker;

pub use aggregator::AggregatorMutation;
pub use slot::Generation;
pub use spill::SpillMutation;
pub use worker::{WorkerFilter, WorkerMutation};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mutation {
    /// By the aggregators.
    Aggregator(AggregatorMutation),
    /// By all workers.
    Worker(WorkerMutation),
    /// By the aggregators, in what they do with a store.
    Spill(SpillMutation),
}

impl Mutation {
    /// The aggregators' part.
    pub fn aggregator(self) -> Option<AggregatorMutation> {
        match self {
            Self::Aggregator(mutation) => Some(mutation),
            Self::Worker(_) | Self::Spill(_) => None,
        }
    }

    /// The workers' part.
    pub fn worker(self) -> Option<WorkerMutation> {
        match self {
            Self::Aggregator(_) | Self::Spill(_) => None,
            Self::Worker(mutation) => Some(mutation),
        }
    }

    /// The part of aggregators with a store.
    pub fn spill(self) -> Option<SpillMutation> {
        match self {
            Self::Spill(mutation) => Some(mutation),
            Self::Aggregator(_) | Self::Worker(_) => None,
        }
    }
}

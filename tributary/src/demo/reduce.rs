//! What training needs from the network: one sum.

use std::convert::Infallible;

/// Sums vectors over all workers.
pub trait AllReduce {
    /// Why a sum failed.
    type Error;

    /// Replaces `gradient` by the sum, element by element, of every worker's. Every worker calls it for the
    /// same step with the same length, and must receive the same bits.
    fn sum(&mut self, gradient: &mut [f32]) -> Result<(), Self::Error>;

    /// Whether this worker is behind the others: its next vector is zeros, so that it catches up, instead of a gradient that
    /// would be late too.
    fn is_behind(&self) -> bool {
        false
    }
}

/// One process alone: the sum is its own vector.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoReduce;

impl AllReduce for NoReduce {
    type Error = Infallible;

    fn sum(&mut self, _gradient: &mut [f32]) -> Result<(), Infallible> {
        Ok(())
    }
}

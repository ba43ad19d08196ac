//! Sums that are submitted several at a time, as a training job does with its buckets.

use agg_worker::Communicator;

use super::element::{BenchElement, Expected};
use super::figures::RankFigures;
use super::setup::Setup;
use super::sums::{Size, Sums, check_sum, look, timed};
use crate::failure::Failure;

/// Sums of all ranks, in the background.
pub struct Submitted<'a, E> {
    size: Size<'a>,
    tensors: Vec<Vec<E>>,
    iteration: u32,
}

impl<'a, E: BenchElement> Submitted<'a, E> {
    /// As many tensors of zeros so far as are to be in flight.
    pub fn new(size: Size<'a>) -> Result<Self, Failure> {
        Ok(Self {
            size,
            tensors: Self::tensors(size)?,
            iteration: 0,
        })
    }

    fn tensors(size: Size<'a>) -> Result<Vec<Vec<E>>, Failure> {
        (0..size.setup.in_flight).map(|_| size.zeros()).collect()
    }
}

impl<E: BenchElement + 'static> Sums for Submitted<'_, E> {
    /// All of them; each counts with its share of the time.
    fn iterate(&mut self, world: &mut Communicator, figures: &mut RankFigures) -> Result<(), Failure> {
        let Setup { rank, reduce, .. } = *self.size.setup;
        let iteration = self.iteration;
        self.iteration += 1;
        if self.tensors.is_empty() {
            // They went with ranks that were lost.
            self.tensors = Self::tensors(self.size)?;
        }
        for tensor in &mut self.tensors {
            super::element::fill(tensor, rank, iteration);
        }
        world.barrier()?;
        let options = reduce.options();
        let tensors = std::mem::take(&mut self.tensors);
        let count = tensors.len() as u32; // 1 to 64
        let submit = |world: &mut Communicator| {
            let pending: Vec<_> = tensors
                .into_iter()
                .map(|tensor| world.submit_with(tensor, options))
                .collect();
            pending.into_iter().map(agg_worker::Pending::wait).collect()
        };
        self.tensors = timed(world, figures, submit)?;
        if let Some(together) = figures.times.pop() {
            figures
                .times
                .extend(std::iter::repeat_n(together / count, count as usize));
        }
        figures.gradients += u64::from(count);
        let ranks = world.ranks();
        let expected = Expected {
            options,
            ranks: &ranks,
            iteration,
        };
        self.tensors
            .iter()
            .try_for_each(|tensor| check_sum(self.size, tensor, expected, look(iteration)))
    }
}

//! One iteration: a sum, timed and checked.

use std::time::Instant;

use agg_worker::{Communicator, Feedback};

use super::element::{BenchElement, Expected, Look, check, fill};
use super::figures::RankFigures;
use super::marked::{Layout, Ledger};
use super::setup::Setup;
use crate::args::PolicyArg;
use crate::cpu::process_time;
use crate::failure::Failure;

/// Sums one tensor again and again.
pub trait Sums {
    /// One timed sum, checked afterwards: the first one whole.
    fn iterate(&mut self, world: &mut Communicator, figures: &mut RankFigures) -> Result<(), Failure>;
}

/// A size as it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Size<'a> {
    pub setup: &'a Setup,
    pub bytes: u64,
}

impl Size<'_> {
    /// A tensor of zeros; too large a one is an error, not an abort.
    pub(super) fn zeros<E: BenchElement>(self) -> Result<Vec<E>, Failure> {
        let memory = || Failure::Memory { bytes: self.bytes };
        let elements = usize::try_from(self.bytes).map_err(|_| memory())? / size_of::<E>();
        let mut tensor = Vec::new();
        tensor.try_reserve_exact(elements).map_err(|_| memory())?;
        tensor.resize(elements, E::default());
        Ok(tensor)
    }

    /// What the rank that is slow on purpose has to do before it has a gradient.
    fn compute(self) {
        if let Some(straggler) = self.setup.straggler {
            straggler.compute(self.setup.rank);
        }
    }
}

/// Runs one sum and adds what it took.
pub(super) fn timed<T>(
    world: &mut Communicator,
    figures: &mut RankFigures,
    sum: impl FnOnce(&mut Communicator) -> Result<T, agg_worker::Error>,
) -> Result<T, Failure> {
    let (stats, cpu) = (world.stats(), process_time());
    let started = Instant::now();
    let summed = sum(world)?;
    figures.times.push(started.elapsed());
    figures.cpu += process_time().saturating_sub(cpu);
    let after = world.stats();
    figures.packets += after.packets_sent - stats.packets_sent;
    figures.resends += after.resends - stats.resends;
    figures.marked += after.marked - stats.marked;
    figures.decreases += after.congestion_decreases - stats.congestion_decreases;
    figures.congestion_window = u64::from(after.congestion_window);
    figures.busy += after.busy - stats.busy;
    figures.stalled += after.stalled - stats.stalled;
    Ok(summed)
}

/// The first sum is looked at whole.
pub(super) fn look(iteration: u32) -> Look {
    if iteration == 0 { Look::Full } else { Look::Sampled }
}

/// Sums of all ranks.
pub struct Whole<'a, E> {
    size: Size<'a>,
    tensor: Vec<E>,
    iteration: u32,
}

impl<'a, E: BenchElement> Whole<'a, E> {
    /// Of zeros so far.
    pub fn new(size: Size<'a>) -> Result<Self, Failure> {
        let tensor = size.zeros()?;
        let iteration = 0;
        Ok(Self {
            size,
            tensor,
            iteration,
        })
    }
}

impl<E: BenchElement> Sums for Whole<'_, E> {
    fn iterate(&mut self, world: &mut Communicator, figures: &mut RankFigures) -> Result<(), Failure> {
        let Setup { rank, straggler, .. } = *self.size.setup;
        let iteration = self.iteration;
        // Also where ranks are lost meanwhile: all of them count alike.
        self.iteration += 1;
        fill(&mut self.tensor, rank, iteration);
        match straggler {
            // What it costs the others is to be seen.
            Some(_) => self.size.compute(),
            None => world.barrier()?,
        }
        let options = self.size.setup.reduce.options();
        timed(world, figures, |world| {
            world.all_reduce_with(&mut self.tensor, options)
        })?;
        figures.gradients += 1;
        let ranks = world.ranks();
        let expected = Expected {
            options,
            ranks: &ranks,
            iteration,
        };
        check_sum(self.size, &self.tensor, expected, look(iteration))
    }
}

/// Whether a tensor is the sum of what the ranks gave.
pub(super) fn check_sum<E: BenchElement>(
    size: Size<'_>,
    tensor: &[E],
    expected: Expected<'_>,
    look: Look,
) -> Result<(), Failure> {
    check(tensor, expected, look).map_err(|wrong| Failure::WrongSum {
        rank: size.setup.rank,
        iteration: expected.iteration,
        bytes: size.bytes,
        index: wrong.index,
        found: wrong.found.to_string(),
        expected: match wrong.within {
            0.0 => wrong.expected.to_string(),
            within => format!("{} within {within:.1e}", wrong.expected),
        },
    })
}

/// Sums under a quorum. Nothing holds the ranks together between two sums: those that are late walk behind the others.
pub struct Partial<'a> {
    size: Size<'a>,
    layout: Layout,
    tensor: Vec<f32>,
    feedback: Feedback,
    ledger: Ledger,
    least: u32,
    /// The last sum had nothing of this rank's: it is behind.
    late: bool,
    gradients: u32,
    iteration: u32,
}

impl<'a> Partial<'a> {
    /// Of zeros so far.
    pub fn new(size: Size<'a>, members: u8, lanes: u32) -> Result<Self, Failure> {
        let tensor = size.zeros::<f32>()?;
        let layout = Layout {
            ranks: size.setup.size,
            lanes: lanes as usize,
        };
        // A quorum of those that are left is enough where ranks may be lost.
        let least = match size.setup.terms.on_lost {
            crate::args::OnLostArg::Abort => u32::from(members).min(layout.ranks),
            crate::args::OnLostArg::Shrink => 1,
        };
        Ok(Self {
            feedback: Feedback::new(tensor.len()),
            ledger: Ledger::new(layout, least, tensor.len()),
            size,
            layout,
            tensor,
            least,
            late: false,
            gradients: 0,
            iteration: 0,
        })
    }
}

impl Sums for Partial<'_> {
    fn iterate(&mut self, world: &mut Communicator, figures: &mut RankFigures) -> Result<(), Failure> {
        let Setup { rank, size, .. } = *self.size.setup;
        let iteration = self.iteration;
        self.iteration += 1;
        if self.late {
            self.tensor.fill(0.0);
        } else {
            self.size.compute();
            self.layout.fill(&mut self.tensor, rank, self.gradients);
            self.gradients += 1;
            figures.gradients += 1;
        }
        let contribution = timed(world, figures, |world| {
            world.all_reduce_with_feedback(&mut self.tensor, &mut self.feedback)
        })?;
        self.late = contribution.was_late();
        figures.chunks += contribution.chunks;
        figures.late_chunks += contribution.late;
        figures.late_operations += u64::from(self.late);
        figures.add_digest(self.tensor.iter().map(|value| value.to_bits()));
        let checked = self.ledger.check(&self.tensor, look(iteration));
        checked.map_err(|wrong| Failure::WrongQuorum {
            rank,
            iteration,
            bytes: self.size.bytes,
            first: wrong.first,
            last: wrong.last,
            least: self.least,
            ranks: size,
        })
    }
}

/// The members that a sum of this type needs at least, if it need not have all.
pub fn quorum(setup: &Setup) -> Option<u8> {
    match setup.terms.policy {
        PolicyArg::Quorum { members, .. } if setup.is_scaled() => Some(members),
        _ => None,
    }
}

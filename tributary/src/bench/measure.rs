//! What one rank of a benchmark does.

use std::time::{Duration, Instant};

use agg_worker::Communicator;

use super::element::{BenchElement, Look, check, fill};
use super::gather::gather;
use super::report::{Message, RankFigures, SizeReport};
use super::setup::{Dtype, Setup};
use crate::cpu::process_time;
use crate::failure::Failure;

/// How long the iterations of a size take together where nobody says how many.
const AUTO_TIME: Duration = Duration::from_secs(2);
const AUTO_LEAST: u128 = 5;
const AUTO_MOST: u128 = 1000;

/// Joins the world and measures every size. Every rank says the same at the same points; `go_on` is asked after each
/// iteration.
pub fn measure(
    setup: &Setup,
    go_on: impl Fn() -> Result<(), Failure>,
    mut say: impl FnMut(Message) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut world = Communicator::connect(setup.config())?;
    for &bytes in &setup.bytes {
        match setup.dtype {
            Dtype::F32 => size::<f32>(setup, bytes, &mut world, &go_on, &mut say)?,
            Dtype::I32 => size::<i32>(setup, bytes, &mut world, &go_on, &mut say)?,
        }
    }
    Ok(world.close()?)
}

fn size<E: BenchElement>(
    setup: &Setup,
    bytes: u64,
    world: &mut Communicator,
    go_on: impl Fn() -> Result<(), Failure>,
    mut say: impl FnMut(Message) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut run = SizeRun::<E> {
        setup,
        bytes,
        tensor: zeros(bytes)?,
        world,
        iteration: 0,
    };
    let mut warm = RankFigures::default();
    // Without a measured time there is nothing to choose a number by.
    let warmup = setup.warmup.max(u32::from(setup.iterations.is_none()));
    for _ in 0..warmup {
        run.iterate(&mut warm)?;
        go_on()?;
    }
    let iterations = match setup.iterations {
        Some(iterations) => iterations,
        None => run.agree(warm.times.last().copied().unwrap_or_default())?,
    };
    say(Message::Timing)?;
    let mut figures = RankFigures::default();
    for _ in 0..iterations {
        run.iterate(&mut figures)?;
        go_on()?;
    }
    let all = gather(run.world, &figures.to_numbers())?;
    say(Message::Size(SizeReport::new(
        setup,
        bytes,
        &all,
        &run.world.stats(),
    )))
}

/// A tensor of zeros; too large a one is an error, not an abort.
fn zeros<E: BenchElement>(bytes: u64) -> Result<Vec<E>, Failure> {
    let elements = usize::try_from(bytes).map_err(|_| Failure::Memory { bytes })? / size_of::<E>();
    let mut tensor = Vec::new();
    tensor
        .try_reserve_exact(elements)
        .map_err(|_| Failure::Memory { bytes })?;
    tensor.resize(elements, E::default());
    Ok(tensor)
}

struct SizeRun<'a, E> {
    setup: &'a Setup,
    bytes: u64,
    tensor: Vec<E>,
    world: &'a mut Communicator,
    /// Counts warm-up too.
    iteration: u32,
}

impl<E: BenchElement> SizeRun<'_, E> {
    /// One timed sum, checked afterwards: the first one whole.
    fn iterate(&mut self, figures: &mut RankFigures) -> Result<(), Failure> {
        fill(&mut self.tensor, self.setup.rank, self.iteration);
        self.world.barrier()?;
        let (stats, cpu) = (self.world.stats(), process_time());
        let started = Instant::now();
        self.world.all_reduce(&mut self.tensor)?;
        figures.times.push(started.elapsed());
        figures.cpu += process_time().saturating_sub(cpu);
        let after = self.world.stats();
        figures.packets += after.packets_sent - stats.packets_sent;
        figures.resends += after.resends - stats.resends;
        let look = if self.iteration == 0 {
            Look::Full
        } else {
            Look::Sampled
        };
        check(&self.tensor, self.setup.size, self.iteration, look).map_err(|wrong| Failure::WrongSum {
            rank: self.setup.rank,
            iteration: self.iteration,
            bytes: self.bytes,
            index: wrong.index,
            found: wrong.found.to_string(),
            expected: wrong.expected.to_string(),
        })?;
        self.iteration += 1;
        Ok(())
    }

    /// How many iterations fill the time, by the slowest rank's last one: the same answer on every rank.
    fn agree(&mut self, mine: Duration) -> Result<u32, Failure> {
        let all = gather(self.world, &[mine.as_nanos() as u64])?;
        let slowest = all.iter().flatten().copied().max().unwrap_or(0).max(1);
        let fitting = AUTO_TIME.as_nanos() / u128::from(slowest);
        Ok(fitting.clamp(AUTO_LEAST, AUTO_MOST) as u32)
    }
}

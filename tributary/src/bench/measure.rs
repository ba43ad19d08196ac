//! What one rank of a benchmark does.

use std::time::Duration;

use agg_worker::{Communicator, Error};
use half::{bf16, f16};

use super::element::BenchElement;
use super::figures::RankFigures;
use super::gather::gather;
use super::report::{Message, SizeReport};
use super::setup::{Dtype, Setup};
use super::submitted::Submitted;
use super::sums::{Partial, Size, Sums, Whole, quorum};
use crate::failure::Failure;

/// How long the iterations of a size take together where nobody says how many.
const AUTO_TIME: Duration = Duration::from_secs(2);
const AUTO_LEAST: u128 = 5;
const AUTO_MOST: u128 = 1000;

/// Joins the world and measures every size. Every rank says the same at the same points; `go_on` is asked when it has joined,
/// and after each iteration.
pub fn measure(
    setup: &Setup,
    go_on: impl Fn() -> Result<(), Failure>,
    say: impl FnMut(Message) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut world = Communicator::connect(setup.config())?;
    go_on()?;
    let lanes = world.stats().lanes;
    let mut measuring = Measuring {
        world: &mut world,
        go_on,
        say,
    };
    for &bytes in &setup.bytes {
        let size = Size { setup, bytes };
        match (quorum(setup), setup.dtype) {
            (Some(members), _) => measuring.size(size, &mut Partial::new(size, members, lanes)?)?,
            (None, Dtype::F32) => measuring.whole::<f32>(size)?,
            (None, Dtype::I32) => measuring.whole::<i32>(size)?,
            (None, Dtype::F16) => measuring.whole::<f16>(size)?,
            (None, Dtype::Bf16) => measuring.whole::<bf16>(size)?,
        }
    }
    Ok(world.close()?)
}

struct Measuring<'a, G, S> {
    world: &'a mut Communicator,
    go_on: G,
    say: S,
}

impl<G: Fn() -> Result<(), Failure>, S: FnMut(Message) -> Result<(), Failure>> Measuring<'_, G, S> {
    fn whole<E: BenchElement + 'static>(&mut self, size: Size<'_>) -> Result<(), Failure> {
        match size.setup.in_flight {
            0 | 1 => self.size(size, &mut Whole::<E>::new(size)?),
            _ => self.size(size, &mut Submitted::<E>::new(size)?),
        }
    }

    fn size(&mut self, size: Size<'_>, sums: &mut impl Sums) -> Result<(), Failure> {
        let Size { setup, bytes } = size;
        // Without a measured time there is nothing to choose a number by.
        let warmup = setup.warmup.max(u32::from(setup.iterations.is_none()));
        let warm = self.iterate(sums, warmup)?;
        let iterations = match setup.iterations {
            Some(iterations) => iterations,
            None => self.agree(setup, warm.times.last().copied().unwrap_or_default())?,
        };
        (self.say)(Message::Timing)?;
        let figures = self.iterate(sums, iterations)?;
        let all = gather(self.world, setup.size, &figures.to_numbers())?;
        let report = SizeReport::new(setup, bytes, &all, &self.world.stats())?;
        // One rank shows the figures: the first that is left.
        let shows = report
            .per_rank
            .first()
            .is_some_and(|first| first.rank == setup.rank);
        if shows {
            (self.say)(Message::Size(Box::new(report)))?;
        }
        Ok(())
    }

    /// So many sums; of those that end without a result, since ranks were lost, nothing is kept.
    fn iterate(&mut self, sums: &mut impl Sums, iterations: u32) -> Result<RankFigures, Failure> {
        let mut figures = RankFigures::default();
        for _ in 0..iterations {
            match sums.iterate(self.world, &mut figures) {
                Err(Failure::Rank(error)) => match *error {
                    Error::RanksLost { lost, left, .. } => (self.say)(Message::Lost { lost, left })?,
                    error => return Err(error.into()),
                },
                outcome => outcome?,
            }
            (self.go_on)()?;
        }
        Ok(figures)
    }

    /// How many iterations fill the time, by the slowest rank's last one: the same answer on every rank.
    fn agree(&mut self, setup: &Setup, mine: Duration) -> Result<u32, Failure> {
        let all = gather(self.world, setup.size, &[mine.as_nanos() as u64])?;
        let slowest = all.iter().flatten().copied().max().unwrap_or(0).max(1);
        let fitting = AUTO_TIME.as_nanos() / u128::from(slowest);
        Ok(fitting.clamp(AUTO_LEAST, AUTO_MOST) as u32)
    }
}

//! One rank, in a process of its own: the test program once more.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::time::Duration;

use agg_worker::{Communicator, Config, Error, LocalGroup, OnLost, Policy};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use udp_io::{FaultConfig, Probability};

use crate::Work;

/// Names the variable with what a rank is told.
pub(crate) const TOLD: &str = "TRIBUTARY_TEST_RANK";

/// Under a quorum the others are waited for so long.
const GRACE: Duration = Duration::from_millis(5);

/// What a rank is told.
#[derive(Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) work: Work,
    pub(crate) rank: u32,
    pub(crate) aggregators: Vec<String>,
}

impl Told {
    fn config(&self) -> Config {
        let Work {
            world, ranks, loss, ..
        } = &self.work;
        Config {
            aggregators: self.aggregators.clone(),
            local: LocalGroup::from_environment(self.rank, *ranks),
            timeout: Duration::from_secs(30),
            failover_after: Duration::from_millis(500),
            lanes: self.work.lanes,
            window: self.work.window,
            policy: self.work.quorum.map_or(Policy::All, |members| Policy::Quorum {
                members,
                grace: GRACE,
                history_bytes: 8 << 20,
            }),
            on_lost: if self.work.shrinks {
                OnLost::Shrink
            } else {
                OnLost::Abort
            },
            faults: FaultConfig {
                loss: Probability::new(f64::from(*loss) / 100.0).expect("a share"),
                seed: u64::from(self.rank),
                ..FaultConfig::default()
            },
            ..Config::new(world, self.rank, *ranks)
        }
    }
}

/// Nothing where this process is no rank. Else it works as one, and prints `sum <operation> <digest>` for each result,
/// `lost <operation> <ranks>` where one ended since ranks were lost, and `error <text>` at the end of all.
pub fn run_if_rank() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let told: Told = serde_json::from_str(&told).expect("what a rank is told");
    if let Err(error) = run(&told) {
        say(&format!("error {error}"));
    }
}

fn run(told: &Told) -> Result<(), Error> {
    let work = &told.work;
    let mut world = Communicator::connect(told.config())?;
    for operation in 0..work.operations as u32 {
        if let Some((_, pause)) = work.slow.filter(|(rank, _)| *rank == told.rank) {
            std::thread::sleep(Duration::from_millis(pause));
        }
        let length = work.lengths[operation as usize / 2 % work.lengths.len()];
        let done = if operation % 2 == 0 {
            floats(&mut world, operation, length)
        } else {
            integers(&mut world, operation, length, work.doomed)
        };
        match done {
            Ok(digest) => say(&format!("sum {operation} {digest:016x}")),
            Err(Error::RanksLost { lost, .. }) => say(&format!("lost {operation} {lost:?}")),
            Err(error) => return Err(error),
        }
        if operation % 2 == 1 {
            match world.barrier() {
                Ok(()) => {}
                Err(Error::RanksLost { lost, .. }) => {
                    say(&format!("lost {operation}, its barrier, {lost:?}"))
                }
                Err(error) => return Err(error),
            }
        }
    }
    world.close()
}

fn say(line: &str) {
    // A line break first: the test harness may be in the middle of a line of its own.
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "\n{line}\n").and_then(|()| out.flush());
}

fn random(operation: u32, rank: u32) -> SmallRng {
    SmallRng::seed_from_u64(u64::from(operation) << 32 | u64::from(rank))
}

/// Of many magnitudes: every bit of the sum depends on how it is made.
fn floats(world: &mut Communicator, operation: u32, length: usize) -> Result<u64, Error> {
    let mut random = random(operation, world.rank());
    let mut value = || random.random_range(-1.0..1.0_f32) * 2_f32.powi(random.random_range(-30..30));
    let mut values: Vec<f32> = (0..length).map(|_| value()).collect();
    world.all_reduce(&mut values)?;
    Ok(digest(values.into_iter().map(f32::to_bits)))
}

/// These sums are known exactly.
fn integers(
    world: &mut Communicator,
    operation: u32,
    length: usize,
    doomed: Option<u32>,
) -> Result<u64, Error> {
    let of = |rank: u32| {
        let mut random = random(operation, rank);
        (0..length).map(move |_| random.random::<i32>())
    };
    let mut sum = vec![0_i32; length];
    for rank in world.ranks() {
        sum.iter_mut()
            .zip(of(rank))
            .for_each(|(sum, value)| *sum = sum.wrapping_add(value));
    }
    let without = doomed.map(|rank| {
        let rest = sum.iter().zip(of(rank));
        rest.map(|(sum, value)| sum.wrapping_sub(value))
            .collect::<Vec<_>>()
    });
    let mut values: Vec<i32> = of(world.rank()).collect();
    world.all_reduce(&mut values)?;
    let is_right = |index: &usize| {
        let value = values[*index];
        value == sum[*index] || without.as_ref().is_some_and(|without| value == without[*index])
    };
    if let Some(index) = (0..length).find(|index| !is_right(index)) {
        say(&format!("error operation {operation}: element {index} is wrong"));
    }
    Ok(digest(values.into_iter().map(i32::cast_unsigned)))
}

fn digest(bits: impl Iterator<Item = u32>) -> u64 {
    let mut hasher = DefaultHasher::new();
    bits.for_each(|bits| bits.hash(&mut hasher));
    hasher.finish()
}

//! What the ranks of these tests do: many small all-reduces, each known by its number.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use agg_worker::{Communicator, Config};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

pub const OPERATIONS: usize = 100;
pub const LANES: usize = 256;
pub const WINDOW: usize = 8;

/// Nothing here may take longer.
const LIMIT: Duration = Duration::from_secs(90);

/// The tensors of one test, the same whenever they are made.
#[derive(Clone, Copy)]
pub struct Work {
    pub seed: u64,
    pub ranks: u32,
}

/// The bits of a tensor, before or after.
pub type Bits = Vec<u32>;

impl Work {
    fn random(self, operation: usize, salt: u32) -> SmallRng {
        SmallRng::seed_from_u64(self.seed << 32 | (operation as u64) << 8 | u64::from(salt))
    }

    /// From nothing over a part of a chunk to several windows, sometimes enough for two streams.
    pub fn len(self, operation: usize) -> usize {
        let mut random = self.random(operation, 255);
        match random.random_range(0..8) {
            0 => 0,
            1 => 1,
            2 | 3 => random.random_range(2..LANES),
            4 | 5 => random.random_range(LANES..3 * WINDOW * LANES),
            6 => 4 * WINDOW * LANES,
            _ => random.random_range(128 * LANES..160 * LANES),
        }
    }

    pub fn is_float(self, operation: usize) -> bool {
        operation % 2 == 1
    }

    pub fn integers(self, operation: usize, rank: u32) -> Vec<i32> {
        let mut random = self.random(operation, rank);
        (0..self.len(operation)).map(|_| random.random()).collect()
    }

    /// Of many magnitudes: every bit of the sum depends on how it is made.
    pub fn floats(self, operation: usize, rank: u32) -> Vec<f32> {
        let mut random = self.random(operation, rank);
        let mut value = || random.random_range(-1.0..1.0_f32) * 2_f32.powi(random.random_range(-30..30));
        (0..self.len(operation)).map(|_| value()).collect()
    }

    /// One operation; its result.
    pub fn reduce(self, world: &mut Communicator, operation: usize) -> Result<Bits, agg_worker::Error> {
        let rank = world.rank();
        if self.is_float(operation) {
            let mut values = self.floats(operation, rank);
            if operation % 8 == 1 {
                values = world.submit(values).wait()?;
            } else {
                world.all_reduce(&mut values)?;
            }
            return Ok(values.into_iter().map(f32::to_bits).collect());
        }
        let mut values = self.integers(operation, rank);
        world.all_reduce(&mut values)?;
        Ok(values.into_iter().map(i32::cast_unsigned).collect())
    }

    /// What sums of integers are, exactly.
    pub fn sum(self, operation: usize, ranks: impl Iterator<Item = u32>) -> Bits {
        let mut sum = vec![0_i32; self.len(operation)];
        for rank in ranks {
            for (sum, value) in sum.iter_mut().zip(self.integers(operation, rank)) {
                *sum = sum.wrapping_add(value);
            }
        }
        sum.into_iter().map(i32::cast_unsigned).collect()
    }

    /// All operations on every rank of a world, with pauses between some, then the end of it. Begins when `all_here`, of one
    /// thread more than there are ranks, is full.
    pub fn run_all(self, all_here: &Arc<Barrier>, configure: impl Fn(u32) -> Config) -> Vec<Vec<Bits>> {
        let all_here = Arc::clone(all_here);
        let results = self.on_every_rank(configure, move |mut world| {
            all_here.wait();
            let mut random = self.random(OPERATIONS, world.rank());
            let results = (0..OPERATIONS)
                .map(|operation| {
                    if random.random_ratio(1, 8) {
                        thread::sleep(Duration::from_millis(random.random_range(0..20)));
                    }
                    self.reduce(&mut world, operation)
                        .unwrap_or_else(|error| panic!("seed {}, operation {operation}: {error}", self.seed))
                })
                .collect::<Vec<_>>();
            world
                .close()
                .unwrap_or_else(|error| panic!("seed {}, at the end: {error}", self.seed));
            results
        });
        for (rank, results) in results.iter().enumerate() {
            for operation in (0..OPERATIONS).filter(|operation| !self.is_float(*operation)) {
                assert!(
                    results[operation] == self.sum(operation, 0..self.ranks),
                    "seed {}, operation {operation}: rank {rank} has another sum",
                    self.seed
                );
            }
        }
        results
    }

    /// Runs `body` on every rank of a world, each on a thread. One that hangs is an error after a while.
    pub fn on_every_rank<T: Send + 'static>(
        self,
        configure: impl Fn(u32) -> Config,
        body: impl Fn(Communicator) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let ranks = (0..self.ranks).map(configure);
        run_ranks(ranks.collect(), body)
    }
}

/// As [`Work::on_every_rank`], for some ranks.
pub fn run_ranks<T: Send + 'static>(
    ranks: Vec<Config>,
    body: impl Fn(Communicator) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let (done, outcome) = channel();
    let count = ranks.len();
    let threads: Vec<_> = ranks
        .into_iter()
        .enumerate()
        .map(|(index, config)| {
            let (done, body) = (done.clone(), body.clone());
            thread::spawn(move || {
                let world = Communicator::connect(config).unwrap();
                let _ = done.send((index, body(world)));
            })
        })
        .collect();
    drop(done);
    let deadline = Instant::now() + LIMIT;
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    while results.iter().any(Option::is_none) {
        let left = deadline.saturating_duration_since(Instant::now());
        match outcome.recv_timeout(left) {
            Ok((index, result)) => results[index] = Some(result),
            Err(_) => {
                assert!(!left.is_zero(), "a rank hangs");
                break;
            }
        }
    }
    for thread in threads {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
    results.into_iter().flatten().collect()
}

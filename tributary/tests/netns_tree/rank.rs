//! One rank, in a process and a namespace of its own: this test program once more.

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use agg_worker::{Communicator, Config};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use testnet::Host;
use udp_io::{FaultConfig, Probability};

const TOLD: &str = "TRIBUTARY_TREE_RANK";

/// What the ranks of a world do: sums of f32 and of i32 by turns, of these lengths.
#[derive(Clone, Copy)]
pub struct Work {
    pub world: &'static str,
    pub ranks: u32,
    pub lengths: &'static [usize],
    pub operations: usize,
    /// Per cent of packets lost, each way.
    pub loss: u32,
}

impl Work {
    /// The command of a rank that knows these aggregators.
    pub fn command(&self, rank: u32, host: &Host, aggregators: &[&Host]) -> Command {
        let lengths = join(self.lengths);
        let aggregators = join(aggregators.iter().map(|host| format!("{}:4600", host.address())));
        let Self {
            world,
            ranks,
            operations,
            loss,
            ..
        } = self;
        let mut command = host.command(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "rank::rank", "--ignored", "--nocapture"])
            .env(
                TOLD,
                format!("{world} {rank} {ranks} {operations} {loss} {lengths} {aggregators}"),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }
}

fn join<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(",")
}

/// Not a test: the process of a rank. It prints `sum <operation> <digest>`, or `error <text>`.
#[test]
#[ignore = "a rank of another test"]
fn rank() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let [world, rank, ranks, operations, loss, lengths, aggregators] = told[..] else {
        panic!("{told:?}")
    };
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let (rank, ranks) = (number(rank), number(ranks));
    let lengths: Vec<usize> = lengths
        .split(',')
        .map(|length| length.parse().expect("a length"))
        .collect();
    let config = Config {
        aggregators: aggregators.split(',').map(str::to_owned).collect(),
        timeout: Duration::from_secs(30),
        failover_after: Duration::from_millis(500),
        faults: FaultConfig {
            loss: Probability::new(f64::from(number(loss)) / 100.0).expect("a share"),
            seed: u64::from(rank),
            ..FaultConfig::default()
        },
        ..Config::new(world, rank, ranks)
    };
    let ended = (|| {
        let mut world = Communicator::connect(config)?;
        for operation in 0..number(operations) {
            let length = lengths[operation as usize / 2 % lengths.len()];
            let digest = if operation % 2 == 0 {
                floats(&mut world, operation, length)
            } else {
                integers(&mut world, operation, length)
            }?;
            say(&format!("sum {operation} {digest:016x}"));
        }
        world.close()
    })();
    if let Err(error) = ended {
        say(&format!("error {error}"));
    }
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
fn floats(world: &mut Communicator, operation: u32, length: usize) -> Result<u64, agg_worker::Error> {
    let mut random = random(operation, world.rank());
    let mut value = || random.random_range(-1.0..1.0_f32) * 2_f32.powi(random.random_range(-30..30));
    let mut values: Vec<f32> = (0..length).map(|_| value()).collect();
    world.all_reduce(&mut values)?;
    Ok(digest(values.into_iter().map(f32::to_bits)))
}

/// These sums are known exactly.
fn integers(world: &mut Communicator, operation: u32, length: usize) -> Result<u64, agg_worker::Error> {
    let all = world.ranks().into_iter().map(|rank| {
        let mut random = random(operation, rank);
        (0..length).map(|_| random.random()).collect::<Vec<i32>>()
    });
    let all: Vec<_> = all.collect();
    let mut values = all[world.rank() as usize].clone();
    world.all_reduce(&mut values)?;
    let sum = |index: usize| {
        all.iter()
            .fold(0_i32, |sum, values| sum.wrapping_add(values[index]))
    };
    let wrong = (0..length).find(|&index| values[index] != sum(index));
    if let Some(index) = wrong {
        say(&format!("error operation {operation}: element {index} is wrong"));
    }
    Ok(digest(values.into_iter().map(i32::cast_unsigned)))
}

fn digest(bits: impl Iterator<Item = u32>) -> u64 {
    let mut hasher = DefaultHasher::new();
    bits.for_each(|bits| bits.hash(&mut hasher));
    hasher.finish()
}

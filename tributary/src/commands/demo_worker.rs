//! One worker process of a demo.

use std::time::Duration;

use agg_worker::{Communicator, Config};
use serde::{Deserialize, Serialize};
use tributary::demo::{
    AllReduce, Traffic, TrainConfig, WorkerMessage, WorkerReport, initial_parameters, train,
};
use udp_io::{FaultConfig, Probability};

use crate::child;
use crate::failure::Failure;

/// The command's name, for the parent.
pub const NAME: &str = "demo-worker";

/// What the parent tells a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// This worker.
    pub rank: usize,
    /// Number of workers.
    pub workers: usize,
    /// The world's name.
    pub world: String,
    /// The aggregator, `host:port`, and those that take over from it.
    pub aggregators: Vec<String>,
    /// What to train.
    pub train: TrainConfig,
    /// Share of packets to lose in each direction, 0..=1.
    pub loss: f64,
    /// How long to wait for the aggregator or another worker.
    pub timeout: Duration,
}

/// The sum over the network.
struct Network<'a>(&'a mut Communicator);

impl AllReduce for Network<'_> {
    type Error = Failure;

    fn sum(&mut self, gradient: &mut [f32]) -> Result<(), Failure> {
        Ok(self.0.all_reduce(gradient)?)
    }
}

/// Joins the world, trains, and reports.
pub fn run() -> Result<(), Failure> {
    let setup: Setup = child::setup()?;
    let mut world = Communicator::connect(config(&setup))?;
    check_start(&mut world, &setup)?;
    let before = world.stats();
    let outcome = train(
        &setup.train,
        setup.rank,
        setup.workers,
        &mut Network(&mut world),
        |record| {
            // A parent that listens no more ends this process by itself.
            let _ = child::say(&WorkerMessage::Progress {
                rank: setup.rank,
                record: *record,
            });
        },
    );
    let outcome = outcome.map_err(|error| Failure::Training {
        who: format!("worker {}", setup.rank),
        reason: error.to_string(),
    })?;
    let after = world.stats();
    let traffic = Traffic {
        packets_sent: after.packets_sent - before.packets_sent,
        results: after.results - before.results,
        resends: after.resends - before.resends,
    };
    world.close()?;
    let report = WorkerReport::new(setup.rank, setup.workers, &outcome, traffic);
    child::say(&WorkerMessage::Report(report))
}

fn config(setup: &Setup) -> Config {
    let loss = Probability::new(setup.loss).unwrap_or_default();
    Config {
        timeout: setup.timeout,
        connect_timeout: setup.timeout,
        faults: FaultConfig {
            loss,
            seed: setup.train.seed,
            ..FaultConfig::default()
        },
        aggregators: setup.aggregators.clone(),
        ..Config::new(setup.world.clone(), setup.rank as u32, setup.workers as u32)
    }
}

/// Compares this worker's first parameters with rank 0's, to the last bit.
fn check_start(world: &mut Communicator, setup: &Setup) -> Result<(), Failure> {
    let mine = initial_parameters(&setup.train);
    let mut first = mine.clone();
    world.broadcast(0, &mut first)?;
    let differs = |(mine, first): (&f32, &f32)| mine.to_bits() != first.to_bits();
    match mine.iter().zip(&first).position(differs) {
        Some(index) => Err(Failure::OtherStart {
            rank: setup.rank,
            index,
        }),
        None => Ok(()),
    }
}

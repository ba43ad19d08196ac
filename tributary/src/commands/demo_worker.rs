//! One worker process of a demo.

use std::time::Duration;

use agg_worker::{Communicator, Config, Feedback, ReduceOptions};
use serde::{Deserialize, Serialize};
use tributary::demo::{
    AllReduce, Lateness, Traffic, TrainConfig, WorkerMessage, WorkerReport, initial_parameters, train,
};
use udp_io::{FaultConfig, Probability};

use crate::args::{Terms, WireArg};
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
    /// What the world asks of the aggregator.
    pub terms: Terms,
    /// Whether a worker keeps for the next sum what one does not hold.
    pub feedback: bool,
    /// Bits of an element on the wire.
    pub wire: WireArg,
}

/// The sum over the network.
enum Network<'a> {
    /// Of all workers, in 32 bits.
    Whole(&'a mut Communicator),
    /// Of a quorum, or rounded to fewer bits.
    Partial(Partial<'a>),
}

/// A worker whose values sums may not hold as they are. Under a quorum it catches up as agg-worker has it when it was late.
struct Partial<'a> {
    world: &'a mut Communicator,
    options: ReduceOptions,
    feedback: Feedback,
    /// What sums do not hold is kept for the next.
    keeps: bool,
    late: bool,
    lateness: Lateness,
}

impl AllReduce for Network<'_> {
    type Error = Failure;

    fn sum(&mut self, gradient: &mut [f32]) -> Result<(), Failure> {
        match self {
            Self::Whole(world) => Ok(world.all_reduce(gradient)?),
            Self::Partial(partial) => partial.sum(gradient),
        }
    }

    fn is_behind(&self) -> bool {
        matches!(self, Self::Partial(partial) if partial.late)
    }
}

impl Partial<'_> {
    fn sum(&mut self, gradient: &mut [f32]) -> Result<(), Failure> {
        if self.feedback.len() != gradient.len() {
            self.feedback = Feedback::new(gradient.len());
        }
        if !self.keeps {
            self.feedback.reset();
        }
        self.lateness.gradients += u64::from(!self.late);
        let contribution = self
            .world
            .all_reduce_feedback_with(gradient, &mut self.feedback, self.options)?;
        self.late = contribution.was_late();
        self.lateness.contributed += u64::from(!self.late);
        self.lateness.chunks += contribution.chunks;
        self.lateness.late_chunks += contribution.late;
        Ok(())
    }
}

/// Joins the world, trains, and reports.
pub fn run() -> Result<(), Failure> {
    let setup: Setup = child::setup()?;
    let mut world = Communicator::connect(config(&setup))?;
    check_start(&mut world, &setup)?;
    let before = world.stats();
    let is_quorum = setup.terms.policy.is_quorum();
    let mut network = match is_quorum || setup.wire != WireArg::Bits32 {
        false => Network::Whole(&mut world),
        true => Network::Partial(Partial {
            world: &mut world,
            options: ReduceOptions::default().with_width(setup.wire.width()),
            feedback: Feedback::new(0),
            keeps: setup.feedback,
            late: false,
            lateness: Lateness::default(),
        }),
    };
    let outcome = train(&setup.train, setup.rank, setup.workers, &mut network, |record| {
        // A parent that listens no more ends this process by itself.
        let _ = child::say(&WorkerMessage::Progress {
            rank: setup.rank,
            record: *record,
        });
    });
    let outcome = outcome.map_err(|error| Failure::Training {
        who: format!("worker {}", setup.rank),
        reason: error.to_string(),
    })?;
    let lateness = match network {
        Network::Partial(partial) if is_quorum => Some(partial.lateness),
        _ => None,
    };
    let after = world.stats();
    let traffic = Traffic {
        packets_sent: after.packets_sent - before.packets_sent,
        results: after.results - before.results,
        resends: after.resends - before.resends,
    };
    world.close()?;
    let report = WorkerReport {
        lateness,
        ..WorkerReport::new(setup.rank, setup.workers, &outcome, traffic)
    };
    child::say(&WorkerMessage::Report(report))
}

fn config(setup: &Setup) -> Config {
    let loss = Probability::new(setup.loss).unwrap_or_default();
    setup.terms.apply(Config {
        timeout: setup.timeout,
        connect_timeout: setup.timeout,
        faults: FaultConfig {
            loss,
            seed: setup.train.seed,
            ..FaultConfig::default()
        },
        aggregators: setup.aggregators.clone(),
        ..Config::new(setup.world.clone(), setup.rank as u32, setup.workers as u32)
    })
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

//! What each rank of a benchmark is told.

use std::fmt;
use std::time::Duration;

use agg_worker::{Config, ElementType, LocalGroup};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use udp_io::{FaultConfig, Probability};

use crate::args::{OpArg, PolicyArg, ReduceArgs, Straggler, Terms};
use crate::failure::Failure;

/// What is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// Block fixed point
    F32,
    /// Wrapping sums
    I32,
    /// As f32, rounded at the end
    F16,
    /// As f32, rounded at the end
    Bf16,
}

impl Dtype {
    /// The communicator's.
    pub fn element(self) -> ElementType {
        match self {
            Self::F32 => ElementType::F32,
            Self::I32 => ElementType::I32,
            Self::F16 => ElementType::F16,
            Self::Bf16 => ElementType::Bf16,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.element().name())
    }
}

/// What a rank is told; the same for all ranks of a world, but for the rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// This rank.
    pub rank: u32,
    /// Ranks in the world.
    pub size: u32,
    /// The world's name.
    pub world: String,
    /// The aggregator, `host:port`, and those that take over from it.
    pub aggregators: Vec<String>,
    /// Bytes of each tensor, one after the other.
    pub bytes: Vec<u64>,
    /// Type of the elements.
    pub dtype: Dtype,
    /// What becomes of them.
    pub reduce: ReduceArgs,
    /// Measured iterations; `None`: as many as take about two seconds.
    pub iterations: Option<u32>,
    /// Iterations before those.
    pub warmup: u32,
    /// Sums that are submitted together; with 1 each is called when the last one has ended.
    pub in_flight: u32,
    /// Share of packets to lose in each direction, 0..=1.
    pub loss: f64,
    /// Values in a chunk; `None`: negotiated.
    pub lanes: Option<u32>,
    /// Chunks in flight on each stream; `None`: negotiated.
    pub window: Option<u32>,
    /// Streams; `None`: as many as the aggregator has shards.
    pub streams: Option<u16>,
    /// How long to wait for the aggregator or another rank in the middle of it.
    pub timeout: Duration,
    /// How long to wait for other ranks at the start.
    pub wait: Duration,
    /// What the world asks of the aggregator.
    pub terms: Terms,
    /// A rank that is slow on purpose.
    pub straggler: Option<Straggler>,
}

impl Setup {
    /// Whether a quorum may leave ranks out.
    pub fn is_scaled(&self) -> bool {
        self.dtype != Dtype::I32 && matches!(self.reduce.op, OpArg::Sum | OpArg::Avg)
    }

    /// Whether there is such an operation, and one of which results can be checked.
    pub fn check(&self) -> Result<(), Failure> {
        self.reduce.check(self.dtype.element(), self.size)?;
        let plain = self.dtype == Dtype::F32 && self.reduce == ReduceArgs::default();
        if self.in_flight > 1 && (self.terms.policy != PolicyArg::All || self.straggler.is_some()) {
            return Err(Failure::InFlight { sums: self.in_flight });
        }
        if self.terms.policy != PolicyArg::All && self.is_scaled() && !plain {
            return Err(Failure::QuorumOf {
                dtype: self.dtype.to_string(),
            });
        }
        Ok(())
    }

    /// The same for the communicator.
    pub fn config(&self) -> Config {
        let loss = Probability::new(self.loss).unwrap_or_default();
        self.terms.apply(Config {
            timeout: self.timeout,
            connect_timeout: self.timeout,
            wait: self.wait,
            lanes: self.lanes,
            window: self.window,
            streams: self.streams,
            aggregators: self.aggregators.clone(),
            local: LocalGroup::from_environment(self.rank, self.size),
            faults: FaultConfig {
                loss,
                seed: 1,
                ..FaultConfig::default()
            },
            ..Config::new(self.world.clone(), self.rank, self.size)
        })
    }
}

//! `tributary bench`: measures operations.

mod compare;
mod iterations;
mod local;
mod one_rank;
mod show;

use std::time::Duration;

use clap::{Args, Subcommand};
use udp_io::Probability;

use self::iterations::Iterations;
use crate::args::{ReduceArgs, Straggler, TensorSize, Terms, seconds, tree_size, world_size};
use crate::bench::{Dtype, Setup};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::peers::Peer;

/// The arguments of `tributary bench`.
#[derive(Debug, Args)]
#[command(after_help = "Example: tributary bench allreduce --workers 4 --bytes 100MiB")]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Sums tensors over workers, checks every sum, and shows times, bandwidth and processor time
    Allreduce(AllReduce),
}

/// The arguments of `tributary bench allreduce`.
#[derive(Debug, Args)]
#[command(after_help = "\
All on this machine, with an aggregator started for it:
  tributary bench allreduce --workers 4 --bytes 4KiB,100MiB

One rank a host, each in a terminal of its own; rank 0 shows the figures:
  tributary bench allreduce --aggregator 10.0.0.1:4600 --world-size 2 --rank 0
  tributary bench allreduce --aggregator 10.0.0.1:4600 --world-size 2 --rank 1

Beside what others use:
  tributary bench allreduce --workers 2 --compare gloo,openmpi

With a rank that is slow, and sums that do not wait for it:
  tributary bench allreduce --straggler 3:20ms --policy quorum:3")]
pub struct AllReduce {
    /// Worker processes on this machine, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = world_size(), conflicts_with = "rank")]
    workers: u32,
    /// Sizes of the tensor, like 4k or 100MiB; several with commas
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "4KiB,1MiB,100MiB",
        value_delimiter = ','
    )]
    bytes: Vec<TensorSize>,
    /// Type of the elements
    #[arg(long, visible_alias = "type", value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    #[command(flatten)]
    reduce: ReduceArgs,
    /// Measured iterations of each size, or auto: about two seconds, 5 to 1000 iterations
    #[arg(long, value_name = "N", default_value = "auto")]
    iterations: Iterations,
    /// Iterations of each size before those
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: u32,
    /// Sums that are submitted together; a sum's time is then its share of theirs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: u32,
    /// Share of packets to lose on purpose in each direction, like 1%
    #[arg(long, value_name = "SHARE", default_value_t)]
    loss: Probability,
    /// Values in a chunk: 256, 352, 848, 2048 or 8192 [default: the largest up to 2048 that the path carries, 8192 through shared memory]
    #[arg(long, value_name = "N")]
    lanes: Option<u32>,
    /// Chunks in flight on each stream, rounded up to a power of two, at least 2 [default: what the buffers hold]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// Streams, each with a shard of the aggregator [default: 1, or as many as a running aggregator has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    streams: Option<u16>,
    /// How long an operation may make no progress, in seconds
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = seconds)]
    timeout: Duration,
    /// How long ranks that start later, or memory of the aggregator, are waited for
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = seconds)]
    wait: Duration,
    /// A running aggregator's control address, again for one that takes over; without it, one is started for the benchmark
    #[arg(long, value_name = "HOST:PORT")]
    aggregator: Vec<String>,
    /// Run only this rank here; others run elsewhere
    #[arg(long, value_name = "R", requires = "aggregator", requires = "world_size")]
    rank: Option<u32>,
    /// Ranks on all hosts together
    #[arg(long, value_name = "N", requires = "rank", value_parser = tree_size())]
    world_size: Option<u32>,
    /// Name of the world, the same for all ranks
    #[arg(long, value_name = "NAME", default_value = "bench", requires = "rank")]
    world: String,
    #[command(flatten)]
    terms: Terms,
    /// A rank whose gradients take this much longer, like 3:20ms; no barriers hold the ranks together then
    #[arg(long, value_name = "RANK:DELAY")]
    straggler: Option<Straggler>,
    /// What to measure beside it, on this machine's loopback interface: sums of f32 or i32 in 32 bits; several with commas
    #[arg(long, value_enum, value_name = "PEERS", value_delimiter = ',', conflicts_with_all = ["rank", "straggler", "policy", "loss"])]
    compare: Vec<Peer>,
    /// A Python that has torch, for --compare gloo
    #[arg(long, value_name = "PYTHON", default_value = "python3", requires = "compare")]
    python: String,
    /// One JSON object a size instead of a table
    #[arg(long)]
    json: bool,
}

impl Bench {
    /// Measures.
    pub fn run(&self) -> Result<(), Failure> {
        let What::Allreduce(all_reduce) = &self.what;
        all_reduce.run()
    }
}

impl AllReduce {
    fn run(&self) -> Result<(), Failure> {
        if let Some(straggler) = self.straggler {
            straggler.check(self.world_size.unwrap_or(self.workers))?;
        }
        compare::check(self)?;
        let interrupt = Interrupt::watch()?;
        match (self.rank, self.world_size) {
            (Some(rank), Some(size)) => {
                let setup = self.setup(rank, size, self.world.clone(), self.aggregator.clone());
                setup.check()?;
                one_rank::run(setup, &interrupt, self.json)
            }
            _ => local::run(self, &interrupt),
        }
    }

    fn setup(&self, rank: u32, size: u32, world: String, aggregators: Vec<String>) -> Setup {
        Setup {
            rank,
            size,
            world,
            aggregators,
            bytes: self.bytes.iter().map(|size| size.bytes()).collect(),
            dtype: self.dtype,
            reduce: self.reduce,
            iterations: self.iterations.count(),
            warmup: self.warmup,
            in_flight: self.in_flight,
            loss: self.loss.get(),
            lanes: self.lanes,
            window: self.window,
            streams: self.streams,
            timeout: self.timeout,
            wait: self.wait,
            terms: self.terms.clone(),
            straggler: self.straggler,
        }
    }
}

//! `tributary demo`: trains with worker processes, and proves that the sums are right.

mod plan;
mod progress;
mod results;
mod training;

use std::path::PathBuf;
use std::time::Duration;

use agg_worker::ElementType;
use clap::Args;
use tributary::demo::{
    Check, CheckLimits, Run, TrainConfig, WorkerReport, compare, compare_narrow, compare_quorum,
};
use udp_io::Probability;

use self::plan::Common;
use self::progress::Progress;
use self::results::Results;
use crate::aggregator::Aggregator;
use crate::args::{PolicyArg, ReduceArgs, Straggler, WireArg, seconds, world_size};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// The arguments of `tributary demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tributary demo
  tributary demo --workers 8 --loss 1%
  tributary demo --straggler 3:20ms --policy quorum:3
  tributary demo --wire 8
  tributary demo --aggregator 10.0.0.1:4600 --out curves")]
pub struct Demo {
    /// Worker processes, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = world_size())]
    workers: u32,
    /// Passes over the training images
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    epochs: u32,
    /// Share of packets to lose on purpose in each direction, like 1%
    #[arg(long, value_name = "SHARE", default_value_t)]
    loss: Probability,
    /// A running aggregator's control address, again for one that takes over; without it, one is started for the demo
    #[arg(long, value_name = "HOST:PORT")]
    aggregator: Vec<String>,
    /// Directory for the curves [default: tributary-demo in the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Decides the first weights, the order of images, and which packets are lost
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long an operation may make no progress, in seconds; ranks that start later are waited for 60 s
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = seconds)]
    timeout: Duration,
    /// When a sum is complete: all, or quorum:K[,GRACE_MS]: with K workers, when the others had some ms since the first
    #[arg(long, value_name = "POLICY", default_value = "all")]
    policy: PolicyArg,
    /// A worker whose gradients take this much longer, like 3:20ms
    #[arg(long, value_name = "RANK:DELAY")]
    straggler: Option<Straggler>,
    /// Bits of an element on the wire; 32 come first then, to compare with
    #[arg(long, value_enum, value_name = "BITS", default_value_t)]
    wire: WireArg,
    /// Under a quorum, or with narrow elements: what a sum does not hold of a worker is lost, instead of being added to its next
    #[arg(long)]
    no_feedback: bool,
    /// One JSON object instead of tables
    #[arg(long)]
    json: bool,
}

impl Demo {
    /// Trains, compares, reports. An error also when a check fails.
    pub fn run(&self) -> Result<(), Failure> {
        if let Some(straggler) = self.straggler {
            straggler.check(self.workers)?;
        }
        let reduce = ReduceArgs {
            wire: self.wire,
            ..ReduceArgs::default()
        };
        reduce.check(ElementType::F32, self.workers)?;
        let interrupt = Interrupt::watch()?;
        let curves = results::curves_file(self.out.as_deref())?;
        let aggregator = Aggregator::find(&self.aggregator, 1, 0, &interrupt)?;
        let train = TrainConfig {
            epochs: self.epochs as usize,
            seed: self.seed,
            ..TrainConfig::default()
        };
        let plans = plan::runs(self.loss, self.seed, self.policy, self.wire);
        let progress = Progress::new((plans.len() + 1) * train.epochs);
        let common = Common {
            workers: self.workers as usize,
            aggregators: aggregator.addresses(),
            train: &train,
            timeout: self.timeout,
            straggler: self.straggler,
            feedback: !self.no_feedback,
        };
        let mut runs = Vec::with_capacity(plans.len());
        for (index, plan) in plans.iter().enumerate() {
            let setups = plan.setups(index, &common);
            runs.push(training::together(
                &plan.name,
                &setups,
                &aggregator,
                &interrupt,
                &progress,
            )?);
        }
        // Last, so that workers that cannot run are found soon.
        let single = training::alone(&train, &interrupt, &progress)?;
        progress.finish();
        let checks = self.checks(&single, &runs);
        let slow = self.straggler.map(|straggler| straggler.rank as usize);
        let results = Results {
            single,
            runs,
            checks,
            slow,
        };
        results.write_curves(&curves)?;
        if self.json {
            results.print_json(&curves)?
        } else {
            results.print(&aggregator, &curves)?
        }
        results.verdict()
    }

    /// What the runs must show: under a quorum, or with narrow elements, the first one's sums are whole, and the others are held
    /// against it.
    fn checks(&self, single: &WorkerReport, runs: &[Run]) -> Vec<Check> {
        let limits = CheckLimits::for_epochs(self.epochs as usize);
        match runs.split_first() {
            Some((whole, others)) if self.policy.is_quorum() || self.wire != WireArg::Bits32 => {
                let mut checks = compare(single, std::slice::from_ref(whole), limits);
                let compare = if self.policy.is_quorum() {
                    compare_quorum
                } else {
                    compare_narrow
                };
                checks.extend(compare(whole, others, !self.no_feedback));
                checks
            }
            _ => compare(single, runs, limits),
        }
    }
}

//! The commands, one a file.

mod bench;
mod bench_worker;
mod demo;
mod demo_worker;
mod lend;
mod serve;
mod status;

use clap::Subcommand;

use crate::failure::Failure;

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Trains a small network with worker processes on this machine, and proves that the sums are right
    Demo(demo::Demo),
    /// Runs an aggregator until Ctrl-C
    Serve(serve::Serve),
    /// Lends memory to an aggregator, for sums that wait for a late rank (a prototype)
    Lend(lend::Lend),
    /// Shows what an aggregator does: jobs, ranks, counters
    Status(status::Status),
    /// Measures operations
    Bench(bench::Bench),
    /// One worker of a demo
    #[command(hide = true, name = demo_worker::NAME)]
    DemoWorker,
    /// One worker of a benchmark
    #[command(hide = true, name = bench_worker::NAME)]
    BenchWorker,
}

impl Command {
    /// Runs it to its end.
    pub fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Demo(demo) => demo.run(),
            Self::Serve(serve) => serve.run(),
            Self::Lend(lend) => lend.run(),
            Self::Status(status) => status.run(),
            Self::Bench(bench) => bench.run(),
            Self::DemoWorker => demo_worker::run(),
            Self::BenchWorker => bench_worker::run(),
        }
    }
}

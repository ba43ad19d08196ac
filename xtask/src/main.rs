//! Set-up, tests and checks of the workspace: `cargo xtask test`, `cargo xtask ci`, `cargo xtask fuzz`,
//! `cargo xtask bench`.
//!
//! One line a room: a [`groups`] table says what is tested, a [`needs`] table what that takes and how to get it,
//! [`process`] runs programs under a deadline, [`count`] reads what test runners print, [`report`] sums up.

mod bench;
mod checks;
mod cleanup;
mod compare;
mod count;
mod dependencies;
mod ebpf;
mod embedding;
mod field;
mod flooder;
mod fuzz;
mod groups;
mod needs;
mod no_std;
mod process;
mod python;
mod report;
mod running;
mod sides;
mod soak;
mod step;
mod stragglers;
mod suites;
mod sweep;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Set-up, tests and checks of the Tributary workspace"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs all tests, after installing what they need (as root, on Debian).
    Test {
        /// Run this group only; may be given more than once.
        #[arg(long, value_name = "GROUP", value_parser = groups::names())]
        only: Vec<String>,
        /// Print the groups and stop.
        #[arg(long)]
        list: bool,
    },
    /// Runs all that a change must pass: format, lints, licences, docs, tests.
    Ci,
    /// Builds the XDP program and says whether the kept object is what comes out (installs what that needs, as root).
    Ebpf {
        /// Keep what comes out, with its recipe, in bpf-host/object.
        #[arg(long)]
        keep: bool,
    },
    /// Measures all-reduce beside Gloo and Open MPI, in network namespaces (as root; Gloo needs Python with torch).
    Compare(compare::Compare),
    /// Measures what a slow rank costs the others, beside Gloo (as root; needs Python with torch).
    Stragglers(stragglers::Stragglers),
    /// Measures what a job loses to a neighbour that floods its aggregator.
    Flooder(flooder::Flooder),
    /// Measures windows, chunk sizes and streams against the defaults, on loopback and over limited links (as root).
    Sweep(sweep::Sweep),
    /// Sums for minutes and says whether the memory of ranks and aggregator stays as it was.
    Soak(soak::Soak),
    /// Runs the fuzz targets, on the stable toolchain.
    Fuzz {
        /// Seconds for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Run this target only.
        #[arg(long)]
        target: Option<String>,
    },
    /// Measures the core and writes the ratios into docs/performance.md.
    Bench {
        /// Only what has a goal, within a few minutes; the page stays as it is.
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> ExitCode {
    let task = Arguments::parse().task;
    process::watch_signals();
    // All paths are relative to the workspace, wherever the command was called.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    if let Err(error) = std::env::set_current_dir(root) {
        eprintln!("cannot enter the workspace {root}: {error}; call `cargo xtask` inside the checkout");
        return ExitCode::FAILURE;
    }
    let mut report = report::Report::default();
    match task {
        Task::Test { list: true, .. } => {
            groups::list();
            return ExitCode::SUCCESS;
        }
        Task::Test { only, list: false } => groups::run(&only, &mut report),
        Task::Ebpf { keep } => report.run("ebpf", ebpf::LIMIT, |step| ebpf::task(step, keep)),
        Task::Compare(arguments) => return compare::run(&arguments),
        Task::Stragglers(arguments) => return stragglers::run(&arguments),
        Task::Flooder(arguments) => return flooder::run(&arguments),
        Task::Sweep(arguments) => return sweep::run(&arguments),
        Task::Soak(arguments) => return soak::run(&arguments),
        Task::Ci => {
            checks::run(&mut report);
            groups::run(&[], &mut report);
        }
        Task::Fuzz { seconds, target } => {
            let time = Duration::from_secs(seconds);
            // A quarter of an hour to build, and a minute of delay for each target.
            let limit = Duration::from_secs(15 * 60)
                + (time + Duration::from_secs(60)) * fuzz::targets().len() as u32;
            report.run("fuzz", limit, |step| fuzz::run(step, time, target.as_deref()));
        }
        Task::Bench { quick } => {
            let effort = if quick {
                bench::Effort::Quick
            } else {
                bench::Effort::Full
            };
            report.run("bench", effort.limit(), |step| bench::run(step, effort));
        }
    }
    cleanup::namespaces();
    report.finish()
}

//! `dpdk-host`: the aggregator on a core that polls its network card.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dpdk_host::{CheckArgs, ServeArgs, check, serve};

/// Sums gradients in the network: the Tributary aggregator on a core that polls its network card with DPDK.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  dpdk-host check -- -a 0000:01:00.0\n  dpdk-host serve --data-addr 10.0.0.1:4601 --memory 256 \
                  -- -l 3 -a 0000:01:00.0 --in-memory"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves until Ctrl-C.
    Serve(Box<ServeArgs>),
    /// Says what this machine has and lacks, by starting DPDK with these arguments.
    Check(CheckArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    agg_host::run("dpdk-host", |stopped| match &cli.command {
        Command::Serve(args) => serve(args, stopped).map_err(|error| error.to_string()),
        Command::Check(args) => {
            let (eal, settings) = args.settings().map_err(|error| error.to_string())?;
            let report = check(&eal, settings.as_ref());
            println!("{report}");
            report.verdict()
        }
    })
}

//! `udp-host`: the aggregator alone, for machines that run nothing else of Tributary.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use udp_host::{ServeArgs, serve};

/// Sums gradients in the network: the Tributary aggregator on UDP sockets.
#[derive(Parser)]
#[command(
    version,
    after_help = "Example: udp-host --data-addr 10.0.0.1:4601 --shards 2 --memory 256"
)]
struct Cli {
    #[command(flatten)]
    serve: ServeArgs,
}

fn main() -> ExitCode {
    agg_host::run_hearing("udp-host", |stopped| serve(&Cli::parse().serve, stopped))
}

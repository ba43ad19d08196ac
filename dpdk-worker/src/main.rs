//! `dpdk-worker`: one rank on a core that polls its network card.
#![forbid(unsafe_code)]

mod allreduce;
mod args;
mod values;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::args::AllReduce;

/// A rank of Tributary on a core that polls its network card with DPDK.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sums a tensor with the other ranks, again and again, and shows how long that takes.
    Allreduce(AllReduce),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter.unwrap_or_else(|_| "warn".into()))
        .init();
    let Command::Allreduce(all_reduce) = &cli.command;
    match allreduce::run(all_reduce) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dpdk-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

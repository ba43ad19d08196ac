//! `bpf-host`: the aggregator inside the kernel, for any Linux host.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use bpf_host::{ServeArgs, check, serve};
use clap::{Parser, Subcommand};

/// Sums gradients in the network: the Tributary aggregator as an XDP program.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  bpf-host check eth0\n  bpf-host serve --interface eth0 --data-addr 10.0.0.1:4601 --memory 256"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves until Ctrl-C.
    Serve(ServeArgs),
    /// Says what this machine and an interface support, by trying it; needs the same privileges as serving.
    Check {
        /// The interface.
        #[arg(value_name = "IFACE")]
        interface: String,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    agg_host::run("bpf-host", |stopped| match &cli.command {
        Command::Serve(args) => serve(args, stopped).map_err(|error| error.to_string()),
        Command::Check { interface } => {
            let report = check(interface);
            println!("{report}");
            report.verdict()
        }
    })
}

//! `udp-host`: the aggregator alone, for machines that run nothing else of Tributary.
#![forbid(unsafe_code)]

use std::io::IsTerminal;
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
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info")),
        )
        .init();
    let (stop, stopped) = std::sync::mpsc::channel();
    let watch = ctrlc::set_handler(move || {
        // A second signal while the first is being acted on changes nothing.
        let _ = stop.send(());
    });
    if let Err(error) = watch {
        eprintln!("udp-host: cannot watch for Ctrl-C: {error}");
        return ExitCode::FAILURE;
    }
    match serve(&Cli::parse().serve, || stopped.recv().unwrap_or(())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("udp-host: {error}");
            ExitCode::FAILURE
        }
    }
}

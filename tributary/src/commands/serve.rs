//! `tributary serve`: an aggregator until Ctrl-C.

use std::io::IsTerminal;

use clap::Args;
use tracing_subscriber::EnvFilter;
use udp_host::ServeArgs;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// The arguments of `tributary serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tributary serve
  tributary serve --control-addr 127.0.0.1:4600 --data-addr 127.0.0.1:4601
  tributary serve --data-addr 10.0.0.1:4601 --shards 2 --memory 256")]
pub struct Serve {
    #[command(flatten)]
    serve: ServeArgs,
}

impl Serve {
    /// Serves until the user wants it to end.
    pub fn run(&self) -> Result<(), Failure> {
        let interrupt = Interrupt::watch()?;
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .with_env_filter(filter)
            .init();
        Ok(udp_host::serve(&self.serve, || interrupt.wait())?)
    }
}

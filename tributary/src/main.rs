//! The `tributary` command.

#![forbid(unsafe_code)]

mod aggregator;
mod args;
mod bench;
mod child;
mod cli;
mod commands;
mod cpu;
mod failure;
mod interrupt;
mod loopback;
mod output;
mod peers;
mod workers;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&format!(
                "tributary: {}",
                agg_host::explained(&failure.to_string())
            ));
            failure.exit_code()
        }
    }
}

//! `tributary status`: what an aggregator does.

mod json;
mod table;

use clap::Args;

use crate::aggregator;
use crate::failure::Failure;
use crate::output;

/// The arguments of `tributary status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tributary status
  tributary status --aggregator 10.0.0.1:4600 --json")]
pub struct Status {
    /// The aggregator's control address
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4600")]
    aggregator: String,
    /// One JSON object instead of tables
    #[arg(long)]
    json: bool,
}

impl Status {
    /// Asks once, and shows the answer.
    pub fn run(&self) -> Result<(), Failure> {
        let status = aggregator::connect(&self.aggregator)?.status()?;
        if self.json {
            output::line(&json::render(&status).to_string())
        } else {
            output::line(&table::render(&self.aggregator, &status))
        }
    }
}

//! One worker process of a benchmark.

use crate::bench::{Message, Setup, measure};
use crate::child;
use crate::failure::Failure;

/// The command's name, for the parent.
pub const NAME: &str = "bench-worker";

/// Measures; one rank tells the parent the figures, and rank 0 when they begin.
pub fn run() -> Result<(), Failure> {
    let setup: Setup = child::setup()?;
    let go_on = || Ok(());
    measure(&setup, go_on, |message| match message {
        Message::Size(_) => child::say(&message),
        _ if setup.rank == 0 => child::say(&message),
        _ => Ok(()),
    })
}

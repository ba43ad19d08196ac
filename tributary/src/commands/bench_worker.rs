//! One worker process of a benchmark.

use crate::bench::{Setup, measure};
use crate::child;
use crate::failure::Failure;

/// The command's name, for the parent.
pub const NAME: &str = "bench-worker";

/// Measures; rank 0 tells the parent, since every rank has everybody's figures.
pub fn run() -> Result<(), Failure> {
    let setup: Setup = child::setup()?;
    let go_on = || Ok(());
    measure(&setup, go_on, |message| {
        if setup.rank == 0 {
            child::say(&message)
        } else {
            Ok(())
        }
    })
}

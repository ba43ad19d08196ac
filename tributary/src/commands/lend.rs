//! `tributary lend`: memory for an aggregator's sums that wait, from a machine that has some to spare. A prototype.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use udp_host::Lender;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;

/// The arguments of `tributary lend`.
#[derive(Debug, Args)]
#[command(after_help = "\
A prototype: nothing but its random key protects what a job has put here.

Example, on a leading worker's machine, and on the aggregator's:
  tributary lend --address 10.0.0.2:4690 --memory 1024
  tributary serve --memory 16 --store 1024 --lender 10.0.0.2:4690")]
pub struct Lend {
    /// Where the aggregator reaches this lender, over UDP.
    #[arg(long, value_name = "IP:PORT")]
    address: SocketAddr,
    /// Memory to lend at most, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory: u64,
}

impl Lend {
    /// Lends until the user wants it to end.
    pub fn run(&self) -> Result<(), Failure> {
        let interrupt = Interrupt::watch()?;
        let bound = Lender::bind(self.address, self.memory << 20);
        let mut lender = bound.map_err(Failure::io(format!("lend at {}", self.address)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let lending = std::thread::spawn(move || lender.run(&stopped));
        output::note(&format!("lending {} MiB at {}", self.memory, self.address));
        interrupt.wait();
        stop.store(true, Ordering::Relaxed);
        match lending.join() {
            Ok(Err(source)) => Err(Failure::io(format!("lend at {}", self.address))(source)),
            // A thread that panicked has said so itself.
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }
}

//! Injected faults: a bad network on a good one, the same for each run with the same seed.
//!
//! In the spirit of smoltcp's `phy::FaultInjector`: faults compose with any host, in examples as well as tests.

mod config;
mod line;
mod port;

pub use config::{FaultConfig, Probability, ProbabilityError};
pub use line::FaultCounts;
pub use port::{FaultyPort, PortFaults};

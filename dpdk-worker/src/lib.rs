//! The Tributary worker on cores that poll their network cards with DPDK.
//!
//! [`Dpdk`] is a [`Transport`](agg_worker::Transport) for [`agg_worker::Config::transport`]: the packets of a rank go through a
//! port of DPDK, without a system call and without the kernel. Whoever calls an operation polls the port meanwhile; between
//! operations a thread of the communicator looks now and then. The control service is reached through the kernel as ever.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use agg_worker::{Communicator, Config};
//! use dpdk_worker::{Dpdk, PortConfig};
//!
//! // DPDK starts once in a process.
//! let port = Dpdk::start(PortConfig {
//!     eal: ["-l", "0", "-a", "0000:01:00.0", "--in-memory"].map(str::to_owned).into(),
//!     ..PortConfig::new("10.0.0.2:4700".parse()?)
//! })?;
//! let mut config = Config::new("my-training", 0, 4).with_aggregator("10.0.0.1:4600");
//! config.transport = Some(Arc::new(port));
//! let mut world = Communicator::connect(config)?;
//! # world.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod config;
mod error;
mod frames;
mod inbox;
mod link;
mod port;
mod queues;
mod transport;

pub use config::PortConfig;
pub use error::PortError;
pub use transport::Dpdk;

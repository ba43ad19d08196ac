//! The Tributary aggregator behind ordinary UDP sockets: the embedded default, and a host without privileges.
//!
//! A [`UdpHost`] runs one thread a shard. Each owns one port and one [`agg_core::Aggregator`]; what the core
//! decides, it sends. A port has several receive queues, so that a job's load fills that job's own ([`queue_of`]). Jobs are registered over gRPC ([`agg_control`]). All slot memory is allocated at the start.
//!
//! ```
//! use udp_host::{HostConfig, UdpHost};
//!
//! // In this process, on loopback, on ports that the kernel chooses:
//! let host = UdpHost::start(&HostConfig::loopback())?;
//! println!("workers connect to {}", host.control_addr());
//! # Ok::<(), udp_host::HostError>(())
//! ```
#![forbid(unsafe_code)]

mod args;
#[cfg(target_os = "linux")]
mod attach;
mod config;
mod error;
mod host;
mod lent;
mod plane;
mod queues;
mod rings;
mod shard;
mod store;
mod turns;

pub use agg_host::{DEFAULT_CONTROL_PORT, DEFAULT_DATA_PORT, HostArgs};
pub use args::{ServeArgs, serve};
pub use config::HostConfig;
pub use error::HostError;
pub use host::UdpHost;
pub use lent::Lender;
pub use queues::{queue_of, spread};

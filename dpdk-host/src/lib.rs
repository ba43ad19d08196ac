//! The Tributary aggregator on cores that poll their network cards with DPDK.
//!
//! [`dpdk`] is what this host uses of DPDK, safe to call. A [`Shard`] is one aggregator with its jobs' routes; a [`Poller`]
//! works for it at a queue of a port, run to completion: what a frame asks for is sent before the next burst is received.
//! A [`DpdkHost`] is all of it, with the control service in threads beside.

mod args;
mod arp;
mod check;
mod config;
mod counters;
pub mod discovery;
pub mod dpdk;
mod echo;
mod error;
mod hand_off;
mod host;
mod idle;
mod lcore;
mod link;
mod nd;
mod neighbours;
mod outbox;
mod plane;
mod poller;
mod shard;
mod trial;

pub use args::{CheckArgs, ServeArgs, serve};
pub use check::{Report, check};
pub use config::HostConfig;
pub use counters::{FrameCounter, FrameCounters};
pub use error::HostError;
pub use hand_off::HandOff;
pub use host::DpdkHost;
pub use idle::Idle;
pub use link::{Exit, Link};
pub use neighbours::{Hop, Neighbours, Network};
pub use poller::Poller;
pub use shard::{Route, Shard, State};

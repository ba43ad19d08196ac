//! The Tributary aggregator on cores that poll their network cards with DPDK.
//!
//! [`dpdk`] is what this host uses of DPDK, safe to call. A [`Shard`] is one aggregator with its jobs' routes; a [`Poller`]
//! works for it at a queue of a port, run to completion: what a frame asks for is sent before the next burst is received.

mod arp;
mod counters;
pub mod dpdk;
mod echo;
mod idle;
mod neighbours;
mod outbox;
mod poller;
mod shard;

pub use counters::{FrameCounter, FrameCounters};
pub use idle::Idle;
pub use neighbours::{Neighbours, Network};
pub use poller::Poller;
pub use shard::{Route, Shard, State};

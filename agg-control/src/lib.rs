//! Job registration at an aggregator, over gRPC: one service that every Tributary host (UDP, DPDK, eBPF) embeds.
//!
//! A host implements [`DataPlane`] and calls [`serve`]. A rank calls [`ControlClient::register`], which returns when
//! all ranks of its world have registered, then sends heartbeats, and leaves when it has all its results. A rank that
//! fails or falls silent ends the job for all, with the reason. The gradients never pass through here.
//!
//! An aggregator with a [`ParentConfig`] is a leaf: it registers the ranks that come to it at its parent, as one member,
//! and passes on what the parent says. A job forms again, under a new epoch, when a rank registers with [`Resume`]: after
//! an aggregator died, after it restarted, or to go on without ranks that were lost.
//!
//! ```text
//! ControlClient ── gRPC ── service ── Registry (worlds, jobs; no I/O, no clock) ── DataPlane
//!                             └── uplink ── gRPC ── the parent's service
//! ```

// Lets the tests of the crate and those beside it share one fake data plane.
#[cfg(test)]
extern crate self as agg_control;

mod attached;
mod client;
mod config;
mod convert;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod incoming;
mod messages;
mod metrics;
mod negotiate;
mod plane;
mod refusal;
mod registry;
mod seconds;
mod server;
mod service;
mod sizing;

/// What tonic generates from the `.proto` file. Private: the types of `messages` are the interface.
#[allow(missing_docs, unreachable_pub)]
mod proto {
    tonic::include_proto!("tributary.control.v1");
}

pub use attached::{At, attached_address, attached_name};
pub use client::{ControlClient, ControlError, fresh_nonce};
pub use config::{ClientIdentity, ClientTls, ConfigError, ControlConfig, ParentConfig, TlsConfig};
pub use messages::{
    Boundary, Description, JobStatus, Left, Member, OnLost, Policy, Pulse, RankState, RankStatus, Registered,
    Registration, Resume, Status, WaitingWorld,
};
pub use negotiate::{
    CHOSEN_BYTES_IN_FLIGHT, LARGEST_CHOSEN_WINDOW, LARGEST_WINDOW, NoRoom, SMALLEST_WINDOW, Window,
    WindowLimits, choose_lanes,
};
pub use plane::{
    AbortKind, AbortReason, AdmitError, Capabilities, DataPlane, HostKind, JobSpec, MemberLag, MemberSpec,
    ParentSpec, ShardCounters, Uplink, total,
};
pub use refusal::{HEAVIEST, LONGEST_NAME, MOST_MEMBERS, MOST_RANKS, Ranks, Refusal};
pub use server::{ControlServer, ServeError, serve, serve_on};
pub use sizing::{
    GENERATIONS, MOST_GENERATIONS, SLOT_OVERHEAD_BYTES, datagram_bytes, receive_buffer_cost, slot_memory,
};

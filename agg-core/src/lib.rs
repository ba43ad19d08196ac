//! The protocol core of Tributary: in-network gradient aggregation, sans-IO.
//!
//! Everything that decides anything is here, shared verbatim by every host: the packet layout ([`wire`]), block
//! fixed point ([`fixed_point`]), the merge rules of a [`slot`], the [`aggregator`] (a packet in, a [`Verdict`]
//! out) and the [`worker`] (packets in, packets out, a next timeout). The core owns no clock, no socket, no lock
//! and no memory: a host hands it `(packet, source, now)` and moves what comes back.
//!
//! It is `no_std`, never allocates and forbids `unsafe`. What an aggregator runs has no reachable panic and keeps
//! to the kernel's eBPF verifier: fixed-size references, no floats, no division by variables.
//!
//! Rules are cited by their ids in `docs/protocol.md`, such as `R-SLOT-3`.
#![no_std]
#![forbid(unsafe_code)]

pub mod aggregator;
pub mod counters;
pub mod fixed_point;
pub mod float;
pub mod job;
mod key_hash;
pub mod kind;
pub mod member_set;
pub mod operation;
pub mod ordered;
pub mod policy;
pub mod pool;
pub mod prober;
pub mod record;
pub mod round;
pub mod slot;
pub mod spill;
pub mod wire;
pub mod worker;

pub use aggregator::{Aggregator, Verdict};
pub use counters::{Counter, Counters};
pub use fixed_point::Exponent;
pub use float::Float;
pub use job::{Abort, AbortCause, AdmitError, Endpoint, Job, JobConfig, Lanes, Member, Parent};
pub use kind::{ElementType, OpKind, ReduceOp, Reduction, Width};
pub use member_set::MemberSet;
pub use operation::Operation;
pub use policy::Policy;
pub use prober::Prober;
pub use round::{Epoch, Round};
pub use slot::Lag;
pub use spill::{StoreAction, StoreRequest};
pub use worker::{Failure, Tensor, Worker, WorkerConfig};

/// Time in nanoseconds from an origin of the host's choice; it must not run backwards.
pub type Nanos = u64;

/// Members one level of aggregation can have: the width of the set on the wire.
pub const MAX_MEMBERS: usize = 64;

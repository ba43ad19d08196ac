//! Exhaustive exploration of the protocol, with the core's own code in it.
//!
//! Real workers and a real aggregator of `agg-core` over a network that loses, duplicates and reorders without
//! bounds: every history of a small configuration, with `stateright`. What is checked and what was found is in
//! `docs/verification.md`.
#![forbid(unsafe_code)]

pub mod configurations;
pub mod dead;
pub mod engine;
pub mod explore;
pub mod fair;
pub mod interner;
pub mod member;
pub mod model;
pub mod mutation;
pub mod network;
pub mod node;
pub mod packets;
pub mod parties;
pub mod scenario;
pub mod topology;
pub mod values;
pub mod world;

pub use explore::{Report, explore, refute};
pub use model::{TributaryModel, rules};
pub use mutation::{AggregatorMutation, Mutation, SpillMutation, WorkerMutation};
pub use scenario::{Scenario, Trouble};
pub use topology::Topology;
pub use values::Step;

//! All-reduce through an aggregator in the network: each worker sends and receives every byte once.
//!
//! ```no_run
//! use agg_worker::{Communicator, Config};
//!
//! // One process a rank, all on this machine: rank 0 starts the aggregator.
//! # let rank = 0;
//! let mut world = Communicator::connect(Config::new("my-training", rank, 4))?;
//! let mut gradient = vec![0.5_f32; 1_000_000];
//! world.all_reduce(&mut gradient)?; // in place: now the sum over the four ranks, the same bits in each
//! world.close()?;
//! # Ok::<(), agg_worker::Error>(())
//! ```
//!
//! [`Communicator::submit`] reduces in the background and returns a [`Pending`] to poll or wait for. What is not a sum, or is
//! to take fewer bytes, says so by [`ReduceOptions`].
//!
//! What can go wrong while a job runs, and what becomes of it:
//! - An aggregator is lost, or restarted: the job moves to the next of [`Config::aggregators`], or to the same one when it is
//!   there again. Operations take longer, and end with the same bits. Not under a quorum.
//! - A rank is lost: the job ends with an error that names it; with [`OnLost::Shrink`] one operation ends with
//!   [`Error::RanksLost`] everywhere, and the others go on.
//! - A rank is slow: the others wait; under [`Policy::Quorum`] they do not, and
//!   [`Communicator::all_reduce_with_feedback`] keeps what was late for the next sum.
#![forbid(unsafe_code)]

mod arrival;
mod communicator;
mod config;
mod element;
mod error;
mod explain;
mod failover;
mod feedback;
mod join;
mod keeper;
#[cfg(feature = "embedded")]
mod leaf;
mod leave;
mod local;
mod moves;
mod names;
mod options;
mod pending;
mod place;
mod probe;
mod rings;
mod run;
mod service;
mod shared;
mod simd;
mod stats;
mod stream;
pub mod transport;
mod turns;
mod udp;
mod upcoming;

pub use agg_control::{OnLost, Policy};
pub use agg_core::{ElementType, ReduceOp, Width};
pub use communicator::Communicator;
pub use config::Config;
pub use element::{Buffer, Element};
pub use error::Error;
pub use feedback::{Contribution, Feedback};
pub use local::LocalGroup;
pub use options::ReduceOptions;
pub use pending::Pending;
pub use stats::Stats;
pub use transport::Transport;

//! Why a rank cannot go on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use agg_core::Failure;
use thiserror::Error;

/// Why a rank cannot go on. One line says what failed, with which values, and often what to do.
#[derive(Debug, Clone, Error)]
pub enum Error {
    /// The rank could not join its world.
    #[error("rank {rank} cannot join the world '{world}': {reason}")]
    Join {
        /// The world.
        world: String,
        /// This rank.
        rank: u32,
        /// What failed.
        reason: String,
    },
    /// An operation ended without a result. The communicator cannot be used any more.
    #[error("rank {rank} of '{world}', aggregator {aggregator}: {text}{detail}")]
    Operation {
        /// The world.
        world: String,
        /// This rank.
        rank: u32,
        /// The aggregator's data address.
        aggregator: SocketAddr,
        /// Why.
        failure: Box<Failure>,
        /// The same in words, with ranks for the aggregator's members.
        text: String,
        /// What the control service says about it; empty, or text that begins with a separator.
        detail: String,
    },
    /// The job was ended while no operation was under way.
    #[error("rank {rank} of '{world}': the job has ended: {reason}")]
    Ended {
        /// The world.
        world: String,
        /// This rank.
        rank: u32,
        /// Why, as the control service says.
        reason: String,
    },
    /// A socket is broken.
    #[error("rank {rank} of '{world}': the socket to {aggregator} failed: {source}")]
    Socket {
        /// The world.
        world: String,
        /// This rank.
        rank: u32,
        /// The aggregator's data address.
        aggregator: SocketAddr,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// A root rank that does not exist.
    #[error("broadcast from rank {root}: the world '{world}' has ranks 0 to {}", size - 1)]
    Root {
        /// The root asked for.
        root: u32,
        /// The world.
        world: String,
        /// Its ranks.
        size: u32,
    },
    /// The caller's buffer panicked while it was asked for its elements: this rank is out of step with the others.
    #[error("rank {rank} of '{world}': the buffer of a submitted operation panicked; the job is ended")]
    BufferPanicked {
        /// The world.
        world: String,
        /// This rank.
        rank: u32,
    },
    /// A background operation's thread is gone.
    #[error("rank {rank} of '{world}': the communicator was closed before the operation ended")]
    Closed {
        /// The world.
        world: String,
        /// This rank.
        rank: u32,
    },
}

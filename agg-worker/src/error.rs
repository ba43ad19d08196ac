//! Why a rank cannot go on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use agg_core::{ElementType, Failure, ReduceOp, Width};
use thiserror::Error;

use crate::names::Ranks;

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
        /// The ranks that it is about: those that are missing, that were lost or that disagree. Empty where that is not known.
        ranks: Box<[u32]>,
        /// The same in words, with ranks for the aggregator's members.
        text: Box<str>,
        /// What the control service says about it; empty, or text that begins with a separator.
        detail: Box<str>,
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
    /// Ranks were lost, and the job goes on without them. The tensor of this operation is undefined; the communicator can be
    /// used on, and every rank that is left gets this error for the same operation.
    #[error(
        "rank {rank} of '{world}': operation {operation} ended without a result, since {} lost: its tensor is undefined, \
         restore it and go on with the {left} ranks that are left",
        lost_ranks(lost)
    )]
    RanksLost {
        /// The world.
        world: String,
        /// This rank.
        rank: u32,
        /// The operation's number.
        operation: u32,
        /// The ranks that were lost.
        lost: Vec<u32>,
        /// The number of ranks that are left.
        left: u32,
    },
    /// A residual of another length than the tensor.
    #[error(
        "the feedback has {feedback} elements, the tensor {values}: keep one Feedback for each tensor, of the same length"
    )]
    FeedbackLength {
        /// Elements of the feedback.
        feedback: usize,
        /// Elements of the tensor.
        values: usize,
    },
    /// A combination of operation, element type and width that does not exist, or not for so many ranks. Nothing was sent: the
    /// communicator can be used on.
    #[error("there is no {op} of {element} with {} bits on the wire: {possible}", width.bits())]
    Unsupported {
        /// The operation.
        op: ReduceOp,
        /// The type of the elements.
        element: ElementType,
        /// Bits of an element on the wire.
        width: Width,
        /// What there is.
        possible: String,
    },
    /// Error feedback for an operation that loses nothing. Nothing was sent: the communicator can be used on.
    #[error("there is nothing to feed back of {op}: it is exact, call it without feedback")]
    NothingToFeedBack {
        /// The operation.
        op: ReduceOp,
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
    /// A root rank that does not exist, or was lost.
    #[error("broadcast from rank {root}: the world '{world}' has {}", Ranks(ranks))]
    Root {
        /// The root asked for.
        root: u32,
        /// The world.
        world: String,
        /// Its ranks.
        ranks: Vec<u32>,
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

fn lost_ranks(lost: &[u32]) -> String {
    let verb = if lost.len() == 1 { "was" } else { "were" };
    format!("{} {verb}", Ranks(lost))
}

//! Why an operation ended without a result.

use core::fmt;

use super::naming::Named;
use crate::{Abort, MemberSet, Nanos, Operation};

/// Why an operation ended without a result. The worker cannot be used afterwards: its place in the stream of chunks
/// is no longer that of the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Failure {
    /// The aggregator said nothing at all for the whole timeout.
    AggregatorSilent {
        /// The timeout.
        waited: Nanos,
        /// The oldest chunk waited for.
        chunk: u64,
        /// The operation's number.
        op_seq: u32,
        /// The operation.
        operation: Operation,
    },
    /// The aggregator answers, but members have not contributed.
    MembersMissing {
        /// The members that are missing.
        missing: MemberSet,
        /// The timeout.
        waited: Nanos,
        /// The oldest chunk waited for.
        chunk: u64,
        /// The operation's number.
        op_seq: u32,
        /// The operation.
        operation: Operation,
    },
    /// Every member of this aggregator contributed; the tree waits for others.
    OthersMissing {
        /// The timeout.
        waited: Nanos,
        /// The oldest chunk waited for.
        chunk: u64,
        /// The operation's number.
        op_seq: u32,
        /// The operation.
        operation: Operation,
    },
    /// This member was removed from its job: it was not heard for too long.
    Excluded,
    /// The ranks disagree on the operation.
    OperationDiffers {
        /// This rank's.
        mine: Operation,
        /// Its number here.
        op_seq: u32,
        /// What the slot was opened with; `None` where it is unknown to this version.
        theirs: Option<Operation>,
        /// Its number there.
        their_seq: u32,
        /// The members that agree with the slot.
        agreeing: MemberSet,
        /// The member whose operation differs.
        offender: u8,
    },
    /// The ranks disagree on a scale: a defect, in this library or in another implementation.
    ScaleDiffers {
        /// The chunk.
        chunk: u64,
        /// The member whose scale differs.
        offender: u8,
    },
    /// The job was aborted.
    Aborted(Abort),
}

impl Failure {
    /// The failure in words, with members as `name` writes them: their numbers are this aggregator's, people know ranks.
    /// What is written begins with a noun: `rank 2`, `ranks 2, 3`.
    pub fn named<N>(&self, name: N) -> impl fmt::Display
    where
        N: Fn(MemberSet, &mut fmt::Formatter<'_>) -> fmt::Result,
    {
        Named { failure: *self, name }
    }
}

/// With members for ranks, which they are where all workers have one aggregator.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks = |members: MemberSet, f: &mut fmt::Formatter<'_>| {
            write!(f, "rank{} {members}", if members.len() == 1 { "" } else { "s" })
        };
        self.named(ranks).fmt(f)
    }
}

impl core::error::Error for Failure {}

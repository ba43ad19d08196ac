//! Why an operation ended without a result.

use core::fmt;

use crate::{Abort, AbortCause, MemberSet, Nanos, Operation};

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

/// Nanoseconds as seconds with one decimal.
struct Seconds(Nanos);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} s", self.0 / 1_000_000_000, self.0 / 100_000_000 % 10)
    }
}

/// `rank 2` or `ranks 2, 3`.
struct Ranks(MemberSet);

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank{} {}", if self.0.len() == 1 { "" } else { "s" }, self.0)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AggregatorSilent {
                waited,
                chunk,
                op_seq,
                operation,
            } => write!(
                f,
                "the aggregator has not answered for {} (operation {op_seq}, {operation}, chunk {chunk})",
                Seconds(*waited)
            ),
            Self::MembersMissing {
                missing,
                waited,
                chunk,
                op_seq,
                operation,
            } => write!(
                f,
                "{} did not contribute within {} (operation {op_seq}, {operation}, chunk {chunk})",
                Ranks(*missing),
                Seconds(*waited)
            ),
            Self::OthersMissing {
                waited,
                chunk,
                op_seq,
                operation,
            } => write!(
                f,
                "ranks of other aggregators of the tree did not contribute within {} (operation {op_seq}, {operation}, \
                 chunk {chunk})",
                Seconds(*waited)
            ),
            Self::Excluded => f.write_str(
                "this rank was removed from the job, which goes on without it: it was not heard for too long; start it \
                 again when the job starts anew",
            ),
            Self::OperationDiffers {
                mine,
                op_seq,
                theirs,
                their_seq,
                agreeing,
                offender,
            } => {
                write!(
                    f,
                    "the ranks disagree on operation {op_seq}: this rank calls {mine}, "
                )?;
                match theirs {
                    Some(theirs) if (theirs, their_seq) == (mine, op_seq) => {
                        write!(
                            f,
                            "as {} did, rank {offender} calls something else",
                            Ranks(*agreeing)
                        )
                    }
                    Some(theirs) => {
                        write!(f, "{} called {theirs} as operation {their_seq}", Ranks(*agreeing))
                    }
                    None => write!(
                        f,
                        "{} called an operation unknown to this version",
                        Ranks(*agreeing)
                    ),
                }
            }
            Self::ScaleDiffers { chunk, offender } => write!(
                f,
                "rank {offender} scaled chunk {chunk} differently: a defect, or ranks of different versions"
            ),
            Self::Aborted(Abort { cause, member }) => match cause {
                AbortCause::LostMember => write!(f, "the job was aborted: rank {member} was lost"),
                AbortCause::MemberFailed => write!(f, "the job was aborted: rank {member} gave up or left"),
                AbortCause::Ended => f.write_str("the job was ended by the aggregator"),
            },
        }
    }
}

impl core::error::Error for Failure {}

//! A failure in words, with names for members.

use core::fmt;

use super::Failure;
use crate::{Abort, AbortCause, MAX_MEMBERS, MemberSet, Nanos};

/// A failure whose members are written by `name`.
pub(super) struct Named<N> {
    pub(super) failure: Failure,
    pub(super) name: N,
}

/// Nanoseconds as seconds with one decimal.
struct Seconds(Nanos);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} s", self.0 / 1_000_000_000, self.0 / 100_000_000 % 10)
    }
}

/// Some members by name; none where they are another aggregator's.
struct Members<'n, N> {
    set: Option<MemberSet>,
    name: &'n N,
}

impl<N> fmt::Display for Members<'_, N>
where
    N: Fn(MemberSet, &mut fmt::Formatter<'_>) -> fmt::Result,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.set {
            Some(set) => (self.name)(set, f),
            None => f.write_str("a rank of another aggregator"),
        }
    }
}

impl<N> Named<N> {
    fn members(&self, set: MemberSet) -> Members<'_, N> {
        Members {
            set: (!set.is_empty()).then_some(set),
            name: &self.name,
        }
    }

    /// One member; 255 is one of another aggregator (R-LEAF-5).
    fn member(&self, member: u8) -> Members<'_, N> {
        Members {
            set: (usize::from(member) < MAX_MEMBERS).then(|| MemberSet::single(member)),
            name: &self.name,
        }
    }
}

impl<N> fmt::Display for Named<N>
where
    N: Fn(MemberSet, &mut fmt::Formatter<'_>) -> fmt::Result,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failure {
            Failure::AggregatorSilent {
                waited,
                chunk,
                op_seq,
                operation,
            } => write!(
                f,
                "the aggregator has not answered for {} (operation {op_seq}, {operation}, chunk {chunk})",
                Seconds(waited)
            ),
            Failure::MembersMissing {
                missing,
                waited,
                chunk,
                op_seq,
                operation,
            } => write!(
                f,
                "{} did not contribute within {} (operation {op_seq}, {operation}, chunk {chunk})",
                self.members(missing),
                Seconds(waited)
            ),
            Failure::OthersMissing {
                waited,
                chunk,
                op_seq,
                operation,
            } => write!(
                f,
                "ranks of other aggregators of the tree did not contribute within {} (operation {op_seq}, {operation}, \
                 chunk {chunk})",
                Seconds(waited)
            ),
            Failure::Excluded => f.write_str(
                "this rank was removed from the job, which goes on without it: it was not heard for too long; start it \
                 again when the job starts anew",
            ),
            Failure::OperationDiffers {
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
                            "as {} did, {} calls something else",
                            self.members(agreeing),
                            self.member(offender)
                        )
                    }
                    Some(theirs) => {
                        write!(f, "{} called {theirs} as operation {their_seq}", self.members(agreeing))
                    }
                    None => write!(
                        f,
                        "{} called an operation unknown to this version",
                        self.members(agreeing)
                    ),
                }
            }
            Failure::ScaleDiffers { chunk, offender } => write!(
                f,
                "{} scaled chunk {chunk} differently: a defect, or ranks of different versions",
                self.member(offender)
            ),
            Failure::Aborted(Abort { cause, member }) => match cause {
                AbortCause::LostMember => {
                    write!(f, "the job was aborted: {} was lost", self.member(member))
                },
                AbortCause::MemberFailed => {
                    write!(f, "the job was aborted: {} gave up or left", self.member(member))
                },
                AbortCause::Ended => f.write_str("the job was ended by the aggregator"),
            },
        }
    }
}

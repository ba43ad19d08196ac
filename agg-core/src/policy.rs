//! When a slot is complete (R-SLOT-7, R-QUORUM).

use crate::{MemberSet, Nanos, kind, operation};

/// When a slot is complete.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Policy {
    /// With every expected member. Exact.
    #[default]
    All,
    /// Sums and averages of floats are let go with fewer; everything else waits for all (R-QUORUM-1).
    Quorum {
        /// With at least so many members,
        members: u8,
        /// when so long has passed since the first of them came.
        grace: Nanos,
    },
}

impl Policy {
    /// Whether a round may be over before every member has contributed to it, so that what was summed must be kept until
    /// every member has moved on (R-QUORUM-3).
    #[inline(always)]
    pub const fn keeps_history(self) -> bool {
        matches!(self, Self::Quorum { .. })
    }

    /// The time that a quorum gives the others.
    pub(crate) const fn grace(self) -> Option<Nanos> {
        match self {
            Self::All => None,
            Self::Quorum { grace, .. } => Some(grace),
        }
    }

    /// Whether a slot of an operation with this tag may go with the members `set`, `age` after the first of them came.
    /// Members that are `late` are not waited for.
    #[inline(always)]
    pub fn releases(self, op: u64, set: MemberSet, expected: MemberSet, late: MemberSet, age: Nanos) -> bool {
        let Self::Quorum { members, grace } = self else {
            return false;
        };
        kind::is_scaled(operation::kind_of(op))
            && !set.is_empty()
            && set.len() >= u32::from(members).min(expected.len())
            && (age >= grace || expected.is_subset(set.union(late)))
    }
}

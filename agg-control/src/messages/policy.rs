//! What the ranks of a world want to be done about those that are late or lost.

use std::time::Duration;

/// When a slot is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// When every member's contribution is in.
    #[default]
    All,
    /// When enough members are in and the others had some time: a sum of f32 may then lack some members.
    Quorum {
        /// Members that must be in.
        members: u8,
        /// Time that the others have, since the first contribution.
        grace: Duration,
        /// Bytes of slot memory that may be used on each shard so that the first members can run ahead of the last.
        history_bytes: u64,
    },
}

/// What becomes of a job when one of its ranks is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnLost {
    /// It ends.
    #[default]
    Abort,
    /// It goes on without the rank.
    Shrink,
}

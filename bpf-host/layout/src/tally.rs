//! What is counted: each of the core's counters, then the program's own.

use agg_core::Counter;

/// What the program counts besides the core's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Tally {
    /// Packets given to user space, since the answer needs more room than they have.
    Relayed = 0,
    /// Packets that the kernel did not let the program send.
    Unsent = 1,
}

/// Counters in map `COUNTERS`.
pub const TALLIES: usize = Counter::ALL.len() + Tally::ALL.len();

impl Tally {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Relayed, Self::Unsent];

    /// Its place in map `COUNTERS`.
    pub const fn index(self) -> u32 {
        Counter::ALL.len() as u32 + self as u32
    }

    /// Its name on status pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relayed => "xdp_relayed_to_user_space",
            Self::Unsent => "xdp_not_sent",
        }
    }
}

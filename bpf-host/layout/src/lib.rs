//! What the eBPF maps hold: plain words that the program inside the kernel and its loader, built by different compilers,
//! read alike.
#![no_std]
#![forbid(unsafe_code)]

mod entry;
mod rows;
mod tally;

pub use entry::{HeadEntry, JobEntry, MemberEntry, Route};
pub use rows::{ROW_BYTES, ROW_LANES, Rows};
pub use tally::{TALLIES, Tally};

/// Jobs that run at the same time.
pub const MAX_JOBS: usize = 16;

/// Chunk sizes that the program has code for, in lanes.
pub const LANES: [usize; 3] = [256, 352, 848];

/// The largest of them.
pub const MAX_LANES: usize = 848;

/// Ethernet, IPv4 without options, UDP: what lies before a packet of ours.
pub const FRAMING: usize = 14 + 20 + 8;

/// Bytes of the largest frame, from its Ethernet header on.
pub const MAX_FRAME: usize = FRAMING + agg_core::wire::packet_len(MAX_LANES);

/// The entry of the members' array of a job's member.
pub const fn member_index(job: u32, member: u8) -> u32 {
    job * agg_core::MAX_MEMBERS as u32 + member as u32
}

/// Bytes that an Ethernet interface must carry in an IP packet for chunks of so many lanes.
pub const fn mtu(lanes: usize) -> usize {
    FRAMING - 14 + agg_core::wire::packet_len(lanes)
}

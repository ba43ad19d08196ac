//! What ranks ask of the control service and what it answers. Server and client share these types.

mod policy;
mod resume;
mod status;

use std::net::SocketAddr;
use std::time::Duration;

pub use self::policy::{OnLost, Policy};
pub use self::resume::{Boundary, Resume};
pub use self::status::{Description, JobStatus, RankState, RankStatus, Status, WaitingWorld};
use crate::plane::AbortReason;

/// The registration of a worker, or of a child aggregator that stands for several ranks, for a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Name of the world: 1 to 128 bytes, no control characters.
    pub world: String,
    /// Ranks of the world, 1 to 4096.
    pub size: u32,
    /// A worker's rank; of a child aggregator the ranks that registered there so far. Ascending, each once, below `size`.
    pub ranks: Vec<u32>,
    /// It comes from an aggregator whose members' ranks these are.
    pub child: bool,
    /// Random per process and not 0: a retry keeps the nonce, another process has a different one.
    pub nonce: u64,
    /// Address of the rank's UDP socket for each stream; stream s talks to shard s.
    pub endpoints: Vec<SocketAddr>,
    /// Largest UDP payload, in bytes, that the path to the aggregator carries.
    pub max_datagram: u32,
    /// Smallest receive buffer of the sockets, in bytes as `getsockopt(SO_RCVBUF)` returns it; 0: unknown.
    pub receive_buffer: u64,
    /// Of a child aggregator: bytes of slot memory that the world may take on each of its shards.
    pub slot_memory: Option<u64>,
    /// Chunk size to use, in i32 values a packet; `None`: the largest that every rank's path carries.
    pub lanes: Option<u32>,
    /// Chunks in flight per rank and stream, rounded up to a power of two; `None`: the aggregator chooses.
    pub window: Option<u32>,
    /// When a slot is complete. All ranks ask for the same.
    pub policy: Policy,
    /// What becomes of the job when a rank is lost. All ranks ask for the same.
    pub on_lost: OnLost,
    /// Share of the host's memory and time, 1 to 1000, against that of other worlds. All ranks ask for the same.
    pub weight: u16,
    /// Worlds that wait for memory are admitted in the order of this, highest first. All ranks ask for the same.
    pub priority: u8,
    /// How long to wait for the other ranks.
    pub wait: Duration,
    /// Of a rank whose job runs already: go on with it here.
    pub resume: Option<Resume>,
}

impl Registration {
    /// A default weight.
    pub const WEIGHT: u16 = 1;

    /// The lowest of its ranks, by which a member is named.
    pub fn rank(&self) -> u32 {
        self.ranks.first().copied().unwrap_or(0)
    }
}

/// A member of a running job, as it identifies itself to the control service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// The job's key.
    pub key: u64,
    /// Its rank; of a child aggregator the lowest of its ranks.
    pub rank: u32,
    /// The nonce it registered with.
    pub nonce: u64,
}

/// A job that can start: all ranks have registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Random and not 0; goes into every data packet.
    pub key: u64,
    /// The job's epoch at this aggregator; goes into every data packet.
    pub epoch: u32,
    /// This member's number at this aggregator; goes into every data packet.
    pub member: u8,
    /// The ranks of each member of this aggregator, by member number.
    pub members: Vec<Vec<u32>>,
    /// Ranks that the whole job has now, below this aggregator and elsewhere.
    pub workers: u32,
    /// Chunk size in i32 values a packet.
    pub lanes: u16,
    /// Chunks in flight per rank and stream, a power of two.
    pub window: u16,
    /// Generations of a slot that the aggregator keeps.
    pub generations: u16,
    /// Number of streams; stream s talks to shard s.
    pub streams: u16,
    /// How often to send a heartbeat.
    pub heartbeat: Duration,
    /// The job ends if a rank is not heard for this long.
    pub lost_after: Duration,
    /// When a slot is complete.
    pub policy: Policy,
    /// Where the job goes on, if it goes on without some of its ranks.
    pub boundary: Option<Boundary>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pulse {
    /// The job goes on.
    Ok,
    /// The job has ended for the reason given.
    Aborted(AbortReason),
    /// There is no such job: it ended some time ago, or the aggregator has restarted.
    UnknownJob,
    /// The job comes together again: register again, with `resume`.
    Reform,
    /// The job goes on without this member, for the reason given.
    Excluded(AbortReason),
}

/// The answer to a rank that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Ranks that had not left when the linger time passed or the job was aborted; 0: all have left.
    pub remaining: u32,
    /// Why the job was aborted, if it was.
    pub aborted: Option<AbortReason>,
}

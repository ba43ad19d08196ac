//! What ranks ask of the control service and what it answers. Server and client share these types.

use std::net::SocketAddr;
use std::time::Duration;

use crate::plane::{AbortReason, Capabilities, ShardCounters};

/// One rank's registration for a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Name of the world: 1 to 128 bytes, no control characters.
    pub world: String,
    /// Ranks of the world, 1 to 64.
    pub size: u32,
    /// This rank, below `size`.
    pub rank: u32,
    /// Random per process and not 0: a retry keeps the nonce, another process has a different one.
    pub nonce: u64,
    /// Address of the rank's UDP socket for each stream; stream s talks to shard s.
    pub endpoints: Vec<SocketAddr>,
    /// Largest UDP payload, in bytes, that the path to the aggregator carries.
    pub max_datagram: u32,
    /// Smallest receive buffer of the sockets, in bytes as `getsockopt(SO_RCVBUF)` returns it; 0: unknown.
    pub receive_buffer: u64,
    /// Chunk size to use, in i32 values a packet; `None`: the largest that every rank's path carries.
    pub lanes: Option<u32>,
    /// Chunks in flight per rank and stream, rounded up to a power of two; `None`: the aggregator chooses.
    pub window: Option<u32>,
    /// How long to wait for the other ranks.
    pub wait: Duration,
}

/// A rank of a running job, as it identifies itself to the control service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// The job's key.
    pub key: u64,
    /// The rank.
    pub rank: u32,
    /// The nonce it registered with.
    pub nonce: u64,
}

/// A job that can start: all ranks have registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Random and not 0; goes into every data packet.
    pub key: u64,
    /// The aggregator's epoch; goes into every data packet.
    pub epoch: u32,
    /// Ranks of the job.
    pub ranks: u32,
    /// Chunk size in i32 values a packet.
    pub lanes: u16,
    /// Chunks in flight per rank and stream, a power of two.
    pub window: u16,
    /// Number of streams; stream s talks to shard s.
    pub streams: u16,
    /// How often to send a heartbeat.
    pub heartbeat: Duration,
    /// The job ends if a rank is not heard for this long.
    pub lost_after: Duration,
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
}

/// The answer to a rank that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Ranks that had not left when the linger time passed or the job was aborted; 0: all have left.
    pub remaining: u32,
    /// Why the job was aborted, if it was.
    pub aborted: Option<AbortReason>,
}

/// What an aggregator is and has, and how much of it is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// What the host is and has.
    pub host: Capabilities,
    /// Bytes of slot memory that are free on the fullest shard.
    pub memory_free: u64,
}

impl Description {
    /// Bytes of slot memory in use on the fullest shard.
    pub fn memory_used(&self) -> u64 {
        self.host.memory_per_shard.saturating_sub(self.memory_free)
    }
}

/// Everything an operator wants to see of an aggregator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The host and its memory.
    pub description: Description,
    /// No new worlds are taken.
    pub draining: bool,
    /// Running jobs, and ended ones that are still remembered.
    pub jobs: Vec<JobStatus>,
    /// Worlds that wait for ranks.
    pub waiting: Vec<WaitingWorld>,
    /// Counters of each shard.
    pub shards: Vec<ShardCounters>,
    /// Counters summed over the shards.
    pub total: Vec<(String, u64)>,
}

/// One job of a [`Status`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatus {
    /// Name of the world.
    pub name: String,
    /// Number of ranks.
    pub size: u32,
    /// Chunk size in i32 values a packet.
    pub lanes: u16,
    /// Chunks in flight per rank and stream.
    pub window: u16,
    /// Number of streams.
    pub streams: u16,
    /// Time since all ranks had registered.
    pub age: Duration,
    /// Each rank, in order.
    pub ranks: Vec<RankStatus>,
    /// Why the job was aborted, if it was.
    pub aborted: Option<AbortReason>,
}

/// One rank of a [`JobStatus`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankStatus {
    /// The rank.
    pub rank: u32,
    /// What it does.
    pub state: RankState,
    /// Address of its first stream.
    pub address: SocketAddr,
    /// Time since it was heard on the control service.
    pub heard: Duration,
    /// Chunks whose result it has, as its last heartbeat said.
    pub progress: u64,
}

/// What a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RankState {
    /// Registered, but no heartbeat came yet.
    Registered,
    /// Sends heartbeats.
    Running,
    /// Has left: it has all its results.
    Left,
    /// Was not heard for too long.
    Lost,
}

/// A world that waits for ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingWorld {
    /// Its name.
    pub name: String,
    /// Its number of ranks.
    pub size: u32,
    /// Ranks that have not registered.
    pub missing: Vec<u32>,
    /// Time since its first rank registered.
    pub age: Duration,
}

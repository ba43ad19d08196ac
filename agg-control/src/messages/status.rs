//! What an operator sees of an aggregator.

use std::net::SocketAddr;
use std::time::Duration;

use super::Policy;
use crate::plane::{AbortReason, Capabilities, ShardCounters};

/// What an aggregator is and has, and how much of it is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// What the host is and has.
    pub host: Capabilities,
    /// Bytes of memory that one more job can have on the fullest shard: not all that is free, as it need not be in one
    /// piece, and slots have headers besides values.
    pub memory_free: u64,
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
    /// Worlds that wait for ranks or memory.
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
    /// Ranks that the world had at its start.
    pub size: u32,
    /// Ranks that it has now.
    pub workers: u32,
    /// Chunk size in i32 values a packet.
    pub lanes: u16,
    /// Chunks in flight per rank and stream.
    pub window: u16,
    /// Generations of a slot that are kept.
    pub generations: u16,
    /// Number of streams.
    pub streams: u16,
    /// When a slot is complete.
    pub policy: Policy,
    /// Its order in the queue for memory.
    pub priority: u8,
    /// Its share of memory and time.
    pub weight: u16,
    /// Time since all ranks had registered.
    pub age: Duration,
    /// Each member of this aggregator, in order.
    pub ranks: Vec<RankStatus>,
    /// Why the job was aborted, if it was.
    pub aborted: Option<AbortReason>,
}

/// One member of a [`JobStatus`]: a rank, or a child aggregator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankStatus {
    /// The rank; of a child aggregator the lowest of its ranks.
    pub rank: u32,
    /// All ranks that it stands for.
    pub ranks: Vec<u32>,
    /// It is an aggregator.
    pub child: bool,
    /// What it does.
    pub state: RankState,
    /// Address of its first stream.
    pub address: SocketAddr,
    /// Time since it was heard on the control service.
    pub heard: Duration,
    /// Chunks whose result it has, as its last heartbeat said.
    pub progress: u64,
    /// Chunks that it is behind the first member.
    pub lag_chunks: u64,
    /// How long slots have waited for it.
    pub lag: Duration,
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
    /// The job comes together again, and this member has not registered again yet.
    Reforming,
}

/// A world that waits for ranks, or for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingWorld {
    /// Its name.
    pub name: String,
    /// Its number of ranks.
    pub size: u32,
    /// Ranks that have not registered; below a parent aggregator those that have not registered here.
    pub missing: Vec<u32>,
    /// All ranks are there: it waits for memory.
    pub queued: bool,
    /// Its order in the queue for memory.
    pub priority: u8,
    /// Time since its first rank registered.
    pub age: Duration,
}

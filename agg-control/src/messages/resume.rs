//! How a job goes on at another aggregator, at a restarted one, or without some of its ranks.

/// What a member knows of its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The job's key.
    pub key: u64,
    /// The last epoch that this member used.
    pub epoch: u32,
    /// Chunk size in i32 values a packet.
    pub lanes: u16,
    /// Chunks in flight per rank and stream.
    pub window: u16,
    /// Generations of a slot.
    pub generations: u16,
    /// Number of streams.
    pub streams: u16,
    /// Operations completed on all streams; of a child aggregator the most of any of its ranks.
    pub operations: u32,
    /// For each stream the number after the last chunk of the last operation started; of a child aggregator the
    /// highest of any of its ranks.
    pub next_chunks: Vec<u64>,
}

/// Where a job that lost ranks goes on: the operation in flight fails on every rank, the next one works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary {
    /// The operation that fails.
    pub failed_operation: u32,
    /// For each stream the number of the next operation's first chunk.
    pub next_chunks: Vec<u64>,
    /// The ranks without which it goes on.
    pub lost: Vec<u32>,
}

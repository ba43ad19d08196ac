//! What a communicator has done.

use std::time::Duration;

/// What a communicator has done since it was connected.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stats {
    /// Operations that ended with a result.
    pub operations: u64,
    /// Bytes of the tensors that were reduced.
    pub tensor_bytes: u64,
    /// Time in operations.
    pub busy: Duration,
    /// Of that: slept with chunks left to send, of which none was allowed before more results came; the mean of the streams.
    pub stalled: Duration,
    /// Packets sent, resends among them.
    pub packets_sent: u64,
    /// Packets for which there was no room or no way: they were sent again.
    pub packets_unsent: u64,
    /// Packets that came and were dropped: damaged, too long, or not of this job.
    pub packets_invalid: u64,
    /// Chunks sent again, for whatever reason.
    pub resends: u64,
    /// Of those: since the resend timer fired.
    pub resends_timeout: u64,
    /// Of those: since later chunks were answered first.
    pub resends_overtaken: u64,
    /// Of those: since the aggregator asked.
    pub resends_wanted: u64,
    /// Results that the network has marked, or a contribution in them: a queue was long (ECN).
    pub marked: u64,
    /// How often a stream has put fewer chunks in flight, since the network was congested.
    pub congestion_decreases: u64,
    /// Results taken, one a chunk.
    pub results: u64,
    /// Of those: sums that do not hold this rank's values, since it was late.
    pub late: u64,
    /// Small operations that took one round trip, by exponents like those of the last (R-NUM-11).
    pub predicted: u64,
    /// Small operations that were to, but for exponents that proved others.
    pub mispredicted: u64,
    /// Parts of operations, one a stream, whose exponents were agreed on while the operation before ran (R-OP-7).
    pub announced: u64,
    /// Times that the job moved to another aggregator, or came together again.
    pub moves: u64,
    /// Packets lost by injected faults.
    pub injected_losses: u64,
    /// The smoothed round trip of the first stream.
    pub round_trip: Duration,
    /// Chunks that may be in flight now on the first stream: the congestion window, at most `window`.
    pub congestion_window: u32,
    /// Chunk size, in 32-bit lanes.
    pub lanes: u32,
    /// Chunks in flight on each stream, at most.
    pub window: u32,
    /// Streams.
    pub streams: u32,
    /// Packets go through memory that is shared with the aggregator, not through sockets.
    pub shared_memory: bool,
}

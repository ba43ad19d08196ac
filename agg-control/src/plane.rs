//! What a data plane (UDP, DPDK, eBPF) offers to the control service: the only thing a host implements.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

/// The data plane of one aggregator host, as the control service sees it.
///
/// The calls come from one thread of the control service, one at a time, and hold up other registrations:
/// they should take milliseconds at most.
pub trait DataPlane: Send + Sync + 'static {
    /// What this host is and has.
    fn describe(&self) -> Capabilities;

    /// Reserves the slots of a job on shards `0..streams` and binds its members' addresses: all or nothing.
    ///
    /// # Errors
    /// Any reason why the job cannot run here; nothing is reserved then.
    fn admit(&self, job: &JobSpec) -> Result<(), AdmitError>;

    /// Refuses every packet of the job from now on, naming the reason. The slots stay reserved until `release`.
    fn abort(&self, key: u64, reason: &AbortReason);

    /// Forgets the job and frees its slots. Called exactly once for each admitted job.
    fn release(&self, key: u64);

    /// The counters of each shard.
    fn counters(&self) -> Vec<ShardCounters>;

    /// Bytes of slot memory that are free on the fullest shard.
    fn free_memory(&self) -> u64;
}

/// Which data plane moves the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostKind {
    /// Ordinary UDP sockets.
    Udp,
    /// DPDK poll-mode cores.
    Dpdk,
    /// eBPF/XDP in the kernel.
    Ebpf,
}

impl fmt::Display for HostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostKind::Udp => "udp",
            HostKind::Dpdk => "dpdk",
            HostKind::Ebpf => "ebpf",
        })
    }
}

/// What an aggregator host is and has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Which data plane it is.
    pub kind: HostKind,
    /// Version of the host program.
    pub version: String,
    /// Raised at each start of the aggregator; travels in every data packet.
    pub epoch: u32,
    /// IP address of the data plane; `None`: the same as that of the control service.
    pub data_ip: Option<IpAddr>,
    /// Shard s receives on UDP port `base_port + s`.
    pub base_port: u16,
    /// Number of shards, at least 1.
    pub shards: u16,
    /// Chunk sizes it can sum, in i32 values a packet.
    pub lanes: Vec<u16>,
    /// Bytes of slot memory of each shard.
    pub memory_per_shard: u64,
    /// Receive buffer of each shard's socket in bytes, as `SO_RCVBUF` counts them; 0: no socket, no such limit.
    pub receive_buffer: u64,
}

/// A job as the data plane gets it: everything negotiated, all members known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// Random and not 0; travels in every data packet.
    pub key: u64,
    /// Name of the world.
    pub name: String,
    /// Source addresses, by `[rank][stream]`. IPv4 addresses are never in their IPv6-mapped form.
    pub members: Vec<Vec<SocketAddr>>,
    /// Chunk size in i32 values a packet.
    pub lanes: u16,
    /// Chunks in flight per rank and stream, a power of two, at least 2.
    pub window: u16,
    /// Number of shards used.
    pub streams: u16,
}

impl JobSpec {
    /// Slot memory that the job needs on each shard, in bytes.
    pub fn memory_per_shard(&self) -> u64 {
        crate::sizing::slot_memory(self.lanes, self.window)
    }
}

/// Why a data plane does not take a job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AdmitError {
    /// The slots do not fit.
    #[error(
        "the slots need {needed} bytes per shard, {free} are free: request a smaller window or wait for other \
         jobs to end"
    )]
    OutOfMemory {
        /// Bytes per shard.
        needed: u64,
        /// Bytes free on the fullest shard.
        free: u64,
    },
    /// The table of jobs is full.
    #[error("the aggregator's table of {limit} jobs is full: wait for other jobs to end")]
    TooManyJobs {
        /// Jobs that the table holds.
        limit: usize,
    },
    /// Anything else; the text says what failed, with which values, and what to do.
    #[error("{0}")]
    Other(String),
}

/// Why a job ended before all its ranks left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbortReason {
    /// The rank that failed or was lost, if one did.
    pub rank: Option<u32>,
    /// What kind of failure.
    pub kind: AbortKind,
    /// One line for a human.
    pub text: String,
}

/// What kind of failure ended a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AbortKind {
    /// A rank said that it failed.
    Reported,
    /// A rank was not heard for too long.
    Lost,
    /// The aggregator shut down.
    Shutdown,
}

impl fmt::Display for AbortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AbortKind::Reported => "reported",
            AbortKind::Lost => "lost",
            AbortKind::Shutdown => "shutdown",
        })
    }
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The counters of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardCounters {
    /// The shard's number.
    pub shard: u16,
    /// Names and values, in the order to show them.
    pub values: Vec<(String, u64)>,
}

/// Sums counters of the same name over all shards, in the order in which the names appear first.
pub fn total(shards: &[ShardCounters]) -> Vec<(String, u64)> {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for (name, value) in shards.iter().flat_map(|shard| &shard.values) {
        match sums.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum = sum.wrapping_add(*value),
            None => sums.push((name.clone(), *value)),
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_by_name_in_order_of_appearance() {
        let shard = |shard, values: &[(&str, u64)]| ShardCounters {
            shard,
            values: values
                .iter()
                .map(|(name, value)| (name.to_string(), *value))
                .collect(),
        };
        let shards = [
            shard(0, &[("merged", 3), ("stale", 1)]),
            shard(1, &[("merged", 4), ("want", 2)]),
        ];
        let expected =
            [("merged", 7), ("stale", 1), ("want", 2)].map(|(name, value)| (name.to_string(), value));
        assert_eq!(total(&shards), expected);
    }
}

//! What a data plane (UDP, DPDK, eBPF) offers to the control service: the only thing a host implements.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use thiserror::Error;

use crate::messages::Policy;

/// The data plane of one aggregator host, as the control service sees it.
///
/// The calls come from one thread of the control service, one at a time, and hold up other registrations:
/// they should take milliseconds at most.
pub trait DataPlane: Send + Sync + 'static {
    /// What this host is and has.
    fn describe(&self) -> Capabilities;

    /// Reserves the slots of a job on shards `0..streams` and binds its members' addresses: all or nothing. It replaces
    /// a suspended job of the same key, whose slots are then empty again.
    ///
    /// # Errors
    /// Any reason why the job cannot run here; nothing is reserved then, and a suspended job of the key is as before.
    fn admit(&self, job: &JobSpec) -> Result<(), AdmitError>;

    /// Refuses every packet of the job with reason 7 (it re-forms), until `admit` or `release`. The slots stay reserved.
    fn suspend(&self, key: u64);

    /// Goes on without a member of a job under a quorum: it is not expected any more, its packets are refused with
    /// reason 8.
    fn exclude(&self, key: u64, member: u8);

    /// Refuses every packet of the job from now on, naming the reason. The slots stay reserved until `release`.
    fn abort(&self, key: u64, reason: &AbortReason);

    /// Forgets the job and frees its slots. Called exactly once for each job, however often it was admitted again.
    fn release(&self, key: u64);

    /// The counters of each shard.
    fn counters(&self) -> Vec<ShardCounters>;

    /// Bytes of the largest free extent of slot memory on the fullest shard: what one more job can get.
    fn free_memory(&self) -> u64;

    /// How far each member of a job is behind, by member number; the worst over the shards. Empty for an unknown job.
    fn lags(&self, key: u64) -> Vec<MemberLag>;

    /// How an aggregator at `parent_data` reaches this host's shards.
    ///
    /// # Errors
    /// One line that says why it cannot, and what to do.
    fn local_endpoints(&self, parent_data: SocketAddr) -> Result<Uplink, String>;

    /// Bytes of the largest UDP payload that gets from here to the first shard of `parent`, which receives at `data`, and back;
    /// `None` where that is not known, and [`Uplink::max_datagram`] decides (R-PROBE-3). Unlike the others this call holds up
    /// nobody, and may take two seconds.
    fn probe(&self, _parent: &Capabilities, _data: SocketAddr) -> Option<u32> {
        None
    }

    /// A job's key, made of a random one that is not 0: as random, but spread over the host's queues.
    fn pick_key(&self, random: u64) -> u64 {
        random
    }
}

/// How far a member is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberLag {
    /// Chunks behind the first member.
    pub chunks: u64,
    /// How long the slot that waited longest has waited for it.
    pub waiting: Duration,
}

/// Where a parent aggregator reaches this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    /// Address of each shard.
    pub endpoints: Vec<SocketAddr>,
    /// Largest UDP payload, in bytes, that the path to the parent carries.
    pub max_datagram: u32,
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
    /// Frames that wait in an interface's receive ring at most, where the host takes them from there; 0: no such limit.
    pub receive_ring: u32,
    /// Whether it answers probes of its epoch (R-PROBE-2).
    pub answers_probes: bool,
    /// Name of the abstract Unix socket by which ranks of the same machine attach themselves, to send through shared memory;
    /// empty: there is none.
    pub shared_memory: String,
}

/// A job as the data plane gets it: everything negotiated, all members known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// Random and not 0; travels in every data packet.
    pub key: u64,
    /// Name of the world.
    pub name: String,
    /// The job's epoch here; travels in every data packet.
    pub epoch: u32,
    /// By member number, at most 64: in ascending order of each one's lowest rank.
    pub members: Vec<MemberSpec>,
    /// Ranks of the whole job, those below other aggregators included.
    pub workers: u32,
    /// Chunk size in i32 values a packet.
    pub lanes: u16,
    /// Chunks in flight per rank and stream, a power of two, at least 2.
    pub window: u16,
    /// Generations of a slot, a power of two, 2 to 64.
    pub generations: u16,
    /// Number of shards used.
    pub streams: u16,
    /// When a slot is complete.
    pub policy: Policy,
    /// Share of the host's time, against that of other jobs.
    pub weight: u16,
    /// Where the local sum goes, if this is not the root.
    pub parent: Option<ParentSpec>,
}

/// A member of a [`JobSpec`]: a worker, or a child aggregator that stands for several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSpec {
    /// Source address by stream. IPv4 addresses are never in their IPv6-mapped form. An
    /// [`attached_address`](crate::attached_address) is a host's that has [`Capabilities::shared_memory`], which must see
    /// whether it is one of its own.
    pub endpoints: Vec<SocketAddr>,
    /// How many workers it stands for.
    pub workers: u32,
    /// Their ranks, ascending.
    pub ranks: Vec<u32>,
}

/// The parent aggregator of a [`JobSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentSpec {
    /// Its shards' addresses by stream.
    pub endpoints: Vec<SocketAddr>,
    /// This host's member number there.
    pub member: u8,
    /// The job's epoch there.
    pub epoch: u32,
}

impl JobSpec {
    /// Slot memory that the job needs on each shard, in bytes.
    pub fn memory_per_shard(&self) -> u64 {
        crate::sizing::slot_memory(self.lanes, self.window, self.generations)
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

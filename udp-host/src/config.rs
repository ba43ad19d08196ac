//! What an aggregator host is told at its start.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use agg_control::ControlConfig;
use agg_host::{DEFAULT_CONTROL_PORT, DEFAULT_DATA_PORT};
use serde::{Deserialize, Serialize};

/// What an aggregator host is told at its start, as a TOML file has it too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// Where the control service listens (TCP); port 0: the kernel chooses.
    pub control_addr: SocketAddr,
    /// Where shard 0 receives (UDP); port 0: the kernel chooses.
    pub data_addr: SocketAddr,
    /// Shards: threads, each with a port and slots of its own.
    pub shards: u16,
    /// Receive queues of each shard, 2 to 64, a socket each: one for packets of no job, the jobs have the others. Jobs in
    /// different queues lose no packets to each other's load.
    pub queues: u16,
    /// Slot memory of each shard in MiB, allocated at the start.
    pub memory_mib: u64,
    /// Deeper memory of each shard in MiB, for jobs that ask for a larger window than the slot memory holds: sums that wait
    /// for a late rank are kept there. Reserved by the job that needs it; 0: none.
    pub store_mib: u64,
    /// Who lends the deeper memory (`tributary lend`), instead of this process: a prototype.
    pub lender: Option<SocketAddr>,
    /// A rank for which slots have waited so long is named in the log, in seconds.
    pub straggler_after: f64,
    /// Receive buffer of each of a shard's queues in KiB; the kernel may grant less (`net.core.rmem_max`).
    pub receive_buffer_kib: usize,
    /// How long a shard that has no packets looks for some again and again before it sleeps, in microseconds; the kernel is
    /// asked for the same (`SO_BUSY_POLL`). For a core that does nothing else.
    pub busy_poll_us: u32,
    /// Whether ranks of the same user on this machine are attached by shared memory, where that is Linux.
    pub shared_memory: bool,
    /// Settings of the control service.
    pub control: ControlConfig,
}

impl Default for HostConfig {
    fn default() -> Self {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self {
            control_addr: SocketAddr::new(any, DEFAULT_CONTROL_PORT),
            data_addr: SocketAddr::new(any, DEFAULT_DATA_PORT),
            shards: 1,
            queues: 8,
            memory_mib: 64,
            store_mib: 0,
            lender: None,
            straggler_after: 1.0,
            receive_buffer_kib: 8 << 10,
            busy_poll_us: 0,
            shared_memory: true,
            control: ControlConfig::default(),
        }
    }
}

impl HostConfig {
    /// An aggregator for this machine only, on ports that the kernel chooses.
    pub fn loopback() -> Self {
        let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Self {
            control_addr: loopback,
            data_addr: loopback,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_one() {
        let config: HostConfig = toml::from_str(include_str!("../../packaging/udp.toml")).unwrap();
        assert_eq!(config.shards, 2);
        assert!(config.control.validate().is_ok() && config.control.metrics.is_some());
    }
}

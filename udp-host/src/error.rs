//! Why a host does not start.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

/// Why a host does not start.
#[derive(Debug, Error)]
pub enum HostError {
    /// A setting, or the file with them, cannot be used.
    #[error(transparent)]
    Settings(#[from] agg_host::SettingsError),
    /// A socket could not be opened.
    #[error(transparent)]
    Port(#[from] udp_io::PortError),
    /// The control service does not start.
    #[error("{0}")]
    Control(String),
    /// No row of free ports was found.
    #[error(
        "no {shards} consecutive UDP ports are free on {addr}: choose a port with --data-addr, or fewer shards"
    )]
    Ports {
        /// Where they were looked for.
        addr: SocketAddr,
        /// Ports needed.
        shards: u16,
    },
    /// The slot memory cannot be allocated.
    #[error(
        "{bytes} bytes of slot memory for each of {shards} shards cannot be had: give less with --memory"
    )]
    Memory {
        /// Bytes of one shard.
        bytes: u64,
        /// Shards.
        shards: u16,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for shard {shard}: {source}")]
    Thread {
        /// The shard.
        shard: u16,
        /// What the system says.
        source: io::Error,
    },
    /// The aggregator would run, but no rank could connect.
    #[error("no room for the connections of ranks: {0}")]
    Room(io::Error),
    /// The thread that started it has panicked.
    #[error("the aggregator has panicked while it started, as said above: a defect, please report it")]
    Panicked,
    /// There is no way to the lender of memory.
    #[error("there is no way to the lender of memory {lender}: {source}")]
    Lender {
        /// The lender.
        lender: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

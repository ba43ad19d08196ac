//! Why the host does not start.

use std::io;
use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use crate::dpdk::DpdkError;

/// Why the host does not start.
#[derive(Debug, Error)]
pub enum HostError {
    /// A setting, or the file with them, cannot be used.
    #[error(transparent)]
    Settings(#[from] agg_host::SettingsError),
    /// DPDK refuses something.
    #[error(transparent)]
    Dpdk(#[from] DpdkError),
    /// No one receives there.
    #[error(
        "data_addr = {0} is no address of a port: give the one IP address and UDP port that packets go to"
    )]
    Address(SocketAddr),
    /// Nobody can be reached through it.
    #[error(
        "gateway = {gateway} and data_addr = {address} are of different families: give a gateway of the data address's"
    )]
    Gateway {
        /// The gateway.
        gateway: IpAddr,
        /// The data address.
        address: SocketAddr,
    },
    /// Nobody passes anything on there.
    #[error(
        "gateway = {gateway} with data_addr = {address} is no one to pass packets on: give another's address"
    )]
    GatewayIsNone {
        /// The gateway.
        gateway: IpAddr,
        /// The data address.
        address: SocketAddr,
    },
    /// A port runs once.
    #[error("port {0} is named twice: name each one once")]
    Twice(String),
    /// Nobody can know which.
    #[error("DPDK has several ports ({0}): choose one or more with --port")]
    Ports(String),
    /// Each shard has a core of its own.
    #[error(
        "{shards} shards need as many cores, DPDK has {cores}: list more with -l, or give fewer --shards"
    )]
    Cores {
        /// Shards that were asked for.
        shards: usize,
        /// Cores that `-l` or `--lcores` gave.
        cores: usize,
    },
    /// The kernel has the address too, and somebody receives there.
    #[error("the data address {addr} is taken: {source}: choose another port with --data-addr")]
    Taken {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The slot memory cannot be allocated.
    #[error("{0} bytes of slot memory cannot be had: give less with --memory")]
    Memory(u64),
    /// The control service does not start.
    #[error("{0}")]
    Control(String),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The core's thread is gone.
    #[error("the polling core ended while it started; see the log above")]
    Core,
}

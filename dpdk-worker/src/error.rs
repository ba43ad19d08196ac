//! Why packets do not go through a port.

use std::io;
use std::net::{IpAddr, SocketAddr};

use dpdk_host::dpdk::DpdkError;
use thiserror::Error;

/// Why packets do not go through a port.
#[derive(Debug, Error)]
pub enum PortError {
    /// DPDK refuses something.
    #[error(transparent)]
    Dpdk(#[from] DpdkError),
    /// A setting is out of range.
    #[error(transparent)]
    Settings(#[from] agg_host::SettingsError),
    /// No packet could go there.
    #[error("address {0} is no address of a port: give the one IP address and UDP port that packets come to")]
    Address(SocketAddr),
    /// Nobody passes anything on there.
    #[error(
        "gateway {gateway} of address {address} is no one to pass packets on: give another's address, of the same family"
    )]
    Gateway {
        /// The gateway.
        gateway: IpAddr,
        /// The port's address.
        address: SocketAddr,
    },
    /// Nobody can know which.
    #[error("DPDK has several ports ({0}): name one")]
    Several(String),
    /// The thread that starts DPDK cannot be had.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// It is gone.
    #[error("the thread that starts DPDK panicked; see the log above")]
    Panicked,
    /// Another family.
    #[error("the aggregator's data address is {to}, the port's {ours}: give both of one family")]
    Family {
        /// The aggregator's.
        to: SocketAddr,
        /// The port's.
        ours: IpAddr,
    },
    /// Another network.
    #[error(
        "the aggregator's data address {to} is not in {network}/{prefix}: give a gateway, or another prefix"
    )]
    NoGateway {
        /// The aggregator's.
        to: SocketAddr,
        /// The port's.
        network: IpAddr,
        /// Bits that all have in common there.
        prefix: u8,
    },
    /// No answer to ARP or neighbour discovery.
    #[error(
        "nobody answers for {hop} at port {device}: is the cable, or for memif the other process, there, and its address right?"
    )]
    NoAnswer {
        /// Who was asked for.
        hop: IpAddr,
        /// Where.
        device: String,
    },
    /// A port is for one rank.
    #[error("port {0} is in use by another communicator of this process: close that first")]
    Taken(String),
    /// Not so many.
    #[error("{streams} streams from UDP port {first} on are too many: the last port is 65535")]
    Streams {
        /// How many.
        streams: u16,
        /// The first one's port.
        first: u16,
    },
}

//! Why the host does not start.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::Mode;
use crate::maps::MapsError;

/// Why the host does not start.
#[derive(Debug, Error)]
pub enum HostError {
    /// A setting, or the file with them, cannot be used.
    #[error(transparent)]
    Settings(#[from] agg_host::SettingsError),
    /// Nothing to attach to.
    #[error("no interface is given: name those that lead to the ranks, with --interface eth0")]
    NoInterface,
    /// The program knows IPv4 only.
    #[error(
        "data_addr = {0} is IPv6, but this host sums IPv4 packets only: give an IPv4 address, or use udp-host"
    )]
    Ipv6(SocketAddr),
    /// The interface cannot be used.
    #[error("interface {name} cannot be used: {reason}")]
    Interface {
        /// Its name.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The kernel does not take the program.
    #[error("the kernel does not load the program {program}: {reason}")]
    Load {
        /// Which program of the object, or "object".
        program: String,
        /// What it says, on one line, and what to do.
        reason: String,
    },
    /// The kernel does not let the program run at the interface.
    #[error("the program cannot be attached to {interface} in {mode} mode: {reason}")]
    Attach {
        /// The interface.
        interface: String,
        /// Which mode was tried last.
        mode: Mode,
        /// What it says, on one line, and what to do.
        reason: String,
    },
    /// A map cannot be used.
    #[error(transparent)]
    Maps(#[from] MapsError),
    /// The socket for what the program passes on cannot be opened.
    #[error("the data address {addr} cannot be opened: {source}: choose another with --data-addr")]
    Socket {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The control service does not start.
    #[error("{0}")]
    Control(String),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

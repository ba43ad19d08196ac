//! Why a port could not be opened.

use std::{io, net::SocketAddr};

use rustix::io::Errno;
use thiserror::Error;

/// Why [`UdpPort::bind`](crate::UdpPort::bind) failed, and what to do about it.
#[derive(Debug, Error)]
pub enum PortError {
    /// Another socket holds the address.
    #[error("address {addr} is in use: another aggregator? choose another port")]
    InUse {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The address belongs to no interface of this machine.
    #[error("address {addr} is not one of this machine: use one that `ip address` lists, or {any} for all")]
    NotLocal {
        /// The address asked for.
        addr: SocketAddr,
        /// The wildcard address of the same family and port.
        any: SocketAddr,
    },
    /// The process may not bind this address.
    #[error("not permitted to bind {addr}: ports below 1024 need privileges, choose a higher one")]
    NotPermitted {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The kernel has no such address family, most often IPv6 disabled.
    #[error("this machine has no {family}, needed for {addr}: choose an address of the other family")]
    NoFamily {
        /// The address asked for.
        addr: SocketAddr,
        /// `IPv4` or `IPv6`.
        family: &'static str,
    },
    /// Anything else the kernel refused.
    #[error("cannot {action} for {addr}: {source}")]
    Socket {
        /// The address asked for.
        addr: SocketAddr,
        /// The step that failed, as an infinitive: `open a UDP socket`.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl PortError {
    /// Sorts the kernel's answer to `action` into what a user can act on.
    pub(crate) fn new(addr: SocketAddr, action: &'static str, source: io::Error) -> PortError {
        match Errno::from_io_error(&source) {
            Some(Errno::ADDRINUSE) => PortError::InUse { addr },
            Some(Errno::ADDRNOTAVAIL) => PortError::NotLocal {
                addr,
                any: wildcard(addr),
            },
            Some(Errno::ACCESS | Errno::PERM) => PortError::NotPermitted { addr },
            Some(Errno::AFNOSUPPORT) => PortError::NoFamily {
                addr,
                family: if addr.is_ipv4() { "IPv4" } else { "IPv6" },
            },
            _ => PortError::Socket { addr, action, source },
        }
    }
}

/// The address of all interfaces with the family and port of `addr`.
pub(crate) fn wildcard(addr: SocketAddr) -> SocketAddr {
    use std::net::{Ipv4Addr, Ipv6Addr};
    match addr {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, addr.port()).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, addr.port()).into(),
    }
}

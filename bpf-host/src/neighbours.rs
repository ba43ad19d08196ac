//! How frames get to a member or the parent: by which interface, from and to which Ethernet address.
//!
//! All of it is the kernel's own knowledge: its routes and its neighbours. The program sends frames without asking the
//! stack, so that the answers are put into the maps, and looked up anew each second.

mod arp_table;
mod interface;
mod route_table;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bpf_layout::Route;
use udp_io::local_ip_towards;

pub(crate) use self::interface::Interface;
use self::route_table::Hop;
use crate::interfaces::Interfaces;

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// How long a neighbour may take to say its Ethernet address.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(5);

/// The port of the discard service (RFC 863): what is sent there makes the kernel ask for the Ethernet address, and does
/// nothing else.
const DISCARD: u16 = 9;

/// Who knows the ways.
pub(crate) trait Neighbours: Send + Sync + 'static {
    /// How frames get to a peer. It may ask the network, and wait for the answer.
    ///
    /// # Errors
    /// There is no way that the program can take; one line that goes behind the peer's name.
    fn find(&self, peer: SocketAddr) -> Result<Route, String>;

    /// The same without waiting: `None` where it is not known now.
    fn look(&self, peer: SocketAddr) -> Option<Route>;
}

/// The kernel's tables.
pub(crate) struct Kernel {
    /// The interfaces that have the program.
    pub(crate) interfaces: Interfaces,
    /// The address that packets come from; unspecified: that of the way.
    pub(crate) local: Ipv4Addr,
    /// The port that they come from.
    pub(crate) port: u16,
}

/// A way of which only the next hop's Ethernet address may be missing.
struct Way {
    interface: Interface,
    from: Mac,
    source: Ipv4Addr,
    next: Ipv4Addr,
}

impl Kernel {
    fn way(&self, peer: SocketAddr) -> Result<Way, String> {
        let IpAddr::V4(to) = peer.ip() else {
            return Err(format!(
                "{peer} is an IPv6 address, and this host sends IPv4 packets only"
            ));
        };
        let no_way = |error| format!("there is no way to {peer}: {error}");
        let towards = local_ip_towards(peer).map_err(no_way)?;
        let IpAddr::V4(towards) = towards else {
            return Err(format!(
                "{peer} is reached from {towards}, which is no IPv4 address"
            ));
        };
        if towards == to {
            return Err(format!(
                "{peer} is this machine, whose packets to itself pass no interface: run the aggregator elsewhere, or use \
                 udp-host"
            ));
        }
        let table = fs::read_to_string("/proc/net/route").map_err(no_way)?;
        let Some(Hop { interface, next }) = route_table::hop(&table, to) else {
            return Err(format!(
                "{peer} is reached by no route of the kernel's main table, the only one that is looked at"
            ));
        };
        let Some(interface) = self.interfaces.find(&interface) else {
            let known = self.interfaces.list().into_iter().map(|known| known.name);
            let known: Vec<String> = known.collect();
            return Err(format!(
                "{peer} is reached by interface {interface}, but the program is at {} only: start bpf-host with \
                 --interface {interface} too",
                known.join(", ")
            ));
        };
        let Some(from) = interface.mac else {
            return Err(format!(
                "{peer} is reached by interface {}, which is no Ethernet interface",
                interface.name
            ));
        };
        Ok(Way {
            interface,
            from,
            source: if self.local.is_unspecified() {
                towards
            } else {
                self.local
            },
            next,
        })
    }

    fn route(&self, way: &Way) -> Option<Route> {
        let table = fs::read_to_string("/proc/net/arp").ok()?;
        Some(Route {
            interface: way.interface.index,
            to: arp_table::mac_of(&table, way.next, &way.interface.name)?,
            from: way.from,
            source: way.source.octets(),
            port: self.port,
            reserved: [0; 2],
        })
    }
}

impl Neighbours for Kernel {
    fn find(&self, peer: SocketAddr) -> Result<Route, String> {
        let way = self.way(peer)?;
        let deadline = Instant::now() + PATIENCE;
        let mut asked = false;
        loop {
            if let Some(route) = self.route(&way) {
                return Ok(route);
            }
            if !asked {
                asked = true;
                ask(way.next);
            }
            if Instant::now() >= deadline {
                return Err(format!(
                    "{peer} is behind {} at interface {}, which does not say its Ethernet address: is it running, and in \
                     the same network?",
                    way.next, way.interface.name
                ));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn look(&self, peer: SocketAddr) -> Option<Route> {
        let way = self.way(peer).ok()?;
        let route = self.route(&way);
        if route.is_none() {
            // The kernel forgets those that it does not send to itself.
            ask(way.next);
        }
        route
    }
}

/// Makes the kernel ask for an Ethernet address.
fn ask(next: Ipv4Addr) {
    // It does not matter whether it arrives.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let _ = socket.and_then(|socket| socket.send_to(&[], (next, DISCARD)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_the_program_cannot_send_to_is_refused_with_what_to_do() {
        let kernel = Kernel {
            interfaces: Interfaces::default(),
            local: Ipv4Addr::UNSPECIFIED,
            port: 4601,
        };
        let refused = |peer: &str| kernel.find(peer.parse().unwrap()).unwrap_err();
        assert!(refused("127.0.0.1:5").starts_with("127.0.0.1:5 is this machine"));
        assert!(refused("[::1]:5").contains("IPv4 packets only"));
    }
}

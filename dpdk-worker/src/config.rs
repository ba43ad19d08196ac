//! Which port a worker uses, and how.

use std::net::{IpAddr, SocketAddr};

use agg_host::frame::Framing;
use dpdk_host::{Idle, Network};

/// Which port a worker uses, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct PortConfig {
    /// DPDK's own arguments, as `dpdk-testpmd` takes them.
    pub eal: Vec<String>,
    /// The port, by the name that DPDK has for its device; it may be left out where there is one only.
    pub device: Option<String>,
    /// The port's own address, which the kernel need not have, and the UDP port of the first stream; the others have the next.
    pub address: SocketAddr,
    /// Bits of that address that all of the port's network have in common. 24, or 64 for IPv6.
    pub prefix: u8,
    /// Who passes on what goes to other networks.
    pub gateway: Option<IpAddr>,
    /// The VLAN that frames are in, 1 to 4094; left out: they have no tags.
    pub vlan: Option<u16>,
    /// Bytes of the largest IP packet; left out: what the port says. Virtual devices say 1500 and may carry more.
    pub mtu: Option<u16>,
    /// Queues of the port at most; left out: one for each stream, with net_memif one. Both ends of net_memif must have as many.
    pub queues: Option<u16>,
    /// Frames that each queue holds, receiving and sending.
    pub ring: u16,
    /// Mbufs for frames; more than all queues hold, receiving and sending.
    pub mbufs: u32,
    /// Room of each, in bytes.
    pub mbuf_room: u16,
    /// What a thread does in an operation while no frames come.
    pub idle: Idle,
}

impl PortConfig {
    /// The defaults, at an address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            eal: Vec::new(),
            device: None,
            address,
            prefix: if address.is_ipv6() { 64 } else { 24 },
            gateway: None,
            vlan: None,
            mtu: None,
            queues: None,
            ring: 1024,
            mbufs: 8191,
            mbuf_room: 2048,
            idle: Idle::default(),
        }
    }

    /// The network that the port is in.
    pub(crate) fn network(&self) -> Network {
        Network {
            address: self.address.ip(),
            prefix: self.prefix,
            gateway: self.gateway,
        }
    }

    /// What is in front of packets.
    pub(crate) fn framing(&self) -> Framing {
        Framing::new(&self.address, self.vlan)
    }
}

//! Which port a worker uses, and how.

use std::net::{IpAddr, SocketAddr};

use agg_host::frame::Framing;
use agg_host::in_range;
use dpdk_host::{Idle, Network};

use crate::PortError;

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

    /// Checks what can be checked without DPDK.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn validate(&self) -> Result<(), PortError> {
        let (address, ip) = (self.address, self.address.ip());
        // A v4 address in v6 clothes is never in an IPv6 header.
        let is_mapped = matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
        if ip.is_unspecified() || ip.is_multicast() || is_mapped || address.port() == 0 {
            return Err(PortError::Address(address));
        }
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let range = "0 to 32, with IPv6 to 128";
        in_range("prefix", self.prefix.into(), range, self.prefix <= most)?;
        if let Some(gateway) = self.gateway {
            let is_none = gateway == ip || gateway.is_unspecified() || gateway.is_multicast();
            if is_none || gateway.is_ipv4() != ip.is_ipv4() {
                return Err(PortError::Gateway { gateway, address });
            }
        }
        if let Some(vlan) = self.vlan {
            in_range("vlan", vlan.into(), "1 to 4094", (1..=4094).contains(&vlan))?;
        }
        if let Some(queues) = self.queues {
            in_range("queues", queues.into(), "1 or more", queues > 0)?;
        }
        let room = self.mbuf_room;
        in_range(
            "mbuf_room",
            room.into(),
            "2048 to 65280",
            (2048..=65_280).contains(&room),
        )?;
        let ring = self.ring;
        in_range("ring", ring.into(), "16 to 32768", (16..=32_768).contains(&ring))?;
        let range = "more than both rings hold, to 4194303";
        let mbufs = 2 * u32::from(ring) + 1..1 << 22;
        Ok(in_range(
            "mbufs",
            self.mbufs.into(),
            range,
            mbufs.contains(&self.mbufs),
        )?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_cannot_be_is_named_with_what_can() {
        let usual = || PortConfig::new("10.0.0.2:4700".parse().unwrap());
        let refused = |config: PortConfig| config.validate().unwrap_err().to_string();
        usual().validate().unwrap();
        for none in [
            "0.0.0.0:5",
            "[::]:5",
            "[::ffff:10.0.0.1]:5",
            "[ff02::1]:5",
            "10.0.0.1:0",
        ] {
            let error = refused(PortConfig::new(none.parse().unwrap()));
            assert!(
                error.starts_with(&format!("address {none} is no address of a port")),
                "{error}"
            );
        }
        let gateway = |ip: &str| {
            let gateway = Some(ip.parse().unwrap());
            refused(PortConfig { gateway, ..usual() })
        };
        for none in ["10.0.0.2", "0.0.0.0", "fd00::1"] {
            let what = format!("gateway {none} of address 10.0.0.2:4700 is no one to pass packets on");
            assert!(gateway(none).starts_with(&what), "{none}");
        }
        let range = |config: PortConfig, what: &str| assert_eq!(refused(config), what);
        range(
            PortConfig {
                prefix: 33,
                ..usual()
            },
            "prefix = 33 is out of range: give 0 to 32, with IPv6 to 128",
        );
        range(
            PortConfig {
                vlan: Some(0),
                ..usual()
            },
            "vlan = 0 is out of range: give 1 to 4094",
        );
        range(
            PortConfig {
                queues: Some(0),
                ..usual()
            },
            "queues = 0 is out of range: give 1 or more",
        );
        range(
            PortConfig { ring: 0, ..usual() },
            "ring = 0 is out of range: give 16 to 32768",
        );
        range(
            PortConfig {
                mbuf_room: 64,
                ..usual()
            },
            "mbuf_room = 64 is out of range: give 2048 to 65280",
        );
        range(
            PortConfig {
                mbufs: 2048,
                ..usual()
            },
            "mbufs = 2048 is out of range: give more than both rings hold, to 4194303",
        );
    }
}

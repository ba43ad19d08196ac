//! What the host is told at its start.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use agg_control::ControlConfig;
use agg_core::Lanes;
use agg_core::wire::packet_len;
use agg_host::frame::Framing;
use agg_host::{DEFAULT_CONTROL_PORT, DEFAULT_DATA_PORT, in_range, is_straggler_time, same_family};
use serde::{Deserialize, Serialize};

use crate::{HostError, Idle, Network};

/// What the host is told at its start, as a TOML file has it too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// DPDK's own arguments, as `dpdk-testpmd` takes them.
    pub eal: Vec<String>,
    /// The ports, by the names that DPDK has for their devices; they may be left out where there is one only. All of them have
    /// the data address.
    pub ports: Vec<String>,
    /// Independent aggregators, each with the next UDP port and a core of its own.
    pub shards: u16,
    /// Queues of a port at most; left out: one for each shard, with net_memif one. Both ends of net_memif must have as many.
    pub queues: Option<u16>,
    /// Where shard 0 receives packets (UDP): the ports' own address, which the kernel need not have. Shard *s* is on the *s*-th
    /// UDP port after it.
    pub data_addr: SocketAddr,
    /// Bits of that address that all of the ports' network have in common; left out: 24, with IPv6 64.
    pub prefix: Option<u8>,
    /// Who passes on what goes to other networks.
    pub gateway: Option<IpAddr>,
    /// The VLAN (IEEE 802.1Q) that frames are sent and received in; left out: they have no tags.
    pub vlan: Option<u16>,
    /// Bytes of the largest IP packet; left out: what the port says. Virtual devices say 1500 and may carry more.
    pub mtu: Option<u16>,
    /// Frames that the receive queue holds.
    pub receive_ring: u16,
    /// Frames that the send queue holds.
    pub send_ring: u16,
    /// Mbufs of each shard for frames; more than its queues hold.
    pub mbufs: u32,
    /// Room of each, in bytes. Longer frames come in several mbufs where the port can, and are copied into one.
    pub mbuf_room: u16,
    /// What the core does while no frames come.
    pub idle: Idle,
    /// Slot memory of each shard in MiB, allocated at the start.
    pub memory_mib: u64,
    /// Where the control service listens (TCP), in the kernel.
    pub control_addr: SocketAddr,
    /// A rank for which slots have waited so long is named in the log, in seconds.
    pub straggler_after: f64,
    /// Settings of the control service.
    pub control: ControlConfig,
}

impl Default for HostConfig {
    fn default() -> Self {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self {
            eal: Vec::new(),
            ports: Vec::new(),
            shards: 1,
            queues: None,
            data_addr: SocketAddr::new(any, DEFAULT_DATA_PORT),
            prefix: None,
            gateway: None,
            vlan: None,
            mtu: None,
            receive_ring: 512,
            send_ring: 512,
            mbufs: 4095,
            mbuf_room: 2048,
            idle: Idle::default(),
            memory_mib: 64,
            control_addr: SocketAddr::new(any, DEFAULT_CONTROL_PORT),
            straggler_after: 1.0,
            control: ControlConfig::default(),
        }
    }
}

impl HostConfig {
    /// Bytes of the longest frame: what DPDK can give an mbuf, with some room in front.
    pub(crate) const LONGEST: u16 = 65_280;

    /// Checks what can be checked without DPDK.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn validate(&self) -> Result<(), HostError> {
        self.local()?;
        let rings = 16..=32768;
        let ring = |name, value: u16| in_range(name, value.into(), "16 to 32768", rings.contains(&value));
        ring("receive_ring", self.receive_ring)?;
        ring("send_ring", self.send_ring)?;
        let shards = 1..=64;
        in_range(
            "shards",
            self.shards.into(),
            "1 to 64",
            shards.contains(&self.shards),
        )?;
        let has_ports = self.data_addr.port().checked_add(self.shards - 1).is_some();
        in_range(
            "shards",
            self.shards.into(),
            "as many as there are UDP ports from that of data_addr on",
            has_ports,
        )?;
        let queues = self.queues.unwrap_or(1);
        in_range("queues", queues.into(), "1 to 64", (1..=64).contains(&queues))?;
        let rings = u32::from(self.receive_ring) + u32::from(self.send_ring);
        let needed = rings * self.ports.len().max(1) as u32 + 128;
        in_range(
            "mbufs",
            self.mbufs.into(),
            "more than both rings of each port and 128 hold, to 4194303",
            (needed..1 << 22).contains(&self.mbufs),
        )?;
        let room = 2048..=Self::LONGEST;
        in_range(
            "mbuf_room",
            self.mbuf_room.into(),
            "2048 to 65280",
            room.contains(&self.mbuf_room),
        )?;
        let (prefix, most) = (
            u64::from(self.prefix()),
            if self.data_addr.is_ipv4() { 32 } else { 128 },
        );
        in_range("prefix", prefix, "0 to 32, with IPv6 to 128", prefix <= most)?;
        if let Some(vlan) = self.vlan {
            in_range("vlan", vlan.into(), "1 to 4094", (1..=4094).contains(&vlan))?;
        }
        if let Some(mtu) = self.mtu {
            // The headers of either family, and the smallest chunk that a job can ask for.
            let least = Framing::new(&self.data_addr, self.vlan).in_mtu() + packet_len(Lanes::L256.count());
            in_range(
                "mtu",
                mtu.into(),
                "what chunks of 256 lanes need: 1108 and more, with IPv6 1128",
                usize::from(mtu) >= least,
            )?;
        }
        let address = self.data_addr;
        if let Some(gateway) = self.gateway {
            if gateway.is_ipv4() != address.is_ipv4() {
                return Err(HostError::Gateway { gateway, address });
            }
            if gateway == address.ip() || gateway.is_unspecified() || gateway.is_multicast() {
                return Err(HostError::GatewayIsNone { gateway, address });
            }
        }
        if let Some(twice) = self
            .ports
            .iter()
            .enumerate()
            .find_map(|(at, name)| self.ports[..at].iter().find(|other| *other == name))
        {
            return Err(HostError::Twice(twice.clone()));
        }
        let memory = 1..=65536;
        in_range(
            "memory_mib",
            self.memory_mib,
            "1 to 65536",
            memory.contains(&self.memory_mib),
        )?;
        is_straggler_time(self.straggler_after)?;
        Ok(same_family(self.control_addr, self.data_addr)?)
    }

    /// Where packets are received.
    ///
    /// # Errors
    /// It is no single address.
    pub(crate) fn local(&self) -> Result<SocketAddr, HostError> {
        let addr = self.data_addr;
        let is_one = !addr.ip().is_unspecified() && !addr.ip().is_multicast() && addr.port() != 0;
        // A v4 address in v6 clothes is never in an IPv6 header.
        let is_mapped = matches!(addr.ip(), IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
        if is_one && !is_mapped {
            Ok(addr)
        } else {
            Err(HostError::Address(addr))
        }
    }

    /// Mbufs of each shard for answers, where those that frames are received into are too small.
    pub(crate) fn answers(&self) -> u32 {
        u32::from(self.send_ring) * self.ports.len().max(1) as u32 + 512
    }

    fn prefix(&self) -> u8 {
        let usual = if self.data_addr.is_ipv4() { 24 } else { 64 };
        self.prefix.unwrap_or(usual)
    }

    /// The network that the port is in.
    pub(crate) fn network(&self, local: SocketAddr) -> Network {
        Network {
            address: local.ip(),
            prefix: self.prefix(),
            gateway: self.gateway,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let config: HostConfig = toml::from_str(text).unwrap();
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_setting_that_cannot_be_is_named_with_what_can() {
        assert_eq!(
            refused(""),
            "data_addr = 0.0.0.0:4601 is no address of a port: give the one IP address and UDP port that packets go to"
        );
        for none in ["[::]:5", "[::ffff:10.0.0.1]:5", "[ff02::1]:5", "10.0.0.1:0"] {
            assert!(
                refused(&format!("data_addr = '{none}'")).contains("no address of a port"),
                "{none}"
            );
        }
        let here = |text: &str| refused(&format!("data_addr = '10.0.0.1:4601'\n{text}"));
        assert_eq!(
            here("receive_ring = 8"),
            "receive_ring = 8 is out of range: give 16 to 32768"
        );
        assert!(here("mbufs = 1000").starts_with("mbufs = 1000 is out of range"));
        assert!(here("prefix = 33").starts_with("prefix = 33 is out of range"));
        assert_eq!(here("vlan = 4095"), "vlan = 4095 is out of range: give 1 to 4094");
        assert_eq!(
            here("gateway = 'fd00::1'"),
            "gateway = fd00::1 and data_addr = 10.0.0.1:4601 are of different families: give a gateway of the data address's"
        );
        assert_eq!(
            here("gateway = '10.0.0.1'"),
            "gateway = 10.0.0.1 with data_addr = 10.0.0.1:4601 is no one to pass packets on: give another's address"
        );
        assert!(here("gateway = '0.0.0.0'").contains("no one to pass packets on"));
        assert!(
            here("mtu = 1107").starts_with("mtu = 1107 is out of range: give what chunks of 256 lanes need")
        );
        assert!(!here("mtu = 1108\nmbufs = 1").starts_with("mtu"));
        assert_eq!(
            here("ports = ['net_ring0', 'net_ring1', 'net_ring0']"),
            "port net_ring0 is named twice: name each one once"
        );
        assert!(here("control_addr = '[::]:1'").contains("of the same family"));
    }

    #[test]
    fn the_example_is_one() {
        let config: HostConfig = toml::from_str(include_str!("../../packaging/dpdk.toml")).unwrap();
        config.validate().unwrap();
        assert!(!config.eal.is_empty() && config.control.metrics.is_some());
    }

    #[test]
    fn a_file_has_all_settings() {
        let text = "data_addr = '10.0.0.1:4601'\ngateway = '10.0.0.254'\nidle = 'sleep'\neal = ['-l', '3']";
        let config: HostConfig = toml::from_str(text).unwrap();
        assert!(config.validate().is_ok());
        assert_eq!((config.idle, config.eal.len()), (Idle::Sleep, 2));
        let text = "data_addr = '[fd00::1]:4601'\ncontrol_addr = '[::]:4600'\ngateway = 'fe80::1'\nvlan = 7";
        let config: HostConfig = toml::from_str(text).unwrap();
        assert!(config.validate().is_ok());
        assert_eq!((config.prefix(), config.vlan), (64, Some(7)));
    }
}

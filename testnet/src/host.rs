//! One host of a network: a namespace with one link, and switches, which have more links below.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv6Addr};
use std::process::Command;

use crate::{Error, iproute};

/// The interface of a host's link; a switch's own link has this name too.
pub(crate) const INTERFACE: &str = "eth0";

/// The interface of its link to a second network.
pub(crate) const OTHER: &str = "eth1";

/// How a host is joined to a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The largest IP packet, in bytes. The bridge takes the smallest of its ports'.
    pub mtu: u32,
    /// The rate of each direction, in tc's notation (`1gbit`, `200mbit`); none means as fast as the machine goes.
    pub rate: Option<String>,
    /// The rate of what the host sends, where it differs.
    pub up: Option<String>,
    /// Bytes that the switch's queue towards the host holds, where there is a rate; none means 20 ms of it. What does not fit is
    /// lost, frame by frame only if those who send have `cut`.
    pub queue: Option<u32>,
    /// Whether trains of datagrams that the host sends are cut into frames where they leave it, as a NIC does. Needs ethtool.
    pub cut: bool,
    /// Whether an XDP program of the host works on it. The other end must poll for what that sends, or all of it is lost
    /// without a word (`veth_xdp_xmit` in the kernel); and it must not hand over trains of datagrams that a device would cut
    /// into frames, which generic mode drops. Needs ethtool.
    pub xdp: bool,
}

impl Link {
    /// Ethernet's 1500 bytes, with this rate in both directions.
    pub fn with_rate(rate: &str) -> Self {
        Self {
            rate: Some(rate.to_owned()),
            ..Self::default()
        }
    }
}

impl Default for Link {
    /// Ethernet's 1500 bytes, unlimited.
    fn default() -> Self {
        Self {
            mtu: 1500,
            rate: None,
            up: None,
            queue: None,
            cut: false,
            xdp: false,
        }
    }
}

/// What a host's link has carried since the host was made.
///
/// Bytes are those of Ethernet frames without preamble and check sum, ARP included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames received.
    pub rx_packets: u64,
    /// Frames dropped on the way in.
    pub rx_dropped: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Frames dropped on the way out.
    pub tx_dropped: u64,
}

/// A host: a handle to the namespace that its [`Net`](crate::Net) owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub(crate) namespace: String,
    /// The link that it is known by.
    pub(crate) interface: &'static str,
    pub(crate) address: IpAddr,
    /// The last two numbers of its link's IPv4 address: its network and its own.
    pub(crate) place: [u8; 2],
}

/// A host that is a switch too: what is joined to it reaches the rest of the network through its link.
///
/// Its own link's counters show what passed through to and from the rest, and what it sent and received itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch(pub(crate) Host);

impl std::ops::Deref for Switch {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.0
    }
}

impl Host {
    /// Its address, in 10.77.0.0/24; in a second network, or over IPv6 another.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Gives it an IPv6 address, in fd77::/64 (in a second network: fd77:0:0:1::/64), and returns it as it is known by that.
    pub fn over_ipv6(&self) -> Result<Self, Error> {
        let [network, number] = self.place.map(u16::from);
        let address = Ipv6Addr::new(0xfd77, 0, 0, network, 0, 0, 0, number);
        let (namespace, interface) = (&self.namespace, self.interface);
        iproute::ip(&format!(
            "-n {namespace} address add {address}/64 dev {interface} nodad"
        ))?;
        Ok(Self {
            address: address.into(),
            ..self.clone()
        })
    }

    /// The name of its namespace, for `ip netns exec` by hand.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A command that runs `program` on this host.
    ///
    /// The process that starts *is* the program (`ip netns exec` replaces itself), so killing the child kills it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// What its link has carried so far.
    pub fn counters(&self) -> Result<Counters, Error> {
        // `ip netns exec` mounts the namespace's own /sys, whose files are one number each.
        let files = [
            "rx_bytes",
            "rx_packets",
            "rx_dropped",
            "tx_bytes",
            "tx_packets",
            "tx_dropped",
        ]
        .map(|name| format!("/sys/class/net/{}/statistics/{name}", self.interface));
        let text = iproute::ip(&format!("netns exec {} cat {}", self.namespace, files.join(" ")))?;
        let numbers: Vec<u64> = text
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let Ok([rx_bytes, rx_packets, rx_dropped, tx_bytes, tx_packets, tx_dropped]) =
            <[u64; 6]>::try_from(numbers)
        else {
            return Err(Error::Counters {
                namespace: self.namespace.clone(),
                text,
            });
        };
        Ok(Counters {
            rx_bytes,
            rx_packets,
            rx_dropped,
            tx_bytes,
            tx_packets,
            tx_dropped,
        })
    }
}

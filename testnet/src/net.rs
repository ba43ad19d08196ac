//! A network: one bridge, and the hosts and switches joined to it or to a switch.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::host::{INTERFACE, OTHER};
use crate::{Error, Host, Link, Switch, iproute, stale};

/// The bridge of a namespace that is a switch.
const BRIDGE: &str = "br0";

/// Tells networks of one process apart.
static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A network of namespaces; dropping it ends the processes inside and deletes them.
#[derive(Debug)]
pub struct Net {
    /// What the names of all its namespaces begin with.
    name: String,
    /// All its namespaces, the bridge's first.
    namespaces: Vec<String>,
    /// Networks beside the first: the third number of their addresses.
    segments: u8,
}

impl Net {
    /// A network without hosts.
    ///
    /// Namespaces are called `<prefix>-<process>-<serial>-<host>`. Begin the prefix with `trib-`: that is what
    /// `cargo xtask test` clears away after a crash.
    pub fn new(prefix: &str) -> Result<Self, Error> {
        check_name(prefix)?;
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let mut net = Self {
            name: format!("{prefix}-{}-{serial}", std::process::id()),
            namespaces: Vec::new(),
            segments: 0,
        };
        let bridge = net.add_namespace("bridge")?;
        add_bridge(&bridge)?;
        Ok(net)
    }

    /// Adds a host and joins it to the bridge. The first has the address 10.77.0.1, the next 10.77.0.2, and so on.
    pub fn add_host(&mut self, name: &str, link: Link) -> Result<Host, Error> {
        self.add(name, link, None, INTERFACE)
    }

    /// Adds a host and joins it to a switch.
    pub fn add_host_at(&mut self, switch: &Switch, name: &str, link: Link) -> Result<Host, Error> {
        self.add(name, link, Some(switch), INTERFACE)
    }

    /// Adds a switch, like one on top of a rack: hosts joined to it share its link to the bridge.
    pub fn add_switch(&mut self, name: &str, link: Link) -> Result<Switch, Error> {
        self.add(name, link, None, BRIDGE).map(Switch)
    }

    /// Adds a switch and joins it to another.
    pub fn add_switch_at(&mut self, switch: &Switch, name: &str, link: Link) -> Result<Switch, Error> {
        self.add(name, link, Some(switch), BRIDGE).map(Switch)
    }

    /// Takes a host's interface away and makes another one of the same name and address, as a driver does that is loaded anew.
    /// The host must be joined to the bridge itself.
    pub fn renew_link(&self, host: &Host, link: &Link) -> Result<(), Error> {
        let (bridge, namespace) = (&self.namespaces[0], &host.namespace);
        let port = format!("port{}", host.place[1]);
        iproute::ip(&format!("-n {namespace} link delete {INTERFACE}"))?;
        create(bridge, &port, namespace, INTERFACE, link.mtu)?;
        iproute::ip(&format!(
            "-n {namespace} address add {}/24 dev {INTERFACE}",
            host.address
        ))?;
        join(bridge, &port, namespace, INTERFACE, link, "1s")
    }

    /// Gives a host a second interface, `eth1`, to a network beside the first: to a switch that further hosts can be joined
    /// to, with addresses in 10.77.1.0/24 (the next such network: 10.77.2.0/24). Nothing is forwarded between them.
    ///
    /// Also returns the host as it is known there.
    pub fn add_segment(&mut self, host: &Host, name: &str, link: Link) -> Result<(Host, Switch), Error> {
        check_name(name)?;
        let number = self.number()?;
        let segment = self.segments + 1;
        let switch = self.add_namespace(name)?;
        self.segments = segment;
        add_bridge(&switch)?;
        let port = format!("port{number}");
        create(&switch, &port, &host.namespace, OTHER, link.mtu)?;
        let address = Ipv4Addr::new(10, 77, segment, number);
        iproute::ip(&format!(
            "-n {} address add {address}/24 dev {OTHER}",
            host.namespace
        ))?;
        join(&switch, &port, &host.namespace, OTHER, &link, "1s")?;
        let here = Host {
            namespace: host.namespace.clone(),
            interface: OTHER,
            address: address.into(),
            place: [segment, number],
        };
        // The switch itself has none, and needs none.
        let switch = Host {
            namespace: switch,
            interface: INTERFACE,
            address: Ipv4Addr::new(10, 77, segment, 0).into(),
            place: [segment, 0],
        };
        Ok((here, Switch(switch)))
    }

    /// The number of the next namespace, which is that of its address too.
    fn number(&self) -> Result<u8, Error> {
        let number = u8::try_from(self.namespaces.len()).ok();
        let number = number.filter(|&number| number < u8::MAX);
        number.ok_or_else(|| Error::Full(self.name.clone()))
    }

    /// Adds a namespace below a switch or the network's own bridge; its address is on `addressed`, its link or its bridge.
    fn add(
        &mut self,
        name: &str,
        link: Link,
        above: Option<&Switch>,
        addressed: &str,
    ) -> Result<Host, Error> {
        check_name(name)?;
        let number = self.number()?;
        let segment = above.map_or(0, |switch| switch.place[0]);
        let address = Ipv4Addr::new(10, 77, segment, number);
        let above = above
            .map_or(&self.namespaces[0], |switch| &switch.namespace)
            .clone();
        let port = format!("port{number}");
        let host = self.add_namespace(name)?;
        create(&above, &port, &host, INTERFACE, link.mtu)?;
        if addressed == BRIDGE {
            add_bridge(&host)?;
            iproute::ip(&format!("-n {host} link set {INTERFACE} master {BRIDGE}"))?;
        }
        iproute::ip(&format!("-n {host} address add {address}/24 dev {addressed}"))?;
        iproute::ip(&format!("-n {host} link set lo up"))?;
        // A switch drops what does not fit; a host's own queue pushes back on its sockets, so it holds more than their send
        // buffers.
        let patience = if addressed == BRIDGE { "20ms" } else { "1s" };
        join(&above, &port, &host, INTERFACE, &link, patience)?;
        Ok(Host {
            namespace: host,
            interface: INTERFACE,
            address: address.into(),
            place: [segment, number],
        })
    }

    /// Deletes the namespaces whose name begins with `prefix` and whose maker is gone, and returns their names.
    ///
    /// Only processes inside them are killed. Networks of processes that still run are left alone.
    pub fn cleanup_stale(prefix: &str) -> Result<Vec<String>, Error> {
        stale::cleanup(prefix)
    }

    fn add_namespace(&mut self, host: &str) -> Result<String, Error> {
        let namespace = format!("{}-{host}", self.name);
        iproute::ip(&format!("netns add {namespace}"))?;
        self.namespaces.push(namespace.clone());
        Ok(namespace)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            // Nothing useful can be done about a failure here; `cleanup_stale` tries again later.
            let _ = stale::delete(namespace);
        }
    }
}

/// Makes a link, its one end in a switch, its other in a host.
///
/// In place: no interface ever shows up in the caller's namespace, so names cannot clash there.
fn create(switch: &str, port: &str, host: &str, interface: &str, mtu: u32) -> Result<(), Error> {
    iproute::ip(&format!(
        "-n {switch} link add {port} mtu {mtu} type veth peer name {interface} mtu {mtu} netns {host}"
    ))?;
    iproute::ip(&format!("-n {switch} link set {port} master {BRIDGE}")).map(drop)
}

/// Brings both ends of a link up, and gives them what it is to have. The host's own queue holds packets for `patience`.
fn join(
    switch: &str,
    port: &str,
    host: &str,
    interface: &str,
    link: &Link,
    patience: &str,
) -> Result<(), Error> {
    bring_up(switch, port)?;
    bring_up(host, interface)?;
    if link.xdp {
        // Receive offload makes a veth poll. With the second it joins frames into trains, which otherwise only a receiver does
        // whose driver can: what user space sends here stays joined all the way, too. But towards the host trains are cut.
        iproute::ip(&format!(
            "netns exec {switch} ethtool -K {port} gro on rx-udp-gro-forwarding on tx-udp-segmentation off"
        ))?;
    }
    if link.cut {
        iproute::ip(&format!(
            "netns exec {host} ethtool -K {interface} tx-udp-segmentation off"
        ))?;
    }
    // A queue acts on what leaves an interface, so each direction has its own.
    if let Some(rate) = link.up.as_ref().or(link.rate.as_ref()) {
        limit(host, interface, rate, &format!("burst 512kb latency {patience}"))?;
    }
    match &link.rate {
        Some(rate) => {
            // The burst is what the bucket lets through at once: with a short queue only as much as a train.
            let queue = match link.queue {
                Some(bytes) => format!("burst 64kb limit {bytes}"),
                None => "burst 512kb latency 20ms".to_owned(),
            };
            limit(switch, port, rate, &queue)
        }
        None => Ok(()),
    }
}

fn add_bridge(namespace: &str) -> Result<(), Error> {
    iproute::ip(&format!("-n {namespace} link add {BRIDGE} type bridge"))?;
    bring_up(namespace, BRIDGE)
}

/// Without link-local addresses IPv6 stays silent, so that the counters show the test's own traffic.
fn bring_up(namespace: &str, interface: &str) -> Result<(), Error> {
    iproute::ip(&format!("-n {namespace} link set {interface} addrgenmode none"))?;
    iproute::ip(&format!("-n {namespace} link set {interface} up")).map(drop)
}

/// The burst should hold several of the 64 KiB packets that segmentation offload makes; latency or limit bounds the queue.
fn limit(namespace: &str, interface: &str, rate: &str, queue: &str) -> Result<(), Error> {
    iproute::tc(&format!(
        "-n {namespace} qdisc add dev {interface} root tbf rate {rate} {queue}"
    ))
    .map(drop)
}

fn check_name(name: &str) -> Result<(), Error> {
    let usable = |character: char| character.is_ascii_alphanumeric() || character == '-';
    if name.is_empty() || name.len() > 32 || !name.chars().all(usable) {
        return Err(Error::Name(name.into()));
    }
    Ok(())
}

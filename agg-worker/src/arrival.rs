//! Coming to an aggregator, for the first time or when the job moves: connect, find its shards, open the ports, register.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use agg_control::{Capabilities, ControlClient, Registration, Resume, datagram_bytes};

use crate::Config;
use crate::place::Place;
use crate::probe;
use crate::rings::Rings;
use crate::transport::{Ports, Transport, Way};
use crate::udp::Udp;

/// What is known of an aggregator before the job is registered there.
pub(crate) struct Arrival {
    pub(crate) control: ControlClient,
    pub(crate) host: Capabilities,
    /// Where its shard 0 receives.
    pub(crate) data_addr: SocketAddr,
    /// Bytes of the largest packet that gets there and back.
    max_datagram: usize,
    pub(crate) ports: Arc<dyn Ports>,
    /// The same, if they are shared memory.
    pub(crate) rings: Option<Arc<Rings>>,
}

/// Comes to the aggregator at `address`, to run there with chunks of so many `lanes`, or whatever the way carries. Ports that
/// exist already, of the rank's place before, are kept where they face it.
pub(crate) fn arrive(
    config: &Config,
    address: &str,
    existing: Option<&Place>,
    lanes: Option<u32>,
    patience: Duration,
) -> Result<Arrival, String> {
    let control_addr = resolve(address)?;
    // Retries until its timeout: ranks and aggregator are often started together.
    let control = ControlClient::connect(address, config.tls.as_ref(), patience);
    let control = control.map_err(|error| error.to_string())?;
    let host = control.describe().map_err(|error| error.to_string())?.host;
    let data_addr = SocketAddr::new(host.data_ip.unwrap_or(control_addr.ip()), host.base_port);
    let streams = existing.map(|place| place.ports.addresses().len() as u16);
    let streams = streams.or(config.streams).unwrap_or(host.shards);
    if streams == 0 || streams > host.shards {
        return Err(format!(
            "{streams} streams are not possible: the aggregator has {} shards",
            host.shards
        ));
    }
    if let Some(rings) = rings(config, &host, data_addr, streams, existing) {
        return Ok(Arrival {
            control,
            host,
            data_addr,
            max_datagram: shm_io::LONGEST_PACKET,
            ports: Arc::clone(&rings) as Arc<dyn Ports>,
            rings: Some(rings),
        });
    }
    let udp = Udp::new(config);
    let transport = config.transport.as_deref().unwrap_or(&udp);
    let way = transport.way(data_addr).map_err(|error| error.to_string())?;
    let ports = open_ports(transport, &way, streams, existing)?;
    let max_datagram = probe::max_datagram(&ports, &host, &way, lanes)?;
    Ok(Arrival {
        control,
        host,
        data_addr,
        max_datagram,
        ports,
        rings: None,
    })
}

/// Bytes of the largest datagram that the routes of this machine carry to all of these aggregators: a job keeps its chunk size
/// where it goes on. One without a route does not count.
fn carried_to_all(config: &Config, addresses: &[String]) -> usize {
    let udp = Udp::new(config);
    let resolved = addresses.iter().filter_map(|address| resolve(address).ok());
    let ways = resolved.filter_map(|address| udp.way(address).ok());
    ways.map(|way| way.max_datagram).min().unwrap_or(usize::MAX)
}

pub(crate) fn resolve(address: &str) -> Result<SocketAddr, String> {
    let resolved = address.to_socket_addrs().map_err(|error| {
        format!("the aggregator's address '{address}' cannot be used: {error}; give host:port")
    })?;
    // IPv4 first: the larger chunk fits a usual MTU.
    let mut addresses: Vec<_> = resolved.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses
        .first()
        .copied()
        .ok_or_else(|| format!("the aggregator's address '{address}' has no IP address"))
}

/// Shared memory, if the aggregator is on this machine and both want it: those that there are already, or new ones.
fn rings(
    config: &Config,
    host: &Capabilities,
    data_addr: SocketAddr,
    streams: u16,
    existing: Option<&Place>,
) -> Option<Arc<Rings>> {
    if !config.shares_memory() || host.shared_memory.is_empty() {
        return None;
    }
    let rings = existing.and_then(|place| place.rings.as_ref());
    if let Some(rings) = rings.filter(|rings| rings.lead_to(host)) {
        return Some(Arc::clone(rings));
    }
    let rings = Rings::attach(config, host, data_addr, streams);
    let rings = rings.inspect_err(|error| {
        // As a rule it is on another machine.
        tracing::debug!(aggregator = %data_addr, %error, "no shared memory: packets go by UDP");
    });
    rings.ok().map(Arc::new)
}

/// One port a stream, at the address that faces the aggregator.
fn open_ports(
    transport: &dyn Transport,
    way: &Way,
    streams: u16,
    existing: Option<&Place>,
) -> Result<Arc<dyn Ports>, String> {
    let faces = |ports: &&Arc<dyn Ports>| ports.addresses().iter().all(|end| end.ip() == way.local_ip);
    if let Some(ports) = existing.map(|place| &place.ports).filter(faces) {
        return Ok(Arc::clone(ports));
    }
    transport.open(way, streams).map_err(|error| error.to_string())
}

impl Arrival {
    /// Takes care that the job can go on at any of these aggregators.
    pub(crate) fn prepare_to_go_on_at(&mut self, config: &Config, addresses: &[String]) {
        let moves = config.immovable().is_none() && addresses.len() > 1;
        // A transport of its own has one MTU.
        if moves && config.lanes.is_none() && config.transport.is_none() {
            self.max_datagram = self.max_datagram.min(carried_to_all(config, addresses));
        }
    }

    /// What to register with.
    pub(crate) fn registration(
        &self,
        config: &Config,
        nonce: u64,
        wait: Duration,
        resume: Option<Resume>,
    ) -> Registration {
        Registration {
            world: config.world.clone(),
            size: config.size,
            ranks: vec![config.rank],
            child: false,
            nonce,
            endpoints: self.ports.addresses().to_vec(),
            max_datagram: if resume.is_some() || config.lanes.is_some() {
                self.max_datagram as u32
            } else {
                let most = config.most_lanes(self.rings.is_some());
                datagram_bytes(most).min(self.max_datagram as u32)
            },
            receive_buffer: self.ports.receive_buffer(),
            slot_memory: None,
            lanes: config.lanes,
            window: config.window,
            policy: config.policy,
            on_lost: config.on_lost,
            weight: config.weight,
            priority: config.priority,
            wait,
            resume,
        }
    }
}

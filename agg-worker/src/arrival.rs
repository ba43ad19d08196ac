//! Coming to an aggregator, for the first time or when the job moves: connect, find its shards, open the ports, register.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use agg_control::{Capabilities, ControlClient, Registration, Resume};

use crate::Config;
use crate::probe;
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
}

/// Comes to the aggregator at `address`, to run there with chunks of so many `lanes`, or whatever the way carries. Ports that
/// exist already are kept where they face it.
pub(crate) fn arrive(
    config: &Config,
    address: &str,
    existing: Option<&Arc<dyn Ports>>,
    lanes: Option<u32>,
    patience: Duration,
) -> Result<Arrival, String> {
    let control_addr = resolve(address)?;
    // Retries until its timeout: ranks and aggregator are often started together.
    let control = ControlClient::connect(address, config.tls.as_ref(), patience);
    let control = control.map_err(|error| error.to_string())?;
    let host = control.describe().map_err(|error| error.to_string())?.host;
    let data_addr = SocketAddr::new(host.data_ip.unwrap_or(control_addr.ip()), host.base_port);
    let udp = Udp::new(config);
    let transport = config.transport.as_deref().unwrap_or(&udp);
    let way = transport.way(data_addr).map_err(|error| error.to_string())?;
    let ports = open_ports(config, transport, &host, &way, existing)?;
    let max_datagram = probe::max_datagram(&ports, &host, &way, lanes)?;
    Ok(Arrival {
        control,
        host,
        data_addr,
        max_datagram,
        ports,
    })
}

fn resolve(address: &str) -> Result<SocketAddr, String> {
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

/// One port a stream, at the address that faces the aggregator.
fn open_ports(
    config: &Config,
    transport: &dyn Transport,
    host: &Capabilities,
    way: &Way,
    existing: Option<&Arc<dyn Ports>>,
) -> Result<Arc<dyn Ports>, String> {
    let existing_streams = existing.map(|ports| ports.addresses().len() as u16);
    let streams = existing_streams.or(config.streams).unwrap_or(host.shards);
    if streams == 0 || streams > host.shards {
        return Err(format!(
            "{streams} streams are not possible: the aggregator has {} shards",
            host.shards
        ));
    }
    let faces = |ports: &&Arc<dyn Ports>| ports.addresses().iter().all(|end| end.ip() == way.local_ip);
    if let Some(ports) = existing.filter(faces) {
        return Ok(Arc::clone(ports));
    }
    transport.open(way, streams).map_err(|error| error.to_string())
}

impl Arrival {
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
            max_datagram: self.max_datagram as u32,
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

//! Coming to an aggregator, for the first time or when the job moves: connect, find its shards, open the sockets, register.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use agg_control::{Capabilities, ControlClient, Registration, Resume};
use udp_io::{Port, PortConfig, UdpPort, local_ip_towards, path_payload};

use crate::Config;
use crate::port::WorkerPort;

/// What is known of an aggregator before the job is registered there.
pub(crate) struct Arrival {
    pub(crate) control: ControlClient,
    pub(crate) host: Capabilities,
    /// Where its shard 0 receives.
    pub(crate) data_addr: SocketAddr,
    pub(crate) ports: Vec<Arc<WorkerPort>>,
}

/// Comes to the aggregator at `address`. Sockets that exist already are kept where they face it.
pub(crate) fn arrive(
    config: &Config,
    address: &str,
    existing: &[Arc<WorkerPort>],
    patience: Duration,
) -> Result<Arrival, String> {
    let control_addr = resolve(address)?;
    // Retries until its timeout: ranks and aggregator are often started together.
    let control = ControlClient::connect(address, config.tls.as_ref(), patience);
    let control = control.map_err(|error| error.to_string())?;
    let host = control.describe().map_err(|error| error.to_string())?.host;
    let data_addr = SocketAddr::new(host.data_ip.unwrap_or(control_addr.ip()), host.base_port);
    let ports = open_ports(config, &host, data_addr, existing)?;
    Ok(Arrival {
        control,
        host,
        data_addr,
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

/// One socket a stream, on the address that faces the aggregator.
fn open_ports(
    config: &Config,
    host: &Capabilities,
    data_addr: SocketAddr,
    existing: &[Arc<WorkerPort>],
) -> Result<Vec<Arc<WorkerPort>>, String> {
    let existing_streams = (!existing.is_empty()).then_some(existing.len() as u16);
    let streams = existing_streams.or(config.streams).unwrap_or(host.shards);
    if streams == 0 || streams > host.shards {
        return Err(format!(
            "{streams} streams are not possible: the aggregator has {} shards",
            host.shards
        ));
    }
    let ip: IpAddr =
        local_ip_towards(data_addr).map_err(|error| format!("no route to {data_addr}: {error}"))?;
    if existing_streams.is_some() && existing.iter().all(|port| port.local_addr().ip() == ip) {
        return Ok(existing.to_vec());
    }
    let buffers = PortConfig {
        receive_buffer: config.receive_buffer,
        ..PortConfig::default()
    };
    let ports = (0..streams).map(|stream| {
        let port = UdpPort::bind(SocketAddr::new(ip, 0), &buffers).map_err(|error| error.to_string())?;
        let mut faults = config.faults;
        // Streams and ranks must not lose the same packets.
        faults.seed = faults.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (u64::from(config.rank) << 16 | u64::from(stream));
        Ok(Arc::new(WorkerPort::new(port, faults)))
    });
    ports.collect()
}

impl Arrival {
    /// What to register with.
    pub(crate) fn registration(
        &self,
        config: &Config,
        nonce: u64,
        wait: Duration,
        resume: Option<Resume>,
    ) -> Result<Registration, String> {
        let data_addr = self.data_addr;
        let max_datagram =
            path_payload(data_addr).map_err(|error| format!("no route to {data_addr}: {error}"))?;
        Ok(Registration {
            world: config.world.clone(),
            size: config.size,
            ranks: vec![config.rank],
            child: false,
            nonce,
            endpoints: self.ports.iter().map(|port| port.local_addr()).collect(),
            max_datagram: max_datagram as u32,
            receive_buffer: self
                .ports
                .iter()
                .map(|port| port.udp().receive_buffer() as u64)
                .min()
                .unwrap_or(0),
            slot_memory: None,
            lanes: config.lanes,
            window: config.window,
            policy: config.policy,
            on_lost: config.on_lost,
            weight: config.weight,
            priority: config.priority,
            wait,
            resume,
        })
    }
}

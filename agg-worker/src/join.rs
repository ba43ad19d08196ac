//! Joining a world: find the aggregator, open the sockets, register, wait for the others.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use agg_control::{
    Capabilities, ControlClient, MOST_RANKS, Member, Policy, Registered, Registration, fresh_nonce,
};
use agg_core::wire::packet_len;
use agg_core::worker::SlotState;
use agg_core::{Epoch, Lanes, Worker, WorkerConfig};
use udp_io::{PortConfig, UdpPort, local_ip_towards, path_payload};

use crate::names::Members;
use crate::port::WorkerPort;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::turns::Turns;
use crate::{Config, Error};

/// Where rank 0 starts the aggregator of a world on one machine.
#[cfg(feature = "embedded")]
const EMBEDDED_PORT: u16 = udp_host::DEFAULT_CONTROL_PORT;

#[cfg(feature = "embedded")]
type Embedded = Option<udp_host::UdpHost>;
#[cfg(not(feature = "embedded"))]
type Embedded = ();

pub(crate) struct Joined {
    pub(crate) shared: Shared,
    pub(crate) heartbeat: Duration,
    pub(crate) embedded: Embedded,
}

pub(crate) fn join(config: Config) -> Result<Joined, Error> {
    let (world, rank) = (config.world.clone(), config.rank);
    join_inner(config).map_err(|reason| Error::Join { world, rank, reason })
}

fn join_inner(config: Config) -> Result<Joined, String> {
    if !(1..=MOST_RANKS).contains(&config.size) {
        return Err(format!(
            "a world of {} ranks is not possible: give a size from 1 to {MOST_RANKS}",
            config.size
        ));
    }
    if config.rank >= config.size {
        return Err(format!(
            "a world of {} has ranks 0 to {}",
            config.size,
            config.size - 1
        ));
    }
    let (address, embedded) = aggregator(&config)?;
    let control_addr = resolve(&address)?;
    // Retries until its timeout: ranks and aggregator are often started together.
    let control = ControlClient::connect(&address, config.tls.as_ref(), config.connect_timeout);
    let control = control.map_err(|error| error.to_string())?;
    let host = control.describe().map_err(|error| error.to_string())?.host;
    let data_ip = host.data_ip.unwrap_or(control_addr.ip());
    let data_addr = SocketAddr::new(data_ip, host.base_port);
    let ports = open_ports(&config, &host, data_addr)?;
    let registration = registration(&config, &ports, data_addr)?;
    let registered = control
        .register(&registration)
        .map_err(|error| error.to_string())?;
    let member = Member {
        key: registered.key,
        rank: config.rank,
        nonce: registration.nonce,
    };
    let lanes = Lanes::from_count(registered.lanes).ok_or_else(|| {
        format!(
            "the aggregator chose {} lanes, which this version does not know",
            registered.lanes
        )
    })?;
    let clock = Instant::now();
    let streams = ports.iter().enumerate().map(|(stream, port)| {
        let worker = worker(&config, &registered, lanes)?;
        let aggregator = SocketAddr::new(data_ip, host.base_port + stream as u16);
        Ok(Mutex::new(Stream::new(
            worker,
            Arc::clone(port),
            aggregator,
            host.data_ip.is_none(),
            packet_len(lanes.count()),
            clock,
        )))
    });
    let streams = streams.collect::<Result<_, String>>()?;
    let shared = Shared {
        world: config.world,
        rank: config.rank,
        size: config.size,
        lanes: lanes.count() as u64,
        window: u32::from(registered.window),
        data_addr,
        control,
        member,
        members: Members(registered.members),
        streams,
        ports,
        turns: Turns::default(),
        stop: AtomicBool::new(false),
        ended: OnceLock::new(),
        failed: OnceLock::new(),
        progress: AtomicU64::new(0),
        totals: Mutex::default(),
    };
    Ok(Joined {
        shared,
        heartbeat: registered.heartbeat,
        embedded,
    })
}

/// The configured aggregator, or the one of this machine, which rank 0 starts.
#[cfg(feature = "embedded")]
fn aggregator(config: &Config) -> Result<(String, Embedded), String> {
    if let Some(address) = config.aggregators.first() {
        return Ok((address.clone(), None));
    }
    let control_addr = SocketAddr::from(([127, 0, 0, 1], EMBEDDED_PORT));
    let host = if config.rank == 0 {
        let host = udp_host::HostConfig {
            control_addr,
            ..udp_host::HostConfig::loopback()
        };
        let host = udp_host::UdpHost::start(&host);
        Some(host.map_err(|error| format!("{error}; or name a running aggregator"))?)
    } else {
        None
    };
    Ok((control_addr.to_string(), host))
}

#[cfg(not(feature = "embedded"))]
fn aggregator(config: &Config) -> Result<(String, Embedded), String> {
    let address = config.aggregators.first().cloned();
    address
        .map(|address| (address, ()))
        .ok_or_else(|| "no aggregator is configured: give host:port".to_owned())
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
) -> Result<Vec<Arc<WorkerPort>>, String> {
    let streams = config.streams.unwrap_or(host.shards);
    if streams == 0 || streams > host.shards {
        return Err(format!(
            "{streams} streams are not possible: the aggregator has {} shards",
            host.shards
        ));
    }
    let ip: IpAddr =
        local_ip_towards(data_addr).map_err(|error| format!("no route to {data_addr}: {error}"))?;
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

fn registration(
    config: &Config,
    ports: &[Arc<WorkerPort>],
    data_addr: SocketAddr,
) -> Result<Registration, String> {
    use udp_io::Port;
    let max_datagram =
        path_payload(data_addr).map_err(|error| format!("no route to {data_addr}: {error}"))?;
    Ok(Registration {
        world: config.world.clone(),
        size: config.size,
        ranks: vec![config.rank],
        child: false,
        nonce: fresh_nonce(),
        endpoints: ports.iter().map(|port| port.local_addr()).collect(),
        max_datagram: max_datagram as u32,
        receive_buffer: ports
            .iter()
            .map(|port| port.udp().receive_buffer() as u64)
            .min()
            .unwrap_or(0),
        lanes: config.lanes,
        window: config.window,
        slot_memory: None,
        policy: config.policy,
        on_lost: config.on_lost,
        weight: config.weight,
        priority: config.priority,
        wait: config.wait,
        resume: None,
    })
}

fn worker(
    config: &Config,
    registered: &Registered,
    lanes: Lanes,
) -> Result<crate::simd::StreamWorker, String> {
    let window = usize::from(registered.window);
    let worker = WorkerConfig {
        key: registered.key,
        epoch: Epoch(registered.epoch),
        member: registered.member,
        members: registered.members.len() as u8, // at most 64
        workers: registered.workers,
        lanes,
        window: registered.window,
        policy: policy(registered.policy),
        timeout: u64::try_from(config.timeout.as_nanos()).unwrap_or(u64::MAX),
        first_chunk: 0,
    };
    let slots = vec![SlotState::default(); window].into_boxed_slice();
    let kept = vec![0; window * lanes.count()].into_boxed_slice();
    Worker::new(worker, slots, kept)
        .map_err(|_| format!("the aggregator chose a window of {window}, which is no power of two"))
}

fn policy(policy: Policy) -> agg_core::Policy {
    match policy {
        Policy::All => agg_core::Policy::All,
        Policy::Quorum { members, grace, .. } => agg_core::Policy::Quorum {
            members,
            grace: u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX),
        },
    }
}

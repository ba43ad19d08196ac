//! DPDK's cores: the thread that starts DPDK is the first shard's, and closes the ports in the end; the other shards are worked
//! for on DPDK's other cores.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};

use agg_control::total;
use agg_host::SlotMemory;
use agg_host::frame::Framing;

use crate::dpdk::{
    Device, DpdkError, Eal, Lcore, Pool, Port, PortConfig, PortInfo, Queue, Running, Source, Steering,
    publish,
};
use crate::{Exit, HandOff, HostConfig, HostError, Link, Poller, Shard};

/// The command of DPDK's telemetry that answers with counters.
const COMMAND: &str = "/tributary/counters";
const HELP: &str =
    "What happened to packets and frames at all shards, or at one. Parameters: int shard, may be left out";

/// What there is to know of a port that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) mac: [u8; 6],
    /// Bytes of the largest IP packet that is received and sent.
    pub(crate) mtu: u16,
    /// Frames that a receive queue holds.
    pub(crate) ring: u16,
    /// Its queues. Shards beyond them get what is theirs from others.
    pub(crate) queues: u16,
    /// Whether it gives each shard's packets to that one's queue by itself.
    pub(crate) is_steered: bool,
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mac = self.mac.map(|byte| format!("{byte:02x}")).join(":");
        let (name, driver, mtu, queues) = (&self.name, &self.driver, self.mtu, self.queues);
        let plural = if queues == 1 { "" } else { "s" };
        write!(f, "{name} ({driver}, {mac}, MTU {mtu}, {queues} queue{plural})")
    }
}

/// What runs then.
pub(crate) struct Started {
    pub(crate) ports: Vec<About>,
    pub(crate) shards: Vec<Arc<Shard>>,
}

/// Starts DPDK and the ports, says what they are or why not, and works there for the shards until told to stop.
pub(crate) fn work(
    config: &HostConfig,
    local: SocketAddr,
    stop: &Arc<AtomicBool>,
    said: &Sender<Result<Started, HostError>>,
) {
    match start(config, local, stop) {
        Ok((started, mut poller, others, _ports)) => {
            let shard = Arc::clone(&started.shards[0]);
            // Whoever waits for it may have given up: then `stop` is set, too.
            let _ = said.send(Ok(started));
            poller.run(&shard, config.idle, stop);
            // Before the ports are closed.
            drop(others);
        }
        Err(error) => {
            let _ = said.send(Err(error));
        }
    }
}

type Work = (Started, Poller, Others, Vec<Port>);

/// The other shards' cores. Dropped, they are told to stop, and waited for.
struct Others {
    stop: Arc<AtomicBool>,
    running: Vec<Running>,
}

impl Drop for Others {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn start(config: &HostConfig, local: SocketAddr, stop: &Arc<AtomicBool>) -> Result<Work, HostError> {
    let eal = Eal::start(&config.eal)?;
    let shards = usize::from(config.shards);
    let cores = workers(&eal, config)?;
    let devices = devices(&eal, &config.ports)?;
    let infos: Vec<PortInfo> = devices.iter().map(Device::info).collect::<Result<_, _>>()?;
    let main = eal.main();
    for (shard, core) in std::iter::once(&main).chain(&cores).enumerate() {
        say_where(shard, core, &devices, &infos);
    }
    let node = infos[0].node;
    let pools = pools(&eal, "frames", config, config.mbufs, config.mbuf_room, node)?;
    let mut links: Vec<Vec<Link>> = pools.iter().map(|_| Vec::new()).collect();
    let (mut ports, mut about) = (Vec::new(), Vec::new());
    for (device, info) in devices.into_iter().zip(infos) {
        let (port, what) = start_port(config, local, device, info, &pools, &mut links)?;
        ports.push(port);
        about.push(what);
    }
    let hand_offs = HandOff::among(
        &eal,
        "shards",
        shards,
        config.receive_ring.next_power_of_two().into(),
    )?;
    let framing = Framing::new(&local, config.vlan);
    let longest = about
        .iter()
        .map(|port| framing.ethernet() + usize::from(port.mtu));
    let longest = longest.max().unwrap_or(0) as u16;
    let pools = if longest <= config.mbuf_room {
        pools
    } else {
        // What comes in several mbufs is copied into one of these, and answers are written to one.
        self::pools(&eal, "answers", config, config.answers(), longest, node)?
    };
    let parts = links.into_iter().zip(hand_offs).zip(pools).zip(0..);
    let mut pollers = parts.map(|(((links, hand_off), pool), shard)| {
        Poller::new(links, hand_off, pool, address(local, shard), config.vlan)
    });
    let first = pollers.next().ok_or(HostError::Core)?;
    let slots = SlotMemory::of(config.memory_mib << 20, 0);
    // Each core writes to its slots first, so that they are in memory near it.
    let memory = move || slots.aggregator().ok_or_else(|| HostError::Memory(slots.bytes()));
    let mut shards = vec![Arc::new(Shard::new(memory()?, config.network(local)))];
    let mut others = Others {
        stop: Arc::clone(stop),
        running: Vec::new(),
    };
    for (core, mut poller) in cores.into_iter().zip(pollers) {
        let (made, shard) = channel();
        let (near, idle, stop) = (Arc::clone(&shards[0]), config.idle, Arc::clone(stop));
        let running = core.launch(move || match memory() {
            Ok(memory) => {
                let shard = Arc::new(near.beside(memory));
                let _ = made.send(Ok(Arc::clone(&shard)));
                poller.run(&shard, idle, &stop);
            }
            Err(error) => {
                let _ = made.send(Err(error));
            }
        })?;
        others.running.push(running);
        shards.push(shard.recv().map_err(|_| HostError::Core)??);
    }
    if let Err(error) = publish(&eal, COMMAND, HELP, source(&shards)) {
        tracing::warn!("{error}");
    }
    let started = Started { ports: about, shards };
    Ok((started, first, others, ports))
}

/// What telemetry answers.
fn source(shards: &[Arc<Shard>]) -> Source {
    // It is never given up: the shards must not live as long.
    let shards: Vec<Weak<Shard>> = shards.iter().map(Arc::downgrade).collect();
    Box::new(move |which| {
        let numbered = shards.iter().zip(0..);
        let wanted = numbered.filter(|(_, number)| which.is_none_or(|which| which == *number));
        let counters: Vec<_> = wanted
            .filter_map(|(shard, number)| Some(shard.upgrade()?.counters(number)))
            .collect();
        (!counters.is_empty()).then(|| total(&counters))
    })
}

/// Where a shard receives packets.
pub(crate) fn address(local: SocketAddr, shard: u16) -> SocketAddr {
    SocketAddr::new(local.ip(), local.port() + shard)
}

/// The cores of the shards but the first, which is the main one's.
pub(crate) fn workers(eal: &Eal, config: &HostConfig) -> Result<Vec<Lcore>, HostError> {
    let shards = usize::from(config.shards);
    let mut cores = eal.workers();
    if cores.len() + 1 < shards {
        return Err(HostError::Cores {
            shards,
            cores: cores.len() + 1,
        });
    }
    cores.truncate(shards - 1);
    Ok(cores)
}

/// The ports that are meant, in their order.
pub(crate) fn devices(eal: &Eal, names: &[String]) -> Result<Vec<Device>, HostError> {
    if !names.is_empty() {
        let found = names.iter().map(|name| Device::find(eal, name));
        return Ok(found.collect::<Result<_, _>>()?);
    }
    match Device::names(eal).as_slice() {
        [] => Err(DpdkError::NoPort.into()),
        [name] => Ok(vec![Device::find(eal, name)?]),
        names => Err(HostError::Ports(names.join(", "))),
    }
}

/// Says in the log where a shard works far from a port.
fn say_where(shard: usize, core: &Lcore, devices: &[Device], infos: &[PortInfo]) {
    for (device, info) in devices.iter().zip(infos) {
        if let Some(far) = far(core.node(), info.node) {
            let (core, port) = (core.number(), device.name());
            tracing::warn!("shard {shard} works on core {core}, far from port {port}: {far}");
        }
    }
}

/// What there is to say of a core and a port on these NUMA nodes.
fn far(core: Option<u32>, port: Option<u32>) -> Option<String> {
    let (core, port) = core.zip(port).filter(|(core, port)| core != port)?;
    Some(format!(
        "NUMA node {core}, the port is on {port}: give cores of that node with -l"
    ))
}

/// One for each shard, on the node where frames are received.
fn pools(
    eal: &Eal,
    name: &str,
    config: &HostConfig,
    mbufs: u32,
    room: u16,
    node: Option<u32>,
) -> Result<Vec<Pool>, HostError> {
    let pool = |shard| Pool::new(eal, &format!("{name}_{shard}"), mbufs, room, node);
    Ok((0..config.shards).map(pool).collect::<Result<_, _>>()?)
}

/// Starts a port with a queue for each shard, or as many as it has, and adds each shard's link to it.
fn start_port(
    config: &HostConfig,
    local: SocketAddr,
    device: Device,
    info: PortInfo,
    pools: &[Pool],
    links: &mut [Vec<Link>],
) -> Result<(Port, About), HostError> {
    let queues = info.queues_for(config.shards, config.queues);
    let ethernet = Framing::new(&local, config.vlan).ethernet();
    let mtu = mtu(config, &info, ethernet);
    let name = device.name().to_owned();
    let port_config = PortConfig {
        queues,
        receive_ring: config.receive_ring,
        send_ring: config.send_ring,
        mtu: info.mtu_to_set(config.mtu),
        checksums: info.has_checksums,
        scatter: info.has_scatter && ethernet + usize::from(mtu) > usize::from(config.mbuf_room),
        multicast: local.is_ipv6(),
    };
    let (port, pairs) = Port::start_with(device, &pools[..usize::from(queues)], &port_config)?;
    let is_steered = steer(&port, &name, config, local, queues);
    let (receive, send): (Vec<_>, Vec<_>) = pairs.into_iter().map(Queue::split).unzip();
    let send: Vec<Exit> = send.into_iter().map(Exit::new).collect();
    let mut receive = receive.into_iter();
    for (shard, links) in links.iter_mut().enumerate() {
        links.push(Link {
            receive: receive.next(),
            send: send[shard % send.len()].clone(),
            mac: info.mac,
            checksums: info.has_checksums,
        });
    }
    let about = About {
        name,
        driver: info.driver,
        mac: info.mac,
        mtu,
        ring: port.receive_ring(),
        queues,
        is_steered,
    };
    Ok((port, about))
}

/// Has a port give each shard's packets to its queue, if it can; says in the log which way it is.
fn steer(port: &Port, name: &str, config: &HostConfig, local: SocketAddr, queues: u16) -> bool {
    let shards = config.shards;
    if shards == 1 {
        return true;
    }
    let rules = (1..queues).try_for_each(|shard| {
        port.steer(&Steering {
            udp_port: address(local, shard).port(),
            queue: shard,
            is_ipv6: local.is_ipv6(),
            has_tag: config.vlan.is_some(),
        })
    });
    match rules {
        Ok(()) if queues == shards => {
            tracing::info!("port {name}: steering by rte_flow, a queue for each of {shards} shards");
            true
        }
        Ok(()) => {
            tracing::info!(
                "port {name}: {queues} queues for {shards} shards: the others' packets are handed over"
            );
            false
        }
        Err(error) => {
            tracing::info!("steering by hand-off between the shards' cores: {error}");
            false
        }
    }
}

/// What the port carries, and an mbuf holds where a frame must be in one. A virtual device that says nothing may spread frames
/// unasked: the user knows.
fn mtu(config: &HostConfig, info: &PortInfo, ethernet: usize) -> u16 {
    let wanted = config.mtu.unwrap_or(info.mtu);
    let spreads = info.has_scatter || (config.mtu.is_some() && info.is_ordinary());
    let most = if spreads {
        HostConfig::LONGEST
    } else {
        config.mbuf_room
    };
    wanted.min(most - ethernet as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(mtu: u16) -> PortInfo {
        PortInfo {
            driver: String::new(),
            mac: [0; 6],
            mtu,
            max_frame: 1522,
            max_queues: 1,
            node: None,
            has_checksums: false,
            has_scatter: false,
        }
    }

    #[test]
    fn each_shard_has_a_queue_where_that_is_safe() {
        let info = |driver: &str, max_queues| PortInfo {
            driver: driver.to_owned(),
            max_queues,
            ..info(1500)
        };
        let queues = |wanted: Option<u16>, info: &PortInfo| info.queues_for(4, wanted);
        assert_eq!(queues(None, &info("net_ring", 16)), 4);
        assert_eq!(queues(None, &info("net_ring", 2)), 2);
        assert_eq!(queues(Some(3), &info("net_ring", 16)), 3);
        assert_eq!(queues(Some(9), &info("net_ring", 16)), 4);
        assert_eq!(queues(None, &info("net_memif", 255)), 1);
        assert_eq!(queues(Some(2), &info("net_memif", 255)), 2);
    }

    #[test]
    fn a_core_on_another_node_is_told_and_one_that_is_on_any_is_not() {
        let told = "NUMA node 1, the port is on 0: give cores of that node with -l";
        assert_eq!(far(Some(1), Some(0)).as_deref(), Some(told));
        for (core, port) in [(Some(1), Some(1)), (None, Some(0)), (Some(1), None), (None, None)] {
            assert_eq!(far(core, port), None);
        }
    }

    #[test]
    fn packets_fit_the_port_and_the_mbufs() {
        let config = |mtu| HostConfig {
            mtu,
            ..HostConfig::default()
        };
        assert_eq!(mtu(&config(None), &info(1500), 14), 1500);
        assert_eq!(mtu(&config(Some(1800)), &info(1500), 14), 1800);
        assert_eq!(mtu(&config(None), &info(9000), 18), 2030);
        let mut scattering = info(9000);
        scattering.has_scatter = true;
        assert_eq!(mtu(&config(None), &scattering, 14), 9000);
        assert_eq!(
            mtu(&config(Some(9000)), &info(1500), 14),
            9000,
            "a virtual device"
        );
        scattering.max_frame = 65_535;
        assert_eq!(mtu(&config(Some(65_535)), &scattering, 14), 65_266);
        let mut card = info(1500);
        card.max_frame = 9600;
        assert_eq!(
            mtu(&config(Some(9000)), &card, 14),
            2034,
            "a card that does not spread"
        );
    }
}

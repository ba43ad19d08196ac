//! A port of DPDK as the way of a rank's packets.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agg_worker::transport::{Link, Ports, Transport, TransportError, Way};
use dpdk_host::Neighbours;
use dpdk_host::dpdk::{self, Device, DpdkError, Eal, Pool, PortInfo};

use crate::link::StreamLink;
use crate::port::{Description, Running, Taken};
use crate::queues::Queues;
use crate::{PortConfig, PortError};

/// A frame that can wait takes no more of the window than a small chunk does.
const SMALL_CHUNK: u16 = 256;

/// A port of DPDK. One communicator at a time can use it, in a process that has no other.
pub struct Dpdk {
    config: PortConfig,
    info: PortInfo,
    pool: Pool,
    state: Mutex<State>,
}

enum State {
    /// How many queues it needs is known when streams are.
    Device(Device),
    Running(Arc<Running>),
    /// It did not start.
    Broken,
}

impl fmt::Debug for Dpdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at a port of {}", self.config.address, self.info.driver)
    }
}

impl Dpdk {
    /// Starts DPDK and finds the port.
    ///
    /// # Errors
    /// A setting that cannot be; what DPDK refuses, with what to do; more than one port, and none is named.
    pub fn start(config: PortConfig) -> Result<Self, PortError> {
        config.validate()?;
        // The thread that does it would be bound to one core for ever, and with it all threads that it starts.
        let start = move || {
            let eal = Eal::start(&config.eal)?;
            let device = find(&eal, config.device.as_deref())?;
            let info = device.info()?;
            let pool = Pool::new(&eal, "worker", config.mbufs, config.mbuf_room, info.node)?;
            Ok(Self {
                config,
                info,
                pool,
                state: Mutex::new(State::Device(device)),
            })
        };
        let thread = std::thread::Builder::new()
            .name("dpdk-start".to_owned())
            .spawn(start)
            .map_err(PortError::Thread)?;
        thread.join().unwrap_or(Err(PortError::Panicked))
    }

    /// Bytes of the largest IP packet: what the port carries and an mbuf holds.
    fn mtu(&self) -> u16 {
        let room = self.config.mbuf_room - self.config.framing().ethernet() as u16;
        self.config.mtu.unwrap_or(self.info.mtu).min(room)
    }

    /// Whom packets to an aggregator are given to.
    fn hop(&self, aggregator: SocketAddr) -> Result<IpAddr, PortError> {
        let ours = self.config.address.ip();
        if aggregator.is_ipv4() != ours.is_ipv4() {
            return Err(PortError::Family { to: aggregator, ours });
        }
        let network = self.config.network();
        network.next_hop(aggregator.ip()).ok_or(PortError::NoGateway {
            to: aggregator,
            network: network.address,
            prefix: network.prefix,
        })
    }

    /// The port, started for so many streams if it is not yet.
    fn running(&self, streams: u16) -> Result<Arc<Running>, PortError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Broken) {
            State::Running(running) => {
                *state = State::Running(Arc::clone(&running));
                Ok(running)
            }
            State::Device(device) => {
                let running = Arc::new(self.start_port(device, streams)?);
                *state = State::Running(Arc::clone(&running));
                Ok(running)
            }
            State::Broken => Err(DpdkError::NoPort.into()),
        }
    }

    fn start_port(&self, device: Device, streams: u16) -> Result<Running, PortError> {
        let about = Description {
            device: device.name().to_owned(),
            mac: self.info.mac,
            address: self.config.address,
            framing: self.config.framing(),
            checksums: self.info.has_checksums,
            idle: self.config.idle,
        };
        let port = dpdk::PortConfig {
            queues: self.info.queues_for(streams, self.config.queues),
            receive_ring: self.config.ring,
            send_ring: self.config.ring,
            mtu: self.info.mtu_to_set(self.config.mtu),
            checksums: self.info.has_checksums,
            multicast: self.config.framing().is_ipv6(),
            scatter: false,
        };
        let started = dpdk::Port::start(device, &self.pool, &port)?;
        let neighbours = Neighbours::new(self.config.network());
        let queues = Queues::new(&self.info, started);
        Ok(Running::new(about, self.pool.clone(), neighbours, queues))
    }
}

/// The port that is meant.
fn find(eal: &Eal, name: Option<&str>) -> Result<Device, PortError> {
    if let Some(name) = name {
        return Ok(Device::find(eal, name)?);
    }
    match Device::names(eal).as_slice() {
        [] => Err(DpdkError::NoPort.into()),
        [name] => Ok(Device::find(eal, name)?),
        names => Err(PortError::Several(names.join(", "))),
    }
}

impl Transport for Dpdk {
    fn way(&self, aggregator: SocketAddr) -> Result<Way, TransportError> {
        self.hop(aggregator)?;
        Ok(Way {
            aggregator,
            local_ip: self.config.address.ip(),
            max_datagram: usize::from(self.mtu()).saturating_sub(self.config.framing().in_mtu()),
        })
    }

    fn open(&self, way: &Way, streams: u16) -> Result<Arc<dyn Ports>, TransportError> {
        let hop = self.hop(way.aggregator)?;
        let taken = Taken::new(&self.running(streams)?, streams)?;
        taken.find(way.aggregator.ip(), hop)?;
        Ok(Arc::new(PolledPorts(Arc::new(taken))))
    }
}

/// The streams' shares of the port.
struct PolledPorts(Arc<Taken>);

impl Ports for PolledPorts {
    fn addresses(&self) -> &[SocketAddr] {
        &self.0.addresses
    }

    fn receive_buffer(&self) -> u64 {
        u64::from(self.0.running.queues.ring()) * agg_control::receive_buffer_cost(SMALL_CHUNK)
    }

    fn link(&self, stream: usize, _: usize) -> Box<dyn Link> {
        Box::new(StreamLink::new(&self.0, stream))
    }

    fn wait(&self, limit: Duration) -> io::Result<()> {
        self.0.wait(limit);
        Ok(())
    }
}

//! Ports that run, and their queues.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use dpdk_sys as sys;

use super::error::said;
use super::gate::Gate;
use super::{Burst, Device, DpdkError, Pool};

/// How a port is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortConfig {
    /// Pairs of a receive and a send queue.
    pub queues: u16,
    /// Frames that a receive queue should hold; the driver may choose another number near it.
    pub receive_ring: u16,
    /// Frames that a send queue should hold.
    pub send_ring: u16,
    /// Bytes of the largest IP packet; `None`: as it is. Virtual devices refuse more than 1500, and carry it unasked.
    pub mtu: Option<u16>,
    /// Whether the port writes the checksums of frames that say so. Only where it can.
    pub checksums: bool,
    /// Whether frames may be longer than an mbuf, and then come in several. Only where it says that it can.
    pub scatter: bool,
    /// Whether it receives what is for groups, as IPv6 needs it to be found.
    pub multicast: bool,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            queues: 1,
            receive_ring: 1024,
            send_ring: 1024,
            mtu: None,
            checksums: false,
            scatter: false,
            multicast: false,
        }
    }
}

/// Which datagrams a port gives to which queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    /// The UDP port that they go to.
    pub udp_port: u16,
    /// The queue.
    pub queue: u16,
    /// Whether they are IPv6 packets.
    pub is_ipv6: bool,
    /// Whether their frames have a VLAN tag.
    pub has_tag: bool,
}

/// A port that runs. It stops when it and all its queues are dropped.
#[derive(Debug)]
pub struct Port {
    running: Arc<Running>,
    receive_ring: u16,
}

#[derive(Debug)]
struct Running {
    device: Device,
    /// What its bursts go through, if its driver needs that.
    gate: Option<Gate>,
    /// Receives into them: one for each queue.
    pools: Vec<Pool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _inside = self.gate.map(Gate::enter);
        // SAFETY: the port runs, and no queue is left that could use it. That it stops badly changes nothing.
        let _ = unsafe { sys::shim_port_close(self.device.port) };
    }
}

/// What a port has counted.
pub type PortStats = sys::PortStats;

/// A receive and a send queue of a port, with the same number and one owner.
#[derive(Debug)]
pub struct Queue {
    receive: ReceiveQueue,
    send: SendQueue,
}

/// A receive queue of a port, with one owner.
#[derive(Debug)]
pub struct ReceiveQueue {
    running: Arc<Running>,
    number: u16,
}

/// A send queue of a port, with one owner.
#[derive(Debug)]
pub struct SendQueue {
    running: Arc<Running>,
    number: u16,
}

impl Port {
    /// Starts a port that receives into mbufs of a pool.
    ///
    /// # Errors
    /// What DPDK said.
    pub fn start(device: Device, pool: &Pool, config: &PortConfig) -> Result<(Self, Vec<Queue>), DpdkError> {
        let pools = vec![pool.clone(); config.queues.into()];
        Self::start_with(device, &pools, config)
    }

    /// The same with a pool for each queue, in the place of the number of queues.
    ///
    /// # Errors
    /// What DPDK said.
    pub fn start_with(
        device: Device,
        pools: &[Pool],
        config: &PortConfig,
    ) -> Result<(Self, Vec<Queue>), DpdkError> {
        let gate = Gate::of(&device, &device.info()?)?;
        let queues = pools.len() as u16;
        let mut raw: Vec<*mut c_void> = pools.iter().map(Pool::as_ptr).collect();
        let port_config = sys::PortConfig {
            pools: raw.as_mut_ptr(),
            queues,
            receive_ring: config.receive_ring,
            send_ring: config.send_ring,
            mtu: config.mtu.unwrap_or(0),
            checksums: config.checksums.into(),
            scatter: config.scatter.into(),
            multicast: config.multicast.into(),
        };
        let mut rings = [0; 2];
        // SAFETY: there is a device, so EAL runs; there is a pool for each queue, and pools live as long as the process; there is
        // room for two numbers.
        let code = unsafe { sys::shim_port_start(device.port, &raw const port_config, rings.as_mut_ptr()) };
        let advice = if gate.is_some() {
            // A client's first look for its server is part of its start.
            "as a client (role=client, the default) its server must be there before; or ask for fewer queues or smaller rings"
        } else {
            "ask for fewer queues, smaller rings or a smaller MTU, and for mbufs that hold a whole frame"
        };
        device.done(code, advice)?;
        let running = Arc::new(Running {
            device,
            gate,
            pools: pools.to_vec(),
        });
        let queue = |number| Queue {
            receive: ReceiveQueue {
                running: Arc::clone(&running),
                number,
            },
            send: SendQueue {
                running: Arc::clone(&running),
                number,
            },
        };
        let queues = (0..queues).map(queue).collect();
        let port = Self {
            running,
            receive_ring: rings[0],
        };
        Ok((port, queues))
    }

    /// Frames that a receive queue holds.
    pub fn receive_ring(&self) -> u16 {
        self.receive_ring
    }

    /// What it has counted.
    ///
    /// # Errors
    /// What DPDK said.
    pub fn stats(&self) -> Result<PortStats, DpdkError> {
        let device = &self.running.device;
        let mut stats = PortStats::default();
        // SAFETY: the port runs, and the shim writes to `stats` only.
        let code = unsafe { sys::shim_port_stats(device.port, &raw mut stats) };
        device.done(code, "this driver does not count")?;
        Ok(stats)
    }

    /// Stops the port and starts it again: a client of net_memif looks for its server only then.
    ///
    /// # Errors
    /// What DPDK said: the port stays stopped, and nothing is received or sent until this is done again with success.
    ///
    /// # Panics
    /// `queues` are not all of the port's: nobody else may use one meanwhile.
    pub fn restart(&mut self, queues: &mut [Queue]) -> Result<(), DpdkError> {
        let running = &self.running;
        let ours = queues
            .iter()
            .filter(|queue| Arc::ptr_eq(&queue.receive.running, running));
        assert_eq!(
            ours.count(),
            running.pools.len(),
            "all queues of port {}",
            running.device.name
        );
        let _inside = running.gate.map(Gate::enter);
        // SAFETY: the port runs, and nobody uses its queues, which are all here.
        let code = unsafe { sys::shim_port_restart(running.device.port) };
        running.device.done(code, "its other end may not be there")
    }

    /// Whether it has a link: somebody at the other end.
    pub fn is_up(&self) -> bool {
        // SAFETY: the port runs.
        unsafe { sys::shim_port_link(self.running.device.port) == 1 }
    }

    /// Has the port give datagrams to a UDP port to one of its queues, whatever it does with others (rte_flow).
    ///
    /// # Errors
    /// What the driver said; virtual devices cannot.
    pub fn steer(&self, to: &Steering) -> Result<(), DpdkError> {
        let device = &self.running.device;
        let to = sys::Steering {
            udp_port: to.udp_port,
            queue: to.queue,
            is_ipv6: to.is_ipv6.into(),
            has_tag: to.has_tag.into(),
        };
        let mut why = [0; 128];
        // SAFETY: the port runs, and there is as much room as is said.
        let code = unsafe { sys::shim_steer(device.port, &raw const to, why.as_mut_ptr(), why.len()) };
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the shim has ended the text with 0.
        let why = unsafe { CStr::from_ptr(why.as_ptr()) }.to_string_lossy();
        Err(DpdkError::Steer {
            name: device.name.clone(),
            said: if why.is_empty() {
                said(code)
            } else {
                format!("{} ({why})", said(code))
            },
        })
    }
}

impl Queue {
    /// Adds the frames that have come, up to `limit`, behind those in a burst; returns how many. It does not wait.
    pub fn receive(&mut self, limit: usize, into: &mut Burst) -> usize {
        self.receive.receive(limit, into)
    }

    /// Sends frames from the front of a burst on; returns how many. Those that the port has no room for now stay in it.
    pub fn send(&mut self, from: &mut Burst) -> usize {
        self.send.send(from)
    }

    /// Its two directions, for two owners.
    pub fn split(self) -> (ReceiveQueue, SendQueue) {
        (self.receive, self.send)
    }
}

impl ReceiveQueue {
    /// As [`Queue::receive`].
    pub fn receive(&mut self, limit: usize, into: &mut Burst) -> usize {
        let limit = limit.min(super::BURST - into.len());
        let _inside = self.running.gate.map(Gate::enter);
        into.extend_raw(limit, |spare| {
            let (port, count) = (self.running.device.port, spare.len() as u16);
            // SAFETY: the port runs and has this queue, which is ours; `spare` has room for `count` pointers.
            unsafe { sys::shim_receive(port, self.number, spare.as_mut_ptr(), count) }.into()
        })
    }
}

impl SendQueue {
    /// As [`Queue::send`].
    pub fn send(&mut self, from: &mut Burst) -> usize {
        let _inside = self.running.gate.map(Gate::enter);
        from.take_raw(|mbufs| {
            let (port, count) = (self.running.device.port, mbufs.len() as u16);
            // SAFETY: the port runs and has this queue, which is ours; what it takes of the `count` mbufs is its own then.
            unsafe { sys::shim_send(port, self.number, mbufs.as_mut_ptr(), count) }.into()
        })
    }
}

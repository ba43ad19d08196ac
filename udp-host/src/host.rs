//! A running host.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use agg_control::{ControlServer, DataPlane, ShardCounters};
use agg_host::{SlotMemory, epoch_now, in_range, is_straggler_time, same_family};
use udp_io::{MAX_QUEUES, PortConfig, QueueConfig, QueuedPort};

use crate::lent::Borrowed;
use crate::plane::Plane;
use crate::queues::STEERING;
use crate::shard::Shard;
use crate::{HostConfig, HostError};

/// Receive buffer of the queue that no job has, in bytes: a train, so that the counters show that something came.
const FOREIGN_BUFFER: usize = 64 << 10;

/// Files that can be opened at least when a host has started: for the first connections, and lines of shared memory.
const ROOM: usize = 16;

/// A running aggregator. Dropping it stops it.
pub struct UdpHost {
    plane: Arc<Plane>,
    control: Option<ControlServer>,
    control_addr: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl UdpHost {
    /// Opens the sockets, allocates all slot memory, and starts the threads.
    ///
    /// # Errors
    /// A port that is taken, a setting out of range, TLS files that cannot be read: [`HostError`] says which.
    pub fn start(config: &HostConfig) -> Result<Self, HostError> {
        in_range(
            "shards",
            config.shards.into(),
            "1 to 64",
            (1..=64).contains(&config.shards),
        )?;
        in_range(
            "queues",
            config.queues.into(),
            "2 to 64",
            (2..=MAX_QUEUES).contains(&usize::from(config.queues)),
        )?;
        in_range(
            "memory_mib",
            config.memory_mib,
            "1 to 65536",
            (1..=65536).contains(&config.memory_mib),
        )?;
        in_range(
            "store_mib",
            config.store_mib,
            "0 to 1048576",
            config.store_mib <= 1 << 20,
        )?;
        is_straggler_time(config.straggler_after)?;
        in_range(
            "busy_poll_us",
            config.busy_poll_us.into(),
            "0 to 1000000",
            config.busy_poll_us <= 1_000_000,
        )?;
        in_range(
            "receive_buffer_kib",
            config.receive_buffer_kib as u64,
            "1 to 1048576",
            (1..=1 << 20).contains(&config.receive_buffer_kib),
        )?;
        same_family(config.control_addr, config.data_addr)?;
        let ports = bind_row(config)?;
        if ports.iter().any(|port| port.queues().len() == 1) {
            tracing::warn!(
                "this system cannot sort packets into queues: jobs share one, and can crowd each other out"
            );
        }
        let base_port = ports.first().map_or(0, |port| port.local_addr().port());
        let epoch = epoch_now();
        let slots = SlotMemory::of(config.memory_mib << 20, config.store_mib << 20);
        let too_large = || HostError::Memory {
            bytes: slots.bytes(),
            shards: config.shards,
        };
        let mut shards = Vec::new();
        for port in ports {
            let lender = config
                .lender
                .map(|lender| Borrowed::new(lender).map_err(|source| HostError::Lender { lender, source }));
            let mut aggregator = slots.aggregator().ok_or_else(too_large)?;
            aggregator.answer_probes(epoch);
            let busy_poll = Duration::from_micros(config.busy_poll_us.into());
            shards.push(Shard::new(port, aggregator, lender.transpose()?, busy_poll));
        }
        #[cfg(target_os = "linux")]
        let door = config.shared_memory.then(crate::attach::open).flatten();
        #[cfg(not(target_os = "linux"))]
        let door: Option<shm_io::Door> = None;
        let plane = Arc::new(Plane {
            shared_memory: door
                .as_ref()
                .map(|door| door.name().to_owned())
                .unwrap_or_default(),
            shards,
            epoch,
            memory_per_shard: slots.bytes(),
            store_per_shard: config.store_mib << 20,
            base_port,
            closing: AtomicBool::new(false),
        });
        let data_plane: Arc<dyn DataPlane> = Arc::clone(&plane) as Arc<dyn DataPlane>;
        let control = agg_control::serve(config.control_addr, data_plane, config.control.clone())
            .map_err(|error| HostError::Control(error.to_string()))?;
        let control_addr = control.local_addr();
        let mut host = Self {
            plane,
            control: Some(control),
            control_addr,
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for shard in 0..config.shards {
            host.spawn(shard)?;
        }
        #[cfg(target_os = "linux")]
        if let Some(door) = door {
            host.start_thread("shared-memory".to_owned(), 0, move |plane, stop| {
                crate::attach::serve(plane, &door, stop);
            })?;
        }
        let threshold = Duration::from_secs_f64(config.straggler_after);
        host.start_thread("stragglers".to_owned(), 0, move |plane, stop| {
            agg_host::watch(plane, threshold, stop);
        })?;
        host.has_room().map_err(HostError::Room)?;
        Ok(host)
    }

    /// Starts the threads of a shard.
    fn spawn(&mut self, shard: u16) -> Result<(), HostError> {
        self.start_thread(format!("shard-{shard}"), shard, move |plane, stop| {
            if let Err(error) = plane.shards[usize::from(shard)].run(stop) {
                tracing::error!(shard, %error, "a shard's socket is broken; its jobs will fail");
            }
        })?;
        if self.plane.shards[usize::from(shard)].lender().is_none() {
            return Ok(());
        }
        self.start_thread(format!("lender-{shard}"), shard, move |plane, stop| {
            let shard = &plane.shards[usize::from(shard)];
            if let Some(Err(error)) = shard.lender().map(|lender| shard.hear_lender(lender, stop)) {
                tracing::error!(%error, "the socket to the lender of memory is broken");
            }
        })
    }

    /// Whether this process may open some more files.
    fn has_room(&self) -> io::Result<()> {
        let socket = self.plane.shards[0].port.queues()[0].as_fd();
        let files: io::Result<Vec<_>> = (0..ROOM).map(|_| socket.try_clone_to_owned()).collect();
        files.map(drop)
    }

    /// Starts a thread that ends when the host does.
    fn start_thread(
        &mut self,
        name: String,
        shard: u16,
        body: impl FnOnce(&Plane, &AtomicBool) + Send + 'static,
    ) -> Result<(), HostError> {
        let (plane, stop) = (Arc::clone(&self.plane), Arc::clone(&self.stop));
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || body(&plane, &stop));
        self.threads
            .push(thread.map_err(|source| HostError::Thread { shard, source })?);
        Ok(())
    }

    /// Where ranks register.
    pub fn control_addr(&self) -> SocketAddr {
        self.control_addr
    }

    /// Where shard 0 receives.
    pub fn data_addr(&self) -> SocketAddr {
        self.plane.shards[0].port.local_addr()
    }

    /// What each shard has counted.
    pub fn counters(&self) -> Vec<ShardCounters> {
        self.plane.counters()
    }

    /// One line about what was set up.
    pub fn summary(&self) -> String {
        let about = self.plane.describe();
        let queues = self.plane.shards[0].port.queues().len();
        format!(
            "control {}, data {} ({} shard{}, {} queue{} each), {:.1} MiB of slot memory a shard, receive buffer {} KiB, epoch {}",
            self.control_addr,
            self.data_addr(),
            about.shards,
            if about.shards == 1 { "" } else { "s" },
            queues,
            if queues == 1 { "" } else { "s" },
            about.memory_per_shard as f64 / f64::from(1 << 20),
            about.receive_buffer >> 10,
            about.epoch,
        )
    }

    /// Ends all jobs, telling their ranks, and stops the threads.
    pub fn shutdown(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(control) = self.control.take() {
            agg_host::tell_ranks(control, &*self.plane, &self.plane.closing);
        }
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A shard that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for UdpHost {
    fn drop(&mut self) {
        self.end();
    }
}

/// One port a shard, on consecutive ports. Where the kernel chooses the first, the next ones may be taken: try
/// other rows.
fn bind_row(config: &HostConfig) -> Result<Vec<QueuedPort>, HostError> {
    const ATTEMPTS: usize = 32;
    let queues = QueueConfig {
        queues: config.queues.into(),
        steering: STEERING,
        buffers: PortConfig {
            receive_buffer: config.receive_buffer_kib << 10,
            busy_poll: Duration::from_micros(config.busy_poll_us.into()),
            ..PortConfig::default()
        },
        foreign_buffer: FOREIGN_BUFFER,
    };
    let addr = config.data_addr;
    let bind = |ip: IpAddr, port: u16| QueuedPort::bind(SocketAddr::new(ip, port), &queues);
    for _ in 0..ATTEMPTS {
        let first = bind(addr.ip(), addr.port())?;
        let base = first.local_addr().port();
        let mut row = vec![first];
        for shard in 1..config.shards {
            let Some(port) = base.checked_add(shard) else {
                break;
            };
            match bind(addr.ip(), port) {
                Ok(port) => row.push(port),
                Err(_) if addr.port() == 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        if row.len() == usize::from(config.shards) {
            return Ok(row);
        }
    }
    Err(HostError::Ports {
        addr,
        shards: config.shards,
    })
}

impl std::fmt::Debug for UdpHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UdpHost({})", self.summary())
    }
}

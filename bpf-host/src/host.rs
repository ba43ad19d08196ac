//! A running host.

use std::collections::HashSet;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use agg_control::{ControlServer, DataPlane, ShardCounters};
use agg_host::{epoch_now, tell_ranks, watch};

use crate::explain;
use crate::interfaces::Interfaces;
use crate::load::{Attachment, Programs, load};
use crate::maps::{KernelMaps, Maps};
use crate::memory::Memory;
use crate::neighbours::{Interface, Kernel};
use crate::plane::{About, Plane};
use crate::relay::Relay;
use crate::watch::{Attached, Watch};
use crate::{HostConfig, HostError, Mode};

/// How often it is looked where members and parents are.
const REFRESH: Duration = Duration::from_secs(1);

/// How long a thread sleeps at most before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

type KernelPlane = Plane<KernelMaps, Kernel>;

/// A running aggregator. Dropping it stops it, and takes the program off its interfaces.
pub struct BpfHost {
    plane: Arc<KernelPlane>,
    control: Option<ControlServer>,
    control_addr: SocketAddr,
    data_addr: SocketAddrV4,
    attached: Attached,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BpfHost {
    /// Loads the program, makes the maps, attaches the program to the interfaces, and serves.
    ///
    /// # Errors
    /// A setting out of range, no privileges, an interface that cannot have the program, an address that is taken:
    /// [`HostError`] says which.
    pub fn start(config: &HostConfig) -> Result<Self, HostError> {
        config.validate()?;
        let interfaces = config.interfaces.iter().map(|name| interface(name));
        let interfaces: Vec<Interface> = interfaces.collect::<Result<_, _>>()?;
        let (socket, data_addr) = open(config)?;
        let memory = Memory::of(config.memory_mib << 20);
        let veth = interfaces.iter().any(|interface| interface.driver == "veth");
        let epoch = epoch_now();
        let (mut programs, mut maps) = load(&memory, config.data_ip(), data_addr.port(), epoch, veth)?;
        let mut attach = |interface: &Interface| {
            // Replies leave by it.
            maps.add_device(interface.index)?;
            let attachment = programs.attach(interface, config.mode)?;
            advise(interface, attachment.mode);
            Ok(attachment)
        };
        let attachments: Vec<Attachment> = interfaces
            .iter()
            .map(&mut attach)
            .collect::<Result<_, HostError>>()?;
        let interfaces = Interfaces::new(interfaces);
        let about = About {
            epoch,
            local: data_addr.into(),
            interfaces: interfaces.clone(),
        };
        let neighbours = Kernel {
            interfaces: interfaces.clone(),
            local: *data_addr.ip(),
            port: data_addr.port(),
        };
        let programs = Arc::new(Mutex::new(programs));
        let plane = Arc::new(Plane::new(about, memory, maps, neighbours));
        let data_plane: Arc<dyn DataPlane> = Arc::clone(&plane) as Arc<dyn DataPlane>;
        let control = agg_control::serve(config.control_addr, data_plane, config.control.clone())
            .map_err(|error| HostError::Control(error.to_string()))?;
        let control_addr = control.local_addr();
        let mut host = Self {
            plane,
            control: Some(control),
            control_addr,
            data_addr,
            attached: Attached::new(attachments),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let relay = Relay {
            socket,
            local: data_addr,
            runner: Arc::clone(&programs),
        };
        let watch = Watch {
            interfaces,
            programs,
            attached: host.attached.clone(),
            mode: config.mode,
            complained: HashSet::new(),
        };
        host.start_threads(relay, watch, Duration::from_secs_f64(config.straggler_after))?;
        Ok(host)
    }

    fn start_threads(
        &mut self,
        relay: Relay<Arc<Mutex<Programs>>>,
        mut watch_interfaces: Watch,
        late: Duration,
    ) -> Result<(), HostError> {
        self.start_thread("relay", move |plane, stop| {
            if let Err(error) = relay.serve(|key| plane.ways(key), stop) {
                tracing::error!(%error, "the data socket is broken: what needs a longer answer than itself gets none");
            }
        })?;
        self.start_thread("neighbours", move |plane, stop| {
            let mut slept = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(STOP_INTERVAL);
                slept += STOP_INTERVAL;
                if slept >= REFRESH {
                    slept = Duration::ZERO;
                    watch_interfaces.look(plane);
                    plane.refresh();
                }
            }
        })?;
        self.start_thread("stragglers", move |plane, stop| watch(plane, late, stop))
    }

    /// Starts a thread that ends when the host does.
    fn start_thread(
        &mut self,
        name: &str,
        body: impl FnOnce(&KernelPlane, &AtomicBool) + Send + 'static,
    ) -> Result<(), HostError> {
        let (plane, stop) = (Arc::clone(&self.plane), Arc::clone(&self.stop));
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(&plane, &stop));
        self.threads.push(thread.map_err(HostError::Thread)?);
        Ok(())
    }

    /// Where ranks register.
    pub fn control_addr(&self) -> SocketAddr {
        self.control_addr
    }

    /// Where packets are received.
    pub fn data_addr(&self) -> SocketAddr {
        self.data_addr.into()
    }

    /// What was counted.
    pub fn counters(&self) -> Vec<ShardCounters> {
        self.plane.counters()
    }

    /// Each interface that has the program, and the mode it runs in there.
    pub fn interfaces(&self) -> Vec<(String, Mode)> {
        self.attached.modes()
    }

    /// One line about what was set up.
    pub fn summary(&self) -> String {
        let about = self.plane.describe();
        let interfaces = self.interfaces().into_iter();
        let interfaces = interfaces.map(|(name, mode)| format!("{name} ({mode})"));
        let lanes = about.lanes.iter().map(u16::to_string);
        format!(
            "control {}, data {} at {}, chunks of {} lanes, {:.1} MiB of slot memory, epoch {}",
            self.control_addr,
            self.data_addr,
            interfaces.collect::<Vec<_>>().join(", "),
            lanes.collect::<Vec<_>>().join(", "),
            about.memory_per_shard as f64 / f64::from(1 << 20),
            about.epoch,
        )
    }

    /// Ends all jobs, telling their ranks, then takes the program off its interfaces.
    pub fn shutdown(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(control) = self.control.take() {
            tell_ranks(control, &*self.plane, &self.plane.closing);
        }
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
        self.attached.clear();
    }
}

impl Drop for BpfHost {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for BpfHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BpfHost({})", self.summary())
    }
}

/// An interface that frames can be sent from.
pub(crate) fn interface(name: &str) -> Result<Interface, HostError> {
    let unusable = |reason: String| HostError::Interface {
        name: name.to_owned(),
        reason,
    };
    let interface = Interface::find(name).map_err(|error| {
        unusable(format!(
            "{error}: `ip link` lists those of this network namespace"
        ))
    })?;
    if interface.mac.is_none() {
        return Err(unusable(
            "it is no Ethernet interface, which the program needs".to_owned(),
        ));
    }
    if !interface.up {
        return Err(unusable(format!("it is down: `ip link set {name} up`")));
    }
    Ok(interface)
}

/// The socket for what the program passes on. It also keeps the port from others.
fn open(config: &HostConfig) -> Result<(UdpSocket, SocketAddrV4), HostError> {
    let addr = config.data_addr;
    let failed = |source| HostError::Socket { addr, source };
    let socket = UdpSocket::bind(addr).map_err(failed)?;
    match socket.local_addr().map_err(failed)? {
        SocketAddr::V4(local) => Ok((socket, local)),
        SocketAddr::V6(local) => Err(HostError::Ipv6(local.into())),
    }
}

/// Says what cannot be seen from here, and loses packets silently.
pub(crate) fn advise(interface: &Interface, mode: Mode) {
    if let Some(advice) = explain::advice(interface, mode) {
        tracing::info!("{}: {advice}", interface.name);
    }
}

//! A running host.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use agg_control::{ControlServer, DataPlane};
use agg_host::frame::Framing;
use agg_host::{SlotMemory, epoch_now, tell_ranks, watch};

use crate::lcore::About;
use crate::plane::Plane;
use crate::{HostConfig, HostError, lcore};

/// A running aggregator. Dropping it stops it.
///
/// A process can have one only, since DPDK starts once.
pub struct DpdkHost {
    plane: Arc<Plane>,
    control: Option<ControlServer>,
    control_addr: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Where the kernel has the data address, too: else it would tell the ranks that nobody receives there.
    _keepers: Vec<Option<UdpSocket>>,
}

impl DpdkHost {
    /// Starts DPDK and the ports in a thread of their own, allocates the slot memory, and serves.
    ///
    /// # Errors
    /// A setting out of range, what DPDK refuses, an address that is taken: [`HostError`] says which.
    pub fn start(config: &HostConfig) -> Result<Self, HostError> {
        config.validate()?;
        let local = config.local()?;
        let addresses = (0..config.shards).map(|shard| lcore::address(local, shard));
        let keepers: Vec<Option<UdpSocket>> = addresses.map(keep).collect::<Result<_, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (said, heard) = mpsc::channel();
        let poll = {
            let (config, stop) = (config.clone(), Arc::clone(&stop));
            move || lcore::work(&config, local, &stop, &said)
        };
        let poller = std::thread::Builder::new().name("shard-0".to_owned()).spawn(poll);
        let mut threads = vec![poller.map_err(HostError::Thread)?];
        let started = heard.recv().map_err(|_| HostError::Core)??;
        let epoch = epoch_now();
        for shard in &started.shards {
            shard.lock().aggregator.answer_probes(epoch);
        }
        let plane = Arc::new(Plane {
            shards: started.shards,
            epoch,
            local,
            framing: Framing::new(&local, config.vlan),
            ports: started.ports,
            memory: SlotMemory::of(config.memory_mib << 20, 0).bytes(),
            names: Mutex::default(),
            trying: Mutex::default(),
            closing: AtomicBool::new(false),
        });
        let stragglers = {
            let (plane, stop) = (Arc::clone(&plane), Arc::clone(&stop));
            let late = Duration::from_secs_f64(config.straggler_after);
            move || watch(&*plane, late, &stop)
        };
        let stragglers = std::thread::Builder::new()
            .name("stragglers".to_owned())
            .spawn(stragglers);
        threads.push(stragglers.map_err(HostError::Thread)?);
        let mut host = Self {
            plane: Arc::clone(&plane),
            control: None,
            control_addr: config.control_addr,
            stop,
            threads,
            _keepers: keepers,
        };
        let control = agg_control::serve(config.control_addr, plane, config.control.clone())
            .map_err(|error| HostError::Control(error.to_string()))?;
        host.control_addr = control.local_addr();
        host.control = Some(control);
        Ok(host)
    }

    /// One line about what was set up.
    pub fn summary(&self) -> String {
        let about = self.plane.describe();
        let lanes: Vec<String> = about.lanes.iter().map(u16::to_string).collect();
        let ports: Vec<String> = self.plane.ports.iter().map(About::to_string).collect();
        format!(
            "control {}, data {} ({} shard{}) at {}, chunks of {} lanes, {:.1} MiB of slot memory a shard, epoch {}",
            self.control_addr,
            self.plane.local,
            about.shards,
            if about.shards == 1 { "" } else { "s" },
            ports.join(", "),
            lanes.join(", "),
            about.memory_per_shard as f64 / f64::from(1 << 20),
            about.epoch,
        )
    }

    /// Ends all jobs, telling their ranks, and closes the ports.
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
    }
}

impl Drop for DpdkHost {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes the address in the kernel, if the kernel has it.
fn keep(addr: SocketAddr) -> Result<Option<UdpSocket>, HostError> {
    match UdpSocket::bind(addr) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Ok(None),
        Err(source) => Err(HostError::Taken { addr, source }),
    }
}

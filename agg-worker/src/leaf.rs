//! One stream for all ranks of a machine: the first of them starts a leaf, all of them register there.
//!
//! They find it by an abstract Unix socket, whose name is made of the world's and the aggregators': what is asked there is
//! only where to register.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agg_control::{Capabilities, ControlClient, ControlConfig, ParentConfig, Policy};
use shm_io::{Door, SMALLEST_RING, connect};
use udp_host::{HostConfig, UdpHost};

use crate::arrival::resolve;
use crate::rings::Rings;
use crate::{Config, LocalGroup};

/// How long the thread that tells others sleeps before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// How often one who asks looks whether somebody is there.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// What is told instead of a port: register where it is configured.
const NOWHERE: u64 = 0;

/// The leaf of this machine, in the process of its first rank.
#[derive(Debug)]
pub(crate) struct Leaf {
    // Before the leaf ends nobody is told of it any more.
    _meeting: Meeting,
    _host: Option<UdpHost>,
}

/// Whether the ranks of this machine go through a leaf of theirs.
pub(crate) fn applies(config: &Config) -> Option<LocalGroup> {
    let group = config.local.filter(|group| group.size > 1)?;
    let can_be = cfg!(target_os = "linux")
        && !config.aggregators.is_empty()
        && config.shared_memory
        && config.policy == Policy::All
        && config.transport.is_none()
        && config.faults.is_none()
        && config.tls.is_none();
    can_be.then_some(group)
}

/// The address of the leaf of this machine, which its first rank starts; `None` where its ranks need none.
///
/// # Errors
/// Who is not there, or what is in the way.
pub(crate) fn find(config: &Config, group: LocalGroup) -> Result<(Option<String>, Option<Leaf>), String> {
    let first = config.aggregators.first().map_or("", String::as_str);
    let is_ipv4 = resolve(first)?.is_ipv4();
    let name = meeting_name(config, group);
    if group.rank > 0 {
        // The first rank itself may have to wait for the aggregator.
        return Ok((ask(group, &name, 2 * config.connect_timeout, is_ipv4)?, None));
    }
    let door = Door::open(&name).map_err(|error| {
        format!(
            "another process is the first of the ranks of this world on this machine ({error}): give each its own local \
             rank, or no local group"
        )
    })?;
    let host = start(config, first, is_ipv4)?;
    let port = host
        .as_ref()
        .map_or(NOWHERE, |host| host.control_addr().port().into());
    let meeting = Meeting::hold(door, port, group.size - 1)?;
    let address = host.as_ref().map(|host| host.control_addr().to_string());
    let leaf = Leaf {
        _meeting: meeting,
        _host: host,
    };
    Ok((address, Some(leaf)))
}

/// Starts the leaf; `None` where the aggregator is on this machine itself, and shares memory with each rank.
fn start(config: &Config, aggregator: &str, is_ipv4: bool) -> Result<Option<UdpHost>, String> {
    let control = ControlClient::connect(aggregator, None, config.connect_timeout);
    let host = control.and_then(|control| control.describe());
    let host = host.map_err(|error| error.to_string())?.host;
    if is_here(config, &host) {
        return Ok(None);
    }
    let (loopback, any): (IpAddr, IpAddr) = if is_ipv4 {
        (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::UNSPECIFIED.into())
    } else {
        (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into())
    };
    let leaf = HostConfig {
        control_addr: SocketAddr::new(loopback, 0),
        data_addr: SocketAddr::new(any, 0),
        shards: config.streams.unwrap_or(host.shards),
        control: ControlConfig {
            parent: Some(ParentConfig {
                address: aggregator.to_owned(),
                tls: None,
            }),
            ..ControlConfig::default()
        },
        ..HostConfig::default()
    };
    let leaf = UdpHost::start(&leaf).map_err(|error| format!("the leaf of this machine: {error}"))?;
    tracing::info!(
        world = config.world,
        aggregator,
        leaf = %leaf.control_addr(),
        "the ranks of this machine send one stream"
    );
    Ok(Some(leaf))
}

fn is_here(config: &Config, host: &Capabilities) -> bool {
    // Where its shards are does not matter: nothing is sent.
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    !host.shared_memory.is_empty() && Rings::attach(config, host, nowhere, 1).is_ok()
}

/// The same for all ranks of a world on this machine, and for no others.
fn meeting_name(config: &Config, group: LocalGroup) -> String {
    // Its keys are fixed, so that each process of this program has the same.
    let mut hasher = DefaultHasher::new();
    (
        &config.world,
        config.size,
        &config.aggregators,
        group.size,
        group.node,
    )
        .hash(&mut hasher);
    format!("tributary-local-{:016x}", hasher.finish())
}

/// Asks the first rank of this machine where to register.
fn ask(group: LocalGroup, name: &str, patience: Duration, is_ipv4: bool) -> Result<Option<String>, String> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match connect(name, group.rank.into(), SMALLEST_RING, left) {
            Ok(line) if line.name() == NOWHERE => return Ok(None),
            Ok(line) => {
                let port = line.name() as u16; // as it was told
                let loopback: IpAddr = if is_ipv4 {
                    Ipv4Addr::LOCALHOST.into()
                } else {
                    Ipv6Addr::LOCALHOST.into()
                };
                return Ok(Some(SocketAddr::new(loopback, port).to_string()));
            }
            Err(error) if left.is_zero() => {
                return Err(format!(
                    "the first of the {} ranks on this machine has not come in {:.0} s ({error}): was it started, with the \
                     same world, size and aggregators?",
                    group.size,
                    patience.as_secs_f64(),
                ));
            }
            Err(_) => std::thread::sleep(ASK_AGAIN.min(left)),
        }
    }
}

/// The thread that tells the other ranks of this machine where to register.
#[derive(Debug)]
struct Meeting {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Meeting {
    /// Until so many have been told.
    fn hold(door: Door, port: u64, others: u32) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let body = move || {
            let mut told = 0;
            while told < others && !stopped.load(Ordering::Relaxed) {
                let answered = door.accept(STOP_INTERVAL).and_then(|call| {
                    let Some(call) = call else { return Ok(0) };
                    // The line has served its purpose.
                    call.answer(port, |_| Ok(1))
                });
                match answered {
                    Ok(count) => told += count,
                    Err(error) => {
                        tracing::debug!(%error, "who asked where to register was not told");
                        std::thread::sleep(ASK_AGAIN);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("tributary-meeting".into())
            .spawn(body);
        Ok(Self {
            stop,
            thread: Some(thread.map_err(|error| format!("cannot start a thread: {error}"))?),
        })
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Had it panicked, it would have said so itself.
            let _ = thread.join();
        }
    }
}

//! One stream for all ranks of a machine: the first of them starts a leaf, all of them register there.
//!
//! They find it by an abstract Unix socket, whose name is made of the world's and the aggregators': what is asked there is
//! only where to register.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agg_control::{
    Capabilities, ControlClient, ControlConfig, GENERATIONS, LARGEST_WINDOW, ParentConfig, Policy,
    slot_memory,
};
use shm_io::{Door, ask, holder, is_taken};
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

/// How long a name that is taken, as far as can be seen by nobody of this job, may still become free.
const RELEASE: Duration = Duration::from_secs(1);

/// Slot memory of each shard of a leaf in MiB, unless a larger window was asked for: the chosen window of one job takes about
/// 1.3 MiB ([`agg_control::CHOSEN_BYTES_IN_FLIGHT`], two generations).
const MEMORY_MIB: u64 = 8;

/// The leaf of this machine, in the process of its first rank.
#[derive(Debug)]
pub(crate) struct Leaf {
    // Before the leaf ends nobody is told of it any more.
    meeting: Option<Meeting>,
    _host: Option<UdpHost>,
}

impl Leaf {
    /// All ranks have registered: nobody need be told any more.
    pub(crate) fn joined(&mut self) {
        self.meeting = None;
    }
}

/// The ranks of this machine, where they are several and the aggregator is another process.
pub(crate) fn group(config: &Config) -> Option<LocalGroup> {
    let group = config.local.filter(|group| group.size > 1)?;
    (cfg!(target_os = "linux") && !config.aggregators.is_empty()).then_some(group)
}

/// Whether this rank can go through a leaf of its machine.
fn applies(config: &Config) -> bool {
    config.shares_memory() && config.policy == Policy::All && config.tls.is_none()
}

/// The address of the leaf of this machine, which its first rank starts; `None` where its ranks go by themselves.
///
/// # Errors
/// The first rank has not come, or is there twice.
pub(crate) fn find(config: &Config, group: LocalGroup) -> Result<(Option<String>, Option<Leaf>), String> {
    let first = config.aggregators.first().map_or("", String::as_str);
    let name = meeting_name(config, group);
    if group.rank > 0 {
        // Whatever keeps this rank from it need not keep the others.
        if !applies(config) {
            return Ok((None, None));
        }
        return Ok((
            ask_first(group, &name, config.wait, resolve(first)?.is_ipv4())?,
            None,
        ));
    }
    let Some(door) = open(&name)? else {
        return Ok((None, None));
    };
    let started = if applies(config) {
        start(config, first)
    } else {
        Err("its options do not allow one".to_owned())
    };
    let host = started.unwrap_or_else(|reason| {
        tracing::warn!(
            world = config.world,
            %reason,
            "no leaf in the first rank of this machine: each of its ranks sends a stream of its own"
        );
        None
    });
    let port = host
        .as_ref()
        .map_or(NOWHERE, |host| host.control_addr().port().into());
    let meeting = Meeting::hold(door, port)?;
    let address = host.as_ref().map(|host| host.control_addr().to_string());
    let leaf = Leaf {
        meeting: Some(meeting),
        _host: host,
    };
    Ok((address, Some(leaf)))
}

/// Opens the door at which the others ask; `None` where a stranger has its name.
fn open(name: &str) -> Result<Option<Door>, String> {
    let deadline = Instant::now() + RELEASE;
    loop {
        let error = match Door::open(name) {
            Ok(door) => return Ok(Some(door)),
            Err(error) => error,
        };
        let is_over = Instant::now() >= deadline;
        let reason = match holder(name, RELEASE) {
            // Of a process that has just ended it is free soon.
            Ok(()) if is_over => {
                return Err(format!(
                    "another process is the first of the ranks of this world on this machine ({error}): give each its own \
                     local rank, or no local group"
                ));
            }
            Err(stranger) if is_strange(&stranger) || is_over => stranger,
            Ok(()) | Err(_) => {
                std::thread::sleep(ASK_AGAIN);
                continue;
            }
        };
        warn_of_stranger(&reason);
        return Ok(None);
    }
}

/// Whether a process that is none of this job has the meeting's name.
fn is_strange(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData
    )
}

fn warn_of_stranger(reason: &io::Error) {
    tracing::warn!(
        %reason,
        "the name by which the ranks of this machine find each other is another's: this one sends a stream of its own"
    );
}

/// Starts the leaf; `None` where the aggregator is on this machine itself, and shares memory with each rank.
fn start(config: &Config, aggregator: &str) -> Result<Option<UdpHost>, String> {
    let is_ipv4 = resolve(aggregator)?.is_ipv4();
    let control = ControlClient::connect(aggregator, None, config.connect_timeout);
    let host = control.and_then(|control| control.describe());
    let host = host.map_err(|error| error.to_string())?.host;
    if is_here(config, &host) {
        return Ok(None);
    }
    let any: IpAddr = if is_ipv4 {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let leaf = HostConfig {
        control_addr: SocketAddr::new(loopback(is_ipv4), 0),
        data_addr: SocketAddr::new(any, 0),
        shards: config.streams.unwrap_or(host.shards),
        memory_mib: memory_mib(config),
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

/// Where the leaf is reached, in the family of the aggregator's address.
fn loopback(is_ipv4: bool) -> IpAddr {
    if is_ipv4 {
        Ipv4Addr::LOCALHOST.into()
    } else {
        Ipv6Addr::LOCALHOST.into()
    }
}

/// Slot memory of each shard: the job's, and as much again.
fn memory_mib(config: &Config) -> u64 {
    let window = config
        .window
        .map(|window| window.min(LARGEST_WINDOW.into()) as u16)
        .map(u16::next_power_of_two);
    let needed = window.map_or(0, |window| {
        slot_memory(config.most_lanes(true), window, GENERATIONS)
    });
    (2 * needed).div_ceil(1 << 20).max(MEMORY_MIB)
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

/// Asks the first rank of this machine where to register; `None`: where it is configured.
fn ask_first(
    group: LocalGroup,
    name: &str,
    patience: Duration,
    is_ipv4: bool,
) -> Result<Option<String>, String> {
    let deadline = Instant::now() + patience;
    // Since when the name is held by somebody who does not listen: the first rank does so for a moment only.
    let mut mute_since = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let error = match ask(name, left) {
            Ok(NOWHERE) => return Ok(None),
            Ok(port) => {
                let port = port as u16; // as it was told
                return Ok(Some(SocketAddr::new(loopback(is_ipv4), port).to_string()));
            }
            Err(error) => error,
        };
        let is_mute = error.kind() == io::ErrorKind::ConnectionRefused && is_taken(name).unwrap_or(false);
        let since = is_mute.then(|| mute_since.unwrap_or_else(Instant::now));
        mute_since = since;
        if is_strange(&error) || since.is_some_and(|since| since.elapsed() >= RELEASE) {
            warn_of_stranger(&error);
            return Ok(None);
        }
        if left.is_zero() {
            return Err(format!(
                "the first (local rank 0) of the {} ranks on this machine has not come in {:.0} s ({error}): was it started, \
                 by the same user, with the same world, size and aggregators, and told its local rank by the same launcher? \
                 Without a local group, each rank goes by itself",
                group.size,
                patience.as_secs_f64(),
            ));
        }
        std::thread::sleep(ASK_AGAIN.min(left));
    }
}

/// The thread that tells the other ranks of this machine where to register.
#[derive(Debug)]
struct Meeting {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Meeting {
    /// Until it is dropped: one that has asked may be started again, and ask again.
    fn hold(door: Door, port: u64) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let body = move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Err(error) = door.tell(STOP_INTERVAL, port) {
                    tracing::debug!(%error, "who asked where to register was not told");
                    std::thread::sleep(ASK_AGAIN);
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn config(world: &str, rank: u32, aggregator: &str) -> Config {
        let world = format!("{world}-{}", std::process::id());
        Config {
            local: Some(LocalGroup {
                rank,
                size: 3,
                node: 0,
            }),
            connect_timeout: Duration::from_millis(300),
            wait: Duration::from_secs(20),
            ..Config::new(world, rank, 3).with_aggregator(aggregator)
        }
    }

    fn find_as(config: &Config) -> Result<(Option<String>, Option<Leaf>), String> {
        find(config, group(config).unwrap())
    }

    #[test]
    fn whoever_asks_again_is_told_again_until_all_have_joined() {
        let config = |rank| config("again", rank, "127.0.0.1:1");
        let name = meeting_name(&config(0), group(&config(0)).unwrap());
        let mut leaf = Leaf {
            meeting: Some(Meeting::hold(Door::open(&name).unwrap(), 4711).unwrap()),
            _host: None,
        };
        for rank in [1, 1, 1, 2, 1] {
            let (address, _) = find_as(&config(rank)).unwrap();
            assert_eq!(address.as_deref(), Some("127.0.0.1:4711"));
        }
        leaf.joined();
        assert!(!is_taken(&name).unwrap());
    }

    #[test]
    fn without_a_leaf_in_the_first_rank_the_others_are_told_so() {
        // Nobody listens there; or the first rank's own options are in the way.
        let there = UdpHost::start(&HostConfig::loopback()).unwrap();
        let there = there.control_addr().to_string();
        for (aggregator, shared_memory) in [("127.0.0.1:1", true), (&there, false)] {
            let first = Config {
                shared_memory,
                ..config("none", 0, aggregator)
            };
            let (address, leaf) = find_as(&first).unwrap();
            assert!(address.is_none() && leaf.is_some());
            assert_eq!(find_as(&config("none", 1, aggregator)).unwrap().0, None);
        }
    }

    #[test]
    fn a_name_that_a_stranger_holds_is_done_without() {
        let config = |rank| config("stranger", rank, "127.0.0.1:1");
        let name = meeting_name(&config(0), group(&config(0)).unwrap());
        // It does not even listen.
        let kind = rustix::net::SocketType::SEQPACKET;
        let stranger = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
        let address = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        rustix::net::bind(&stranger, &address).unwrap();
        for rank in [0, 1] {
            let (address, leaf) = find_as(&config(rank)).unwrap();
            assert!(address.is_none() && leaf.is_none());
        }
    }

    #[test]
    fn a_first_rank_that_does_not_come_is_waited_for_as_long_as_any() {
        let late = Config {
            wait: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(3600),
            ..config("late", 1, "127.0.0.1:1")
        };
        let error = find_as(&late).unwrap_err();
        assert!(
            error.starts_with("the first (local rank 0) of the 3 ranks"),
            "{error}"
        );
    }

    #[test]
    fn the_memory_of_a_leaf_is_the_jobs() {
        let of = |window, lanes| {
            memory_mib(&Config {
                window,
                lanes,
                ..config("memory", 0, "127.0.0.1:1")
            })
        };
        assert_eq!([of(None, None), of(Some(64), None)], [MEMORY_MIB; 2]);
        assert_eq!(of(Some(1000), Some(8192)), 129);
    }
}

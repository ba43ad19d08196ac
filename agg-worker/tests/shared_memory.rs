//! Ranks that are attached to their aggregator by shared memory.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agg_control::{ControlClient, ControlConfig, attached_name};
use agg_worker::{Communicator, Config, OnLost};
use udp_host::{HostConfig, UdpHost};

const LEN: usize = 100_003;

/// Longer than anything takes, unless it hangs.
const LONG: Duration = Duration::from_secs(30);

/// Tests that count this process's files run alone, also where tests are threads.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn host(shards: u16) -> UdpHost {
    let config = HostConfig {
        shards,
        control: ControlConfig {
            lost_after: Duration::from_secs(2),
            heartbeat: Duration::from_millis(250),
            ..ControlConfig::default()
        },
        ..HostConfig::loopback()
    };
    UdpHost::start(&config).unwrap()
}

fn values(rank: u32) -> Vec<f32> {
    // Of magnitudes that differ from chunk to chunk: another chunk size would make other bits.
    let scale = |index: usize| 2_f32.powi((index / 700) as i32 % 24);
    let value = |index: usize| (index as f32 * 0.37 + rank as f32).sin() * scale(index);
    (0..LEN).map(value).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Runs `body` on every rank of a world.
fn world<T: Send>(
    configs: impl IntoIterator<Item = Config>,
    body: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let body = &body;
    std::thread::scope(|scope| {
        let ranks = configs.into_iter();
        let ranks: Vec<_> = ranks
            .map(|config| scope.spawn(move || body(Communicator::connect(config).unwrap())))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// The bits of a sum, how many packets it took, and whether they went through shared memory.
fn sum(mut world: Communicator) -> (Vec<u32>, bool) {
    let mut tensor = values(world.rank());
    world.all_reduce(&mut tensor).unwrap();
    let stats = world.stats();
    assert!(stats.packets_sent > 0 && stats.packets_unsent == 0, "{stats:?}");
    world.close().unwrap();
    (bits(&tensor), stats.shared_memory)
}

/// Files of this process that are sockets or memory.
fn open_files() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let ours = names.filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("socket:") || name.contains("memfd:")
    });
    ours.count()
}

/// Waits until there are no more files than that.
fn settles_at(files: usize) {
    let began = Instant::now();
    while open_files() > files {
        assert!(began.elapsed() < LONG, "{} files, {files} expected", open_files());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn sums_have_the_bits_that_they_have_by_udp_and_nothing_stays_open() {
    let _alone = alone();
    let host = host(2);
    let files = open_files();
    let configs = |name: &'static str, shared: [bool; 3]| {
        let address = host.control_addr().to_string();
        (0..3).map(move |rank| Config {
            shared_memory: shared[rank as usize],
            // Otherwise chunks are larger through shared memory.
            lanes: Some(2048),
            ..Config::new(name, rank, 3).with_aggregator(address.clone())
        })
    };
    let by_udp = world(configs("udp", [false; 3]), sum);
    assert!(by_udp.iter().all(|(_, shared)| !shared));
    for shared in [[true; 3], [true, false, true]] {
        let sums = world(configs("shared", shared), sum);
        for (rank, (bits, is_shared)) in sums.iter().enumerate() {
            assert_eq!(*is_shared, shared[rank]);
            assert!(*bits == by_udp[0].0, "rank {rank} of {shared:?}");
        }
    }
    settles_at(files);
    let counted = host.counters();
    let unsent = counted.iter().flat_map(|shard| &shard.values);
    let unsent: u64 = unsent
        .filter(|(name, _)| name == "ring_unsent")
        .map(|(_, count)| *count)
        .sum();
    assert_eq!(unsent, 0, "no ring was ever full");
}

#[test]
fn chunks_are_larger_where_all_share_memory_and_asked_for_nothing() {
    let host = host(1);
    let lanes = |shared: [bool; 2], window| {
        let configs = (0..2).map(|rank| Config {
            shared_memory: shared[rank as usize],
            window,
            ..Config::new("lanes", rank, 2).with_aggregator(host.control_addr().to_string())
        });
        world(configs, |rank| rank.stats().lanes)
    };
    assert_eq!(lanes([true; 2], None), [8192; 2]);
    assert_eq!(lanes([true, false], None), [2048; 2]);
    assert_eq!(lanes([true; 2], Some(64)), [2048; 2]);
}

/// Also where the window is larger than the rings would be.
#[test]
fn chunks_and_windows_of_all_sizes_pass() {
    let host = host(1);
    for (lanes, window) in [(256, 2), (352, 1024), (8192, 4), (8192, 64)] {
        let configs = (0..2).map(|rank| Config {
            lanes: Some(lanes),
            window: Some(window),
            ..Config::new("sizes", rank, 2).with_aggregator(host.control_addr().to_string())
        });
        let sums = world(configs, sum);
        assert!(sums.iter().all(|(bits, shared)| *shared && *bits == sums[0].0));
    }
}

#[test]
fn an_aggregator_that_offers_none_is_reached_by_udp() {
    let config = HostConfig {
        shared_memory: false,
        ..HostConfig::loopback()
    };
    let host = UdpHost::start(&config).unwrap();
    let config = Config::new("none", 0, 1).with_aggregator(host.control_addr().to_string());
    assert!(!sum(Communicator::connect(config).unwrap()).1);
}

#[test]
fn status_shows_who_is_attached_and_nobody_else_can_take_the_place() {
    let host = host(1);
    let address = host.control_addr().to_string();
    let config = |name: &str| Config::new(name, 0, 1).with_aggregator(address.clone());
    let attached = Communicator::connect(config("attached")).unwrap();
    let by_udp = Config {
        shared_memory: false,
        ..config("udp")
    };
    let by_udp = Communicator::connect(by_udp).unwrap();
    let control = ControlClient::connect(&address, None, LONG).unwrap();
    let jobs = control.status().unwrap().jobs;
    let shown = |world: &str| {
        let job = jobs.iter().find(|job| job.name == world).unwrap();
        job.ranks[0].address
    };
    let taken = shown("attached");
    assert!(attached_name(&taken).is_some(), "{taken}");
    assert!(attached_name(&shown("udp")).is_none());

    // One that is another's, and one that is nobody's.
    for address in [taken, agg_control::attached_address(77)] {
        let registration = agg_control::Registration {
            world: "thief".into(),
            size: 1,
            ranks: vec![0],
            child: false,
            nonce: 5,
            endpoints: vec![address],
            max_datagram: 65507,
            receive_buffer: 0,
            slot_memory: None,
            lanes: None,
            window: None,
            policy: agg_control::Policy::All,
            on_lost: OnLost::Abort,
            weight: 1,
            priority: 0,
            wait: Duration::from_secs(5),
            resume: None,
        };
        let error = control.register(&registration).unwrap_err().to_string();
        assert!(
            error.contains("rank 0 is not attached by shared memory"),
            "{error}"
        );
    }
    attached.close().unwrap();
    by_udp.close().unwrap();
}

/// What a child of a test has printed first.
struct Process {
    child: Child,
    said: String,
}

impl Process {
    /// Runs a test of this file in a process of its own, in which it finds `told`.
    fn start(test: &str, told: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env("SHARED_MEMORY_CHILD", told)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = lines.map_while(Result::ok).filter_map(|line| {
            let (_, said) = line.split_once("CHILD SAYS ")?;
            Some(said.to_owned())
        });
        let said = said.next().expect("a line");
        Self { child, said }
    }

    fn told() -> Option<String> {
        std::env::var("SHARED_MEMORY_CHILD").ok()
    }

    fn say(text: &str) {
        println!("CHILD SAYS {text}");
    }
}

impl Drop for Process {
    /// With SIGKILL.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_rank_that_is_killed_is_named_and_its_memory_is_freed() {
    const TEST: &str = "a_rank_that_is_killed_is_named_and_its_memory_is_freed";
    if let Some(address) = Process::told() {
        let config = Config::new("killed", 1, 2).with_aggregator(address);
        let mut world = Communicator::connect(config).unwrap();
        world.barrier().unwrap();
        Process::say("joined");
        std::thread::sleep(LONG);
        return;
    }
    let _alone = alone();
    let host = host(1);
    let files = open_files();
    let address = host.control_addr().to_string();
    let config = Config {
        on_lost: OnLost::Abort,
        timeout: LONG,
        ..Config::new("killed", 0, 2).with_aggregator(address.clone())
    };
    let here = std::thread::spawn(move || {
        let mut world = Communicator::connect(config).unwrap();
        world.barrier().unwrap();
        let mut tensor = values(0);
        let error = world.all_reduce(&mut tensor).unwrap_err();
        assert!(world.stats().shared_memory);
        error
    });
    let there = Process::start(TEST, &address);
    assert_eq!(there.said, "joined");
    drop(there);
    let error = here.join().unwrap();
    assert!(
        error.to_string().contains("rank 1 (shared memory) not heard"),
        "{error}"
    );
    settles_at(files);
}

#[test]
fn an_aggregator_that_is_killed_is_left_for_the_next() {
    const TEST: &str = "an_aggregator_that_is_killed_is_left_for_the_next";
    if Process::told().is_some() {
        let host = host(1);
        Process::say(&host.control_addr().to_string());
        std::thread::sleep(LONG);
        return;
    }
    let _alone = alone();
    let next = host(1);
    let first = Process::start(TEST, "serve");
    let address = first.said.clone();
    let first = Mutex::new(Some(first));
    let files = open_files();
    let configs = (0..2).map(|rank| {
        // One of them goes by UDP at both.
        Config {
            shared_memory: rank == 0,
            failover_after: Duration::from_millis(300),
            ..Config::new("moves", rank, 2)
                .with_aggregator(address.clone())
                .with_aggregator(next.control_addr().to_string())
        }
    });
    let sums = world(configs, |mut world| {
        let mut sums = Vec::new();
        for round in 0..6 {
            if round == 3 && world.rank() == 0 {
                first.lock().unwrap().take();
            }
            let mut tensor = values(world.rank());
            world.all_reduce(&mut tensor).unwrap();
            sums.push(bits(&tensor));
        }
        let stats = world.stats();
        assert_eq!(stats.moves, 1);
        assert_eq!(stats.shared_memory, world.rank() == 0);
        world.close().unwrap();
        sums
    });
    assert!(sums.iter().flatten().all(|bits| *bits == sums[0][0]));
    settles_at(files);
}

/// With no other one, the error says what is known.
#[test]
fn an_aggregator_that_is_killed_for_good_is_an_error_in_time() {
    const TEST: &str = "an_aggregator_that_is_killed_for_good_is_an_error_in_time";
    if Process::told().is_some() {
        let host = host(1);
        Process::say(&host.control_addr().to_string());
        std::thread::sleep(LONG);
        return;
    }
    let first = Process::start(TEST, "serve");
    let config = Config {
        fail_over: false,
        timeout: Duration::from_secs(3),
        ..Config::new("lost", 0, 1).with_aggregator(first.said.clone())
    };
    let mut world = Communicator::connect(config).unwrap();
    world.barrier().unwrap();
    drop(first);
    let began = Instant::now();
    let error = world.barrier().unwrap_err();
    assert!(began.elapsed() < LONG, "{error}");
    assert!(world.stats().shared_memory);
}

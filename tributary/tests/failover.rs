//! Aggregators and ranks that are killed while tensors are reduced: everything goes on, with the same bits, or ends with an
//! error in time.
//!
//! `TRIBUTARY_FAILOVER_SEEDS=50` runs that many seeds of each test instead of a few.

#[path = "failover/lost_ranks.rs"]
mod lost_ranks;
#[path = "failover/server.rs"]
mod server;
#[path = "failover/trees.rs"]
mod trees;
#[path = "failover/work.rs"]
mod work;

use std::ops::Range;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use agg_worker::{Config, Policy};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use server::Server;
use udp_io::{FaultConfig, Probability};
use work::{Bits, LANES, WINDOW, Work};

fn seeds(usually: u64) -> Range<u64> {
    let asked = std::env::var("TRIBUTARY_FAILOVER_SEEDS");
    0..asked.map_or(usually, |count| count.parse().expect("a number of seeds"))
}

/// A rank that knows these aggregators.
fn config(name: &str, work: Work, rank: u32, servers: &[&Server]) -> Config {
    let world = format!("{name}-{}", work.seed);
    Config {
        aggregators: servers.iter().map(|server| server.control.clone()).collect(),
        lanes: Some(LANES as u32),
        window: Some(WINDOW as u32),
        timeout: Duration::from_secs(20),
        failover_after: Duration::from_millis(300),
        // Every other one loses packets, too.
        faults: FaultConfig {
            loss: Probability::new(if work.seed % 2 == 1 { 0.005 } else { 0.0 }).unwrap(),
            seed: work.seed,
            ..FaultConfig::default()
        },
        ..Config::new(world, rank, work.ranks)
    }
}

/// Two to four ranks, one or two streams.
fn work(seed: u64) -> (Work, u16) {
    let ranks = 2 + (seed % 3) as u32;
    (Work { seed, ranks }, 1 + (seed / 3 % 2) as u16)
}

/// The same without an accident: every bit that comes out later is compared with it. And how long it took.
fn calm(work: Work, shards: u16) -> (Vec<Bits>, Duration) {
    let server = Server::start(shards);
    let (clock, all_here) = at_the_start(work, Instant::now);
    let results = work.run_all(&all_here, |rank| config("calm", work, rank, &[&server]));
    let duration = clock.join().unwrap().elapsed();
    assert!(
        results.iter().all(|bits| *bits == results[0]),
        "seed {}",
        work.seed
    );
    (results.into_iter().next().unwrap(), duration)
}

/// Runs something when all ranks are there.
fn at_the_start<T: Send + 'static>(
    work: Work,
    run: impl FnOnce() -> T + Send + 'static,
) -> (JoinHandle<T>, Arc<Barrier>) {
    let all_here = Arc::new(Barrier::new(work.ranks as usize + 1));
    let here = Arc::clone(&all_here);
    let running = thread::spawn(move || {
        here.wait();
        run()
    });
    (running, all_here)
}

/// Runs the work through an accident that begins when all ranks are there; no bit may differ from those `expected`. What the
/// accident returns lives until all ranks are done.
fn keeps_every_bit<T: Send + 'static>(
    work: Work,
    expected: &[Bits],
    configs: &[Config],
    what: &str,
    accident: impl FnOnce() -> T + Send + 'static,
) {
    let seed = work.seed;
    let began = Instant::now();
    let (accident, all_here) = at_the_start(work, accident);
    let results = work.run_all(&all_here, |rank| configs[rank as usize].clone());
    eprintln!("seed {seed}: {what}, took {:.1?}", began.elapsed());
    accident.join().unwrap();
    assert!(
        results.iter().all(|bits| bits == expected),
        "seed {seed}: other bits"
    );
}

fn some_time(seed: u64, longest: Duration) -> Duration {
    SmallRng::seed_from_u64(seed).random_range(Duration::ZERO..longest)
}

#[test]
fn reform_1_a_killed_aggregators_stand_by_gives_the_same_bits() {
    for seed in seeds(3) {
        let (work, shards) = work(seed);
        let (expected, duration) = calm(work, shards);
        let (mut first, second) = (Server::start(shards), Server::start(shards));
        let configs: Vec<_> = (0..work.ranks)
            .map(|rank| config("killed", work, rank, &[&first, &second]))
            .collect();
        let killed_at = some_time(seed, duration);
        let what = format!(
            "{} ranks, {shards} streams, killed after {killed_at:.1?} of {duration:.1?}",
            work.ranks
        );
        keeps_every_bit(work, &expected, &configs, &what, move || {
            thread::sleep(killed_at);
            first.kill();
        });
    }
}

#[test]
fn job_2_a_stopped_aggregators_stand_by_gives_the_same_bits() {
    for seed in seeds(3) {
        let (work, shards) = work(seed);
        let (expected, duration) = calm(work, shards);
        let (mut first, second) = (Server::start(shards), Server::start(shards));
        let configs: Vec<_> = (0..work.ranks)
            .map(|rank| config("stopped", work, rank, &[&first, &second]))
            .collect();
        let stopped_at = some_time(seed, duration);
        let what = format!(
            "{} ranks, {shards} streams, stopped after {stopped_at:.1?} of {duration:.1?}",
            work.ranks
        );
        keeps_every_bit(work, &expected, &configs, &what, move || {
            thread::sleep(stopped_at);
            first.stop();
        });
    }
}

#[test]
fn reform_1_an_aggregator_restarted_in_place_gives_the_same_bits() {
    for seed in seeds(3) {
        let (work, shards) = work(seed);
        let (expected, duration) = calm(work, shards);
        let mut server = Server::start(shards);
        let configs: Vec<_> = (0..work.ranks)
            .map(|rank| config("restarted", work, rank, &[&server]))
            .collect();
        let killed_at = some_time(seed, duration);
        let what = format!("killed after {killed_at:.1?}");
        keeps_every_bit(work, &expected, &configs, &what, move || {
            thread::sleep(killed_at);
            server.kill();
            thread::sleep(some_time(seed + 1, Duration::from_secs(1)));
            server.restart();
            server
        });
    }
}

/// There and back: the second aggregator is lost when the first is there again.
#[test]
fn reform_1_a_job_moves_as_often_as_it_must() {
    for seed in seeds(2) {
        let (work, shards) = work(seed);
        let (expected, duration) = calm(work, shards);
        let (mut first, mut second) = (Server::start(shards), Server::start(shards));
        let configs: Vec<_> = (0..work.ranks)
            .map(|rank| config("back", work, rank, &[&first, &second]))
            .collect();
        let killed_at = some_time(seed, duration / 2);
        let what = format!("killed after {killed_at:.1?}");
        keeps_every_bit(work, &expected, &configs, &what, move || {
            thread::sleep(killed_at);
            first.kill();
            thread::sleep(some_time(seed + 1, Duration::from_secs(1)));
            second.kill();
            first.restart();
            (first, second)
        });
    }
}

/// It comes back while ranks have left it or are about to, and knows nothing of that.
#[test]
fn reform_2_an_aggregator_that_stalls_and_comes_back_changes_no_bit() {
    for seed in seeds(2) {
        let (work, shards) = work(seed);
        let (expected, duration) = calm(work, shards);
        let (first, second) = (Server::start(shards), Server::start(shards));
        let configs: Vec<_> = (0..work.ranks)
            .map(|rank| config("stall", work, rank, &[&first, &second]))
            .collect();
        let stalls_at = some_time(seed, duration);
        let time = some_time(seed + 1, Duration::from_secs(3));
        let what = format!("stalls after {stalls_at:.1?} for {time:.1?}");
        keeps_every_bit(work, &expected, &configs, &what, move || {
            thread::sleep(stalls_at);
            first.stall(time);
            first
        });
    }
}

#[test]
fn when_every_aggregator_is_dead_an_error_in_time_names_them_all() {
    let work = Work { seed: 0, ranks: 2 };
    let (mut first, mut second) = (Server::start(1), Server::start(1));
    let addresses = [first.control.clone(), second.control.clone()];
    let timeout = Duration::from_secs(5);
    let configs: Vec<_> = (0..2)
        .map(|rank| Config {
            timeout,
            ..config("dead", work, rank, &[&first, &second])
        })
        .collect();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        second.kill();
        first.kill();
    });
    let errors = work.on_every_rank(
        |rank| configs[rank as usize].clone(),
        move |mut world| {
            loop {
                let began = Instant::now();
                if let Err(error) = work.reduce(&mut world, 7) {
                    assert!(began.elapsed() < timeout + Duration::from_secs(3), "{error}");
                    return error.to_string();
                }
            }
        },
    );
    killer.join().unwrap();
    for error in errors {
        assert!(!error.contains('\n'), "{error}");
        for address in &addresses {
            assert!(error.contains(address.as_str()), "{address}: {error}");
        }
    }
}

#[test]
fn quorum_6_a_job_under_a_quorum_says_that_it_cannot_move() {
    let work = Work { seed: 0, ranks: 3 };
    let (mut first, second) = (Server::start(1), Server::start(1));
    let configs: Vec<_> = (0..work.ranks)
        .map(|rank| Config {
            timeout: Duration::from_secs(3),
            policy: Policy::Quorum {
                members: 2,
                grace: Duration::from_millis(1),
                history_bytes: 1 << 20,
            },
            ..config("quorum", work, rank, &[&first, &second])
        })
        .collect();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        first.kill();
    });
    let errors = work.on_every_rank(
        |rank| configs[rank as usize].clone(),
        move |mut world| {
            loop {
                if let Err(error) = work.reduce(&mut world, 7) {
                    return error.to_string();
                }
            }
        },
    );
    killer.join().unwrap();
    for error in errors {
        assert!(
            error.contains("under a quorum cannot move") && !error.contains('\n'),
            "{error}"
        );
    }
}

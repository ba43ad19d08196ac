//! The plane over maps that are not in the kernel, and neighbours that are always there.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use agg_control::{AbortKind, AbortReason, AdmitError, DataPlane, JobSpec, MemberSpec, ParentSpec, Policy};
use agg_core::slot::Head;
use agg_core::{AbortCause, Epoch, MemberSet};
use bpf_layout::{JobEntry, MAX_JOBS, MemberEntry, Route, TALLIES};

use super::{About, Plane};
use crate::interfaces::Interfaces;
use crate::maps::{Maps, MapsError};
use crate::memory::Memory;
use crate::neighbours::{Interface, Neighbours};

/// What was written.
#[derive(Default)]
struct Written {
    jobs: HashMap<u64, JobEntry>,
    members: HashMap<u32, MemberEntry>,
    broadcast: HashMap<u32, Vec<u32>>,
    cleared: Vec<Range<usize>>,
    /// The calls, in order.
    calls: Vec<&'static str>,
}

#[derive(Clone, Default)]
struct FakeMaps(Arc<Mutex<Written>>);

impl FakeMaps {
    fn with<T>(&self, what: impl FnOnce(&mut Written) -> T) -> T {
        what(&mut self.0.lock().unwrap())
    }

    fn entry(&self, key: u64) -> JobEntry {
        self.with(|written| written.jobs[&key])
    }
}

impl Maps for FakeMaps {
    fn add_device(&mut self, _interface: u32) -> Result<(), MapsError> {
        Ok(())
    }

    fn set_job(&mut self, key: u64, entry: &JobEntry) -> Result<(), MapsError> {
        self.with(|written| {
            written.calls.push("job");
            written.jobs.insert(key, *entry);
        });
        Ok(())
    }

    fn remove_job(&mut self, key: u64) -> Result<(), MapsError> {
        self.with(|written| written.jobs.remove(&key));
        Ok(())
    }

    fn set_member(&mut self, index: u32, entry: &MemberEntry) -> Result<(), MapsError> {
        self.with(|written| {
            written.calls.push("member");
            written.members.insert(index, *entry);
        });
        Ok(())
    }

    fn set_broadcast(&mut self, job: u32, interfaces: &[u32]) -> Result<(), MapsError> {
        self.with(|written| {
            written.calls.push("broadcast");
            written.broadcast.insert(job, interfaces.to_vec());
        });
        Ok(())
    }

    fn clear_late(&mut self, _job: u32) -> Result<(), MapsError> {
        Ok(())
    }

    fn clear_heads(&mut self, heads: Range<usize>) -> Result<(), MapsError> {
        self.with(|written| {
            written.calls.push("heads");
            written.cleared.push(heads);
        });
        Ok(())
    }

    fn head(&self, _index: usize) -> Result<Head, MapsError> {
        Ok(Head::VACANT)
    }

    fn counters(&self) -> Result<Vec<u64>, MapsError> {
        Ok((0..TALLIES as u64).collect())
    }
}

/// Everybody is behind the interface whose number is here.
#[derive(Clone)]
struct FakeNeighbours(Arc<Mutex<u32>>);

impl Neighbours for FakeNeighbours {
    fn find(&self, peer: SocketAddr) -> Result<Route, String> {
        self.look(peer).ok_or_else(|| format!("{peer} is nowhere"))
    }

    fn look(&self, peer: SocketAddr) -> Option<Route> {
        let interface = *self.0.lock().unwrap();
        (interface > 0).then(|| Route {
            interface,
            to: [2, 0, 0, 0, peer.port().to_be_bytes()[0], peer.port() as u8],
            ..Route::default()
        })
    }
}

struct Bench {
    plane: Plane<FakeMaps, FakeNeighbours>,
    maps: FakeMaps,
    interface: Arc<Mutex<u32>>,
}

fn bench_of(mib: u64) -> Bench {
    let maps = FakeMaps::default();
    let interface = Arc::new(Mutex::new(3));
    let about = About {
        epoch: Epoch(1),
        local: "127.0.0.1:4601".parse().unwrap(),
        interfaces: Interfaces::new(vec![Interface {
            name: "eth0".to_owned(),
            index: 3,
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            up: true,
            driver: String::new(),
            ring: 0,
        }]),
    };
    let neighbours = FakeNeighbours(Arc::clone(&interface));
    Bench {
        plane: Plane::new(about, Memory::of(mib << 20), maps.clone(), neighbours),
        maps,
        interface,
    }
}

fn bench() -> Bench {
    bench_of(4)
}

fn job(key: u64, lanes: u16, window: u16) -> JobSpec {
    let member = |rank: u16| MemberSpec {
        endpoints: vec![SocketAddr::from(([127, 0, 0, 1], 5000 + rank))],
        workers: 1,
        ranks: vec![rank.into()],
    };
    JobSpec {
        key,
        name: format!("world {key}"),
        epoch: 5,
        members: vec![member(0), member(1), member(2)],
        workers: 3,
        lanes,
        window,
        generations: 2,
        streams: 1,
        policy: Policy::All,
        weight: 1,
        parent: None,
    }
}

#[test]
fn a_job_is_let_in_last() {
    let bench = bench();
    bench.plane.admit(&job(7, 352, 16)).unwrap();
    let calls = bench.maps.with(|written| written.calls.clone());
    assert_eq!(calls, ["broadcast", "heads", "member", "member", "member", "job"]);
    let entry = bench.maps.entry(7);
    assert_eq!((entry.members, entry.lanes, entry.heads), (3, 352, 32));
    assert_eq!(
        bench.maps.with(|written| written.broadcast[&entry.index].clone()),
        [3, 3, 3]
    );
    assert_eq!(entry.record.job().expected, MemberSet::first(3));
    let member = bench.maps.with(|written| written.members[&1]);
    assert_eq!(member.record.member().set, MemberSet::single(1));
    assert_eq!(member.route.to[5], 5001_u16 as u8);
}

#[test]
fn jobs_have_numbers_and_slots_of_their_own_until_they_end() {
    let bench = bench();
    for key in 1..=MAX_JOBS as u64 {
        bench.plane.admit(&job(key, 256, 2)).unwrap();
    }
    let entries = bench
        .maps
        .with(|written| written.jobs.values().copied().collect::<Vec<_>>());
    let numbers: std::collections::BTreeSet<u32> = entries.iter().map(|entry| entry.index).collect();
    let rows: std::collections::BTreeSet<u32> = entries.iter().map(|entry| entry.first_row).collect();
    assert_eq!((numbers.len(), rows.len()), (MAX_JOBS, MAX_JOBS));
    let one_more = job(99, 256, 2);
    assert_eq!(
        bench.plane.admit(&one_more),
        Err(AdmitError::TooManyJobs { limit: MAX_JOBS })
    );
    let freed = bench.maps.entry(4).index;
    bench.plane.release(4);
    assert!(bench.maps.with(|written| !written.jobs.contains_key(&4)));
    bench.plane.admit(&one_more).unwrap();
    assert_eq!(bench.maps.entry(99).index, freed);
}

#[test]
fn what_packets_are_judged_by_is_rewritten_at_once() {
    let bench = bench();
    bench.plane.admit(&job(7, 352, 16)).unwrap();
    let judged = || bench.maps.entry(7).record.job();
    bench.plane.exclude(7, 1);
    assert_eq!(judged().excluded, MemberSet::single(1));
    assert_eq!(judged().expected, MemberSet(0b101));
    bench.plane.suspend(7);
    assert!(judged().suspended);
    let reason = |rank, kind| AbortReason {
        rank,
        kind,
        text: String::new(),
    };
    bench.plane.abort(7, &reason(Some(2), AbortKind::Lost));
    bench.plane.abort(7, &reason(None, AbortKind::Shutdown));
    let abort = judged().abort.unwrap();
    assert_eq!(
        (abort.cause, abort.member),
        (AbortCause::LostMember, 2),
        "the first stays"
    );
}

#[test]
fn only_a_suspended_job_is_replaced_and_keeps_its_number() {
    let bench = bench();
    bench.plane.admit(&job(1, 256, 2)).unwrap();
    bench.plane.admit(&job(7, 352, 16)).unwrap();
    let before = bench.maps.entry(7);
    assert!(bench.plane.admit(&job(7, 352, 16)).is_err());
    bench.plane.suspend(7);
    let mut again = job(7, 352, 16);
    again.epoch = 6;
    again.members.truncate(2);
    bench.plane.admit(&again).unwrap();
    let after = bench.maps.entry(7);
    assert_eq!(
        (after.index, after.first_row, after.members),
        (before.index, before.first_row, 2)
    );
    let judged = after.record.job();
    assert_eq!((judged.epoch, judged.suspended), (Epoch(6), false));
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers_and_changes_nothing() {
    let bench = bench_of(1);
    let free = bench.plane.free_memory();
    assert_eq!(free, bench.plane.describe().memory_per_shard);
    let error = bench.plane.admit(&job(7, 352, 1024)).unwrap_err();
    let AdmitError::OutOfMemory { needed, free: room } = error else {
        panic!("{error}");
    };
    assert_eq!(needed, job(7, 352, 1024).memory_per_shard());
    assert!(room < needed);
    assert_eq!(bench.plane.free_memory(), free);
    assert!(bench.maps.with(|written| written.calls.is_empty()));
}

#[test]
fn chunk_sizes_without_code_are_refused_and_those_that_do_not_fit_are_not_offered() {
    let bench = bench();
    let error = bench.plane.admit(&job(7, 2048, 2)).unwrap_err().to_string();
    assert_eq!(
        error,
        "the XDP program has no code for chunks of 2048 lanes: request 256, 352, 848"
    );
    assert_eq!(bench.plane.describe().lanes, [256, 352]);
}

#[test]
fn a_rank_that_no_frame_reaches_is_named() {
    let bench = bench();
    *bench.interface.lock().unwrap() = 0;
    let error = bench.plane.admit(&job(7, 352, 2)).unwrap_err().to_string();
    assert_eq!(error, "rank 0 at 127.0.0.1:5000 is nowhere");
}

#[test]
fn a_peer_that_moves_is_followed_and_one_that_is_lost_stays() {
    let bench = bench();
    let mut leaf = job(7, 352, 2);
    leaf.parent = Some(ParentSpec {
        endpoints: vec!["127.0.0.1:4601".parse().unwrap()],
        member: 1,
        epoch: 9,
    });
    bench.plane.admit(&leaf).unwrap();
    assert_eq!(bench.maps.entry(7).parent.interface, 3);
    *bench.interface.lock().unwrap() = 4;
    bench.plane.refresh();
    let broadcast = || bench.maps.with(|written| written.broadcast[&0].clone());
    assert_eq!(
        (broadcast(), bench.maps.entry(7).parent.interface),
        (vec![4, 4, 4], 4)
    );
    *bench.interface.lock().unwrap() = 0;
    bench.plane.refresh();
    assert_eq!(broadcast(), [4, 4, 4]);
}

#[test]
fn counters_have_their_names_and_an_unknown_job_has_no_lags() {
    let bench = bench();
    let counters = bench.plane.counters();
    assert_eq!(counters[0].values.len(), TALLIES);
    assert_eq!(counters[0].values[1], ("slots_completed".to_owned(), 1));
    assert!(bench.plane.lags(7).is_empty());
    bench.plane.admit(&job(7, 352, 2)).unwrap();
    assert_eq!(bench.plane.lags(7), vec![Default::default(); 3]);
}

#[test]
fn a_host_that_stops_keeps_ended_jobs_so_that_their_ranks_are_told() {
    let bench = bench();
    bench.plane.admit(&job(7, 352, 2)).unwrap();
    bench
        .plane
        .closing
        .store(true, std::sync::atomic::Ordering::Relaxed);
    bench.plane.release(7);
    assert!(bench.maps.with(|written| written.jobs.contains_key(&7)));
}

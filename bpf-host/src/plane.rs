//! The host as the control service sees it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agg_control::{
    AbortReason, AdmitError, Capabilities, DataPlane, HostKind, JobSpec, MemberLag, ShardCounters, Uplink,
};
use agg_core::slot::Lag;
use agg_core::{Epoch, Job, Member, Nanos};
use agg_host::{
    Names, Watched, job_config, member_endpoints, name, parent_endpoint, reachable, uplink, worst_lags,
};
use bpf_layout::{JobEntry, LANES, MAX_JOBS, MemberEntry, Route, member_index};
use rustix::time::{ClockId, clock_gettime};

use crate::interfaces::Interfaces;
use crate::maps::{self, Maps, MapsError};
use crate::memory::{Memory, Place};
use crate::neighbours::Neighbours;

/// The one shard's number: all interfaces and CPUs share the slots.
const SHARD: u16 = 0;

/// What is said of the host.
pub(crate) struct About {
    pub(crate) epoch: Epoch,
    /// Where data packets are received.
    pub(crate) local: SocketAddr,
    /// They have the program.
    pub(crate) interfaces: Interfaces,
}

/// The jobs, in the maps and here.
pub(crate) struct Plane<M, N> {
    about: About,
    memory_per_shard: u64,
    neighbours: N,
    state: Mutex<State<M>>,
    /// The host stops: jobs that are ended now stay, so that their ranks can be told.
    pub(crate) closing: AtomicBool,
}

struct State<M> {
    maps: M,
    memory: Memory,
    jobs: HashMap<u64, Placed>,
}

/// A running job.
#[derive(Clone)]
struct Placed {
    job: Job,
    members: Vec<Member>,
    /// As it is in the map.
    entry: JobEntry,
    place: Place,
    ways: Ways,
    names: Arc<Names>,
}

/// Where a job's packets go.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Ways {
    /// By member number.
    pub(crate) members: Vec<(SocketAddr, Route)>,
    pub(crate) parent: Option<(SocketAddr, Route)>,
}

impl Placed {
    /// The members as they are in the map, with their places there.
    fn member_entries(&self) -> impl Iterator<Item = (u32, MemberEntry)> {
        let members = self.members.iter().zip(&self.ways.members);
        (0..).zip(members).map(|(number, (member, (_, route)))| {
            let entry = MemberEntry {
                record: member.into(),
                route: *route,
            };
            (member_index(self.entry.index, number), entry)
        })
    }
}

impl Ways {
    /// Of the members, by their numbers.
    fn interfaces(&self) -> Vec<u32> {
        self.members.iter().map(|(_, route)| route.interface).collect()
    }
}

impl<M: Maps> State<M> {
    /// The number of a job's entry in the maps.
    fn index(&self, key: u64) -> Result<u32, AdmitError> {
        if let Some(placed) = self.jobs.get(&key) {
            return Ok(placed.entry.index);
        }
        let is_free = |index: &u32| self.jobs.values().all(|placed| placed.entry.index != *index);
        let limit = MAX_JOBS;
        (0..limit as u32)
            .find(is_free)
            .ok_or(AdmitError::TooManyJobs { limit })
    }

    /// Writes a job whose packets reach no slot meanwhile: it is new, or suspended.
    fn write(&mut self, key: u64, placed: &Placed) -> Result<(), MapsError> {
        let maps = &mut self.maps;
        // First: what ran before may still use the slots, and is waited for.
        maps.set_broadcast(placed.entry.index, &placed.ways.interfaces())?;
        maps.clear_late(placed.entry.index)?;
        maps.clear_heads(placed.place.heads.clone())?;
        for (index, entry) in placed.member_entries() {
            maps.set_member(index, &entry)?;
        }
        // Last: now they are let in.
        maps.set_job(key, &placed.entry)
    }

    /// Changes what packets of a job are judged by.
    fn change(&mut self, key: u64, what: impl FnOnce(&mut Job, &[Member])) -> Result<(), MapsError> {
        let Some(placed) = self.jobs.get_mut(&key) else {
            return Ok(());
        };
        what(&mut placed.job, &placed.members);
        placed.entry.record = (&placed.job).into();
        self.maps.set_job(key, &placed.entry)
    }

    /// Takes in that frames go another way now.
    fn redirect(&mut self, key: u64, epoch: Epoch, ways: Ways) -> Result<(), MapsError> {
        let Some(placed) = self.jobs.get_mut(&key).filter(|placed| placed.job.epoch == epoch) else {
            return Ok(());
        };
        let before = std::mem::replace(&mut placed.ways, ways);
        let written = write_ways(&mut self.maps, key, placed, &before);
        if written.is_err() {
            // Tried again with the next look.
            placed.ways = before;
        }
        written
    }
}

/// Writes where a job's frames go now.
fn write_ways<M: Maps>(maps: &mut M, key: u64, placed: &mut Placed, before: &Ways) -> Result<(), MapsError> {
    for (index, entry) in placed.member_entries() {
        maps.set_member(index, &entry)?;
    }
    let now = placed.ways.interfaces();
    if now != before.interfaces() {
        maps.set_broadcast(placed.entry.index, &now)?;
    }
    if let Some((_, route)) = &placed.ways.parent {
        placed.entry.parent = *route;
        maps.set_job(key, &placed.entry)?;
    }
    Ok(())
}

impl<M: Maps, N: Neighbours> Plane<M, N> {
    pub(crate) fn new(about: About, memory: Memory, maps: M, neighbours: N) -> Self {
        Self {
            about,
            memory_per_shard: memory.largest_free(),
            neighbours,
            state: Mutex::new(State {
                maps,
                memory,
                jobs: HashMap::new(),
            }),
            closing: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets packets leave by an interface.
    pub(crate) fn add_device(&self, interface: u32) -> Result<(), MapsError> {
        self.lock().maps.add_device(interface)
    }

    /// Chunk sizes of running jobs that do not fit an MTU any more.
    pub(crate) fn too_large_for(&self, mtu: u32) -> Vec<u32> {
        let state = self.lock();
        let running = state.jobs.values().map(|placed| placed.entry.lanes);
        let mut large: Vec<u32> = running
            .filter(|lanes| bpf_layout::mtu(*lanes as usize) > mtu as usize)
            .collect();
        large.sort_unstable();
        large.dedup();
        large
    }

    /// Where a job's packets go.
    pub(crate) fn ways(&self, key: u64) -> Option<Ways> {
        self.lock().jobs.get(&key).map(|placed| placed.ways.clone())
    }

    /// Looks up anew how frames get to members and parents, and takes in what has changed.
    pub(crate) fn refresh(&self) {
        let jobs: Vec<(u64, Epoch, Ways)> = {
            let state = self.lock();
            let jobs = state.jobs.iter();
            jobs.map(|(key, placed)| (*key, placed.job.epoch, placed.ways.clone()))
                .collect()
        };
        for (key, epoch, ways) in jobs {
            // Who is not known now may be where it was.
            let anew =
                |(peer, route): &(SocketAddr, Route)| (*peer, self.neighbours.look(*peer).unwrap_or(*route));
            let now = Ways {
                members: ways.members.iter().map(anew).collect(),
                parent: ways.parent.as_ref().map(anew),
            };
            if now != ways {
                said(self.lock().redirect(key, epoch, now));
            }
        }
    }

    /// How frames get to all of a job's peers.
    fn find_ways(&self, job: &JobSpec) -> Result<Ways, AdmitError> {
        let members = member_endpoints(job, SHARD.into());
        let parent = parent_endpoint(job, SHARD.into());
        for peer in members.iter().chain(&parent) {
            // All are asked before the first is waited for.
            let _ = self.neighbours.look(*peer);
        }
        let find = |who: String, peer: SocketAddr| match self.neighbours.find(peer) {
            Ok(route) => Ok((peer, route)),
            Err(reason) => Err(AdmitError::Other(format!("{who} at {reason}"))),
        };
        let named = job.members.iter().zip(members);
        Ok(Ways {
            members: named
                .map(|(member, peer)| find(name(&member.ranks), peer))
                .collect::<Result<_, _>>()?,
            parent: parent
                .map(|peer| find("the parent".to_owned(), peer))
                .transpose()?,
        })
    }

    /// Chunk sizes that the program has code for, and that fit its interfaces.
    fn lanes(&self) -> Vec<u16> {
        let fitting = LANES
            .into_iter()
            .filter(|lanes| bpf_layout::mtu(*lanes) <= self.about.interfaces.mtu() as usize);
        fitting.map(|lanes| lanes as u16).collect()
    }
}

/// Says in the log what the kernel refuses, where there is nobody else to tell.
fn said(done: Result<(), MapsError>) {
    if let Err(error) = done {
        tracing::error!("{error}");
    }
}

/// The program's clock.
fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl<M: Maps, N: Neighbours> Watched for Plane<M, N> {
    fn jobs(&self) -> Vec<(u64, Arc<Names>)> {
        let state = self.lock();
        let jobs = state.jobs.iter();
        jobs.map(|(key, placed)| (*key, Arc::clone(&placed.names)))
            .collect()
    }
}

impl<M: Maps, N: Neighbours> DataPlane for Plane<M, N> {
    fn describe(&self) -> Capabilities {
        let ip = self.about.local.ip();
        Capabilities {
            kind: HostKind::Ebpf,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: self.about.epoch.0,
            data_ip: Some(ip).filter(|ip| !ip.is_unspecified()),
            base_port: self.about.local.port(),
            shards: 1,
            lanes: self.lanes(),
            memory_per_shard: self.memory_per_shard,
            // Packets are handled as they come: no socket holds them.
            receive_buffer: 0,
            receive_ring: self.about.interfaces.ring(),
            answers_probes: true,
            shared_memory: String::new(),
        }
    }

    fn admit(&self, job: &JobSpec) -> Result<(), AdmitError> {
        let config = job_config(job, SHARD.into())?;
        if !LANES.contains(&config.lanes.count()) {
            return Err(AdmitError::Other(format!(
                "the XDP program has no code for chunks of {} lanes: request {}",
                job.lanes,
                LANES.map(|lanes| lanes.to_string()).join(", ")
            )));
        }
        config.check().map_err(agg_host::refused)?;
        reachable(job, SHARD.into(), self.about.local)?;
        let ways = self.find_ways(job)?;
        let mut state = self.lock();
        let replaces = state.jobs.get(&job.key).map(|placed| placed.job.suspended);
        if replaces == Some(false) {
            return Err(agg_host::refused(agg_core::AdmitError::Key));
        }
        let index = state.index(job.key)?;
        let place = state.memory.find(&config).map_err(agg_host::refused)?;
        let begun = config.job();
        let placed = Placed {
            entry: JobEntry {
                record: (&begun).into(),
                parent: ways.parent.map_or_else(Route::default, |(_, route)| route),
                index,
                members: config.members.len() as u32,
                lanes: config.lanes.count() as u32,
                first_head: place.heads.start as u32,
                heads: place.heads.len() as u32,
                first_row: place.rows.start as u32,
            },
            job: begun,
            members: config.members.to_vec(),
            place,
            ways,
            names: Arc::new(Names::of(job)),
        };
        state
            .write(job.key, &placed)
            .map_err(|error| AdmitError::Other(error.to_string()))?;
        state.memory.take(job.key, placed.place.clone());
        state.jobs.insert(job.key, placed);
        Ok(())
    }

    fn suspend(&self, key: u64) {
        said(self.lock().change(key, |job, _| job.suspended = true));
    }

    fn exclude(&self, key: u64, member: u8) {
        said(self.lock().change(key, |job, members| {
            if let Some(member) = members.get(usize::from(member)) {
                job.exclude(member);
            }
        }));
    }

    fn abort(&self, key: u64, reason: &AbortReason) {
        let mut state = self.lock();
        let names = state.jobs.get(&key).map(|placed| Arc::clone(&placed.names));
        let abort = agg_host::abort(reason, names.as_deref());
        // The first abort stays.
        said(state.change(key, |job, _| _ = job.abort.get_or_insert(abort)));
        tracing::warn!(%reason, "aborted a job");
    }

    fn release(&self, key: u64) {
        if self.closing.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        said(state.maps.remove_job(key));
        state.memory.release(key);
        state.jobs.remove(&key);
    }

    fn counters(&self) -> Vec<ShardCounters> {
        let counts = self.lock().maps.counters();
        let counts = counts.unwrap_or_else(|error| {
            tracing::error!("{error}");
            Vec::new()
        });
        vec![ShardCounters {
            shard: SHARD,
            values: maps::names().map(str::to_owned).zip(counts).collect(),
        }]
    }

    fn free_memory(&self) -> u64 {
        self.lock().memory.largest_free()
    }

    fn lags(&self, key: u64) -> Vec<MemberLag> {
        let state = self.lock();
        let Some(placed) = state.jobs.get(&key) else {
            return Vec::new();
        };
        let now = now();
        let mut lags = vec![Lag::default(); placed.members.len()];
        for index in placed.place.heads.clone() {
            match state.maps.head(index) {
                Ok(head) => head.add_lag(&placed.job, &placed.members, now, &mut lags),
                Err(error) => {
                    tracing::error!("{error}");
                    break;
                }
            }
        }
        worst_lags([lags])
    }

    fn probe(&self, parent: &Capabilities, data: SocketAddr) -> Option<u32> {
        agg_host::probe(parent, data)
    }

    fn local_endpoints(&self, parent_data: SocketAddr) -> Result<Uplink, String> {
        let uplink = uplink(parent_data, std::iter::once(self.about.local))?;
        match self.neighbours.find(parent_data) {
            Ok(_) => Ok(uplink),
            Err(reason) => Err(format!("the parent's data address {reason}")),
        }
    }
}

#[cfg(test)]
mod tests;

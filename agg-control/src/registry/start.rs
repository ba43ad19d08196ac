//! How worlds become jobs: the queue for memory, the terms, the admission.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

use super::job::Job;
use super::terms::{Offer, Terms, settle};
use super::upward::Upstream;
use super::world::{Seat, World};
use super::{Registry, member_specs};
use crate::messages::{Boundary, Registered};
use crate::plane::{AdmitError, JobSpec};
use crate::refusal::Refusal;

impl Registry {
    /// A world's seats have changed: it may be complete.
    pub(super) fn advance(&mut self, name: &str, now: Instant) {
        // Below a parent only the parent knows.
        if self.config.parent.is_some() || !self.worlds.get(name).is_some_and(World::is_complete) {
            return;
        }
        if self.worlds.get(name).is_some_and(|world| world.reform.is_some()) {
            self.complete_reform(name, now);
        } else {
            self.admit_queued(now);
        }
    }

    /// Starts complete worlds in the order of priority, then of age. None overtakes one that has to wait.
    pub(super) fn admit_queued(&mut self, now: Instant) {
        if self.config.parent.is_some() {
            return;
        }
        while let Some(name) = self.first_in_queue() {
            let Some(world) = self.worlds.remove(&name) else {
                return;
            };
            match self.start(&name, &world, now) {
                Ok(()) => {}
                Err(refusal) if self.is_worth_waiting(&refusal) => {
                    tracing::info!(world = name, "world waits: {refusal}");
                    self.worlds.insert(name.clone(), world);
                    self.block(&name, &refusal);
                    return;
                }
                Err(refusal) => self.refuse_seats(world.seats(), &refusal),
            }
        }
    }

    /// The part of the host's memory that a world of this weight may take unasked, beside all other worlds and jobs.
    /// `name` is the world itself, which does not count twice. Bytes per shard.
    pub(super) fn share(&self, name: &str, weight: u16) -> u64 {
        let jobs = self.jobs.values().filter(|job| job.is_running());
        let jobs = jobs.map(|job| (job.name(), job.spec().weight));
        let worlds = self
            .worlds
            .iter()
            .map(|(name, world)| (name.as_str(), world.weight()));
        // A job that re-forms has a world of its name.
        let others: BTreeMap<&str, u16> = jobs.chain(worlds).filter(|(other, _)| *other != name).collect();
        let others: u128 = others.values().map(|weight| u128::from(*weight)).sum();
        let (total, weight) = (u128::from(self.capacity), u128::from(weight.max(1)));
        (total * weight / (others + weight)) as u64 // at most the total
    }

    /// Reserves the slots, answers all seats and remembers the job; an earlier forming of it is replaced.
    pub(super) fn install(
        &mut self,
        seats: &[Seat],
        spec: JobSpec,
        boundary: Option<Boundary>,
        upstream: Option<Upstream>,
        now: Instant,
    ) -> Result<(), Refusal> {
        self.plane.admit(&spec).map_err(|error| Refusal::NotAdmitted {
            world: spec.name.clone(),
            error,
        })?;
        log_start(&spec, boundary.as_ref());
        let terms = self.answer(&spec, boundary);
        for (member, seat) in (0..).zip(seats) {
            if let Some(ticket) = seat.ticket {
                let terms = terms.clone();
                self.tickets.finish(ticket, Ok(Registered { member, ..terms }));
            }
        }
        let key = spec.key;
        let mut job = Job::new(seats, spec, terms, now);
        job.upstream = upstream;
        if let Some(earlier) = self.jobs.remove(&key) {
            job.continues(earlier);
        }
        self.jobs.insert(key, job);
        Ok(())
    }

    pub(super) fn refuse_seats(&mut self, seats: &[Seat], refusal: &Refusal) {
        if let Some(seat) = seats.first() {
            tracing::warn!(rank = seat.applicant.rank(), "world refused: {refusal}");
        }
        for ticket in seats.iter().filter_map(|seat| seat.ticket) {
            self.tickets.finish(ticket, Err(refusal.clone()));
        }
    }

    /// A restarted world takes the slots of its aborted forerunner; a full table forgets the longest ended job.
    pub(super) fn make_room(&mut self, name: &str) -> Result<(), Refusal> {
        for job in self
            .jobs
            .values_mut()
            .filter(|job| !job.is_running() && job.name() == name)
        {
            job.release(&*self.plane);
        }
        if self.jobs.len() < self.config.max_jobs {
            return Ok(());
        }
        let ended = self
            .jobs
            .iter()
            .filter_map(|(key, job)| job.ended_at().map(|at| (at, *key)));
        let Some((_, key)) = ended.min() else {
            return Err(Refusal::TooManyJobs {
                limit: self.config.max_jobs,
            });
        };
        self.remove(key);
        Ok(())
    }

    fn first_in_queue(&self) -> Option<String> {
        let queued = self
            .worlds
            .iter()
            .filter(|(_, world)| world.reform.is_none() && world.is_complete());
        let first = queued.min_by_key(|(_, world)| (Reverse(world.priority()), world.opened));
        first.map(|(name, _)| name.clone())
    }

    /// It fits an empty host, and this host is not empty: slots will return.
    fn is_worth_waiting(&self, refusal: &Refusal) -> bool {
        let fits_empty = match refusal {
            Refusal::DoesNotFit { needed, child, .. } => *needed <= self.capacity && child.is_none(),
            Refusal::NotAdmitted { error, .. } => match error {
                AdmitError::OutOfMemory { needed, .. } => *needed <= self.capacity,
                AdmitError::TooManyJobs { .. } => true,
                AdmitError::Other(_) => false,
            },
            Refusal::TooManyJobs { .. } => true,
            _ => false,
        };
        fits_empty && self.jobs.values().any(Job::is_reserved)
    }

    /// Remembers why the first world of the queue waits, and that the others wait behind it.
    fn block(&mut self, first: &str, refusal: &Refusal) {
        for (name, world) in &mut self.worlds {
            if world.reform.is_some() || !world.is_complete() {
                continue;
            }
            world.blocked = Some(if name == first {
                refusal.clone()
            } else {
                Refusal::Queued {
                    world: name.clone(),
                    priority: world.priority(),
                    ahead: first.into(),
                }
            });
        }
    }

    fn start(&mut self, name: &str, world: &World, now: Instant) -> Result<(), Refusal> {
        self.make_room(name)?;
        let offer = Offer {
            host: self.plane.describe(),
            free_memory: self.plane.free_memory(),
            share: self.share(name, world.weight()),
        };
        let terms = settle(name, world, &offer)?;
        warn_of_buffers(name, terms);
        let spec = self.spec(name, world, terms);
        self.install(world.seats(), spec, None, None, now)
    }

    fn spec(&self, name: &str, world: &World, terms: Terms) -> JobSpec {
        let members = member_specs(world.seats());
        let common = world.common();
        let streams = common.map_or(0, |common| common.endpoints.len()) as u16; // at most the host's shards
        JobSpec {
            key: self.unused_key(),
            name: name.into(),
            epoch: self.plane.describe().epoch,
            workers: members.iter().map(|member| member.workers).sum(),
            members,
            lanes: terms.lanes,
            window: terms.window.chunks,
            generations: terms.generations,
            streams,
            policy: common.map_or_else(Default::default, |common| common.policy),
            weight: world.weight(),
            parent: None,
        }
    }

    fn answer(&self, spec: &JobSpec, boundary: Option<Boundary>) -> Registered {
        Registered {
            key: spec.key,
            epoch: spec.epoch,
            member: 0,
            members: spec.members.iter().map(|member| member.ranks.clone()).collect(),
            workers: spec.workers,
            lanes: spec.lanes,
            window: spec.window,
            generations: spec.generations,
            streams: spec.streams,
            heartbeat: self.config.heartbeat,
            lost_after: self.config.lost_after,
            policy: spec.policy,
            boundary,
        }
    }

    /// Keys are secrets: who knows one, and can forge a member's address, can send in its name.
    fn unused_key(&self) -> u64 {
        loop {
            let key = self.plane.pick_key(rand::random::<u64>().max(1));
            if key != 0 && !self.jobs.contains_key(&key) {
                return key;
            }
        }
    }
}

fn log_start(spec: &JobSpec, boundary: Option<&Boundary>) {
    tracing::info!(
        world = spec.name,
        members = spec.members.len(),
        workers = spec.workers,
        epoch = spec.epoch,
        lanes = spec.lanes,
        window = spec.window,
        generations = spec.generations,
        streams = spec.streams,
        lost = ?boundary.map(|boundary| &boundary.lost),
        "job starts"
    );
}

fn warn_of_buffers(world: &str, terms: Terms) {
    if !terms.window.fits_buffers {
        tracing::warn!(
            world,
            window = terms.window.chunks,
            "the receive buffers do not hold the packets of a window: expect resends; raise net.core.rmem_max"
        );
    }
}

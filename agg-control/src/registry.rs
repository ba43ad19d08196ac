//! Which worlds wait for ranks and which jobs run. No I/O and no clock: the time is an argument.
//!
//! A registration gets a [`Ticket`]. Whoever holds it asks [`Registry::poll`] after each change until there is an
//! outcome, and ends it otherwise by [`Registry::give_up`] or [`Registry::withdraw`].

mod check;
mod job;
mod terms;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::check::{Applicant, check};
use self::job::Job;
use self::terms::{Offer, Terms, settle};
use self::world::World;
use crate::config::ControlConfig;
use crate::messages::{Description, Left, Member, Policy, Pulse, Registered, Registration, Status};
use crate::plane::{DataPlane, JobSpec, MemberSpec, total};
use crate::refusal::Refusal;
use crate::sizing::GENERATIONS;

/// A registration that was accepted and waits for the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What comes of a registration.
pub(crate) type Outcome = Result<Registered, Refusal>;

#[derive(Debug)]
enum Progress {
    Waiting { world: String, rank: u32 },
    Done(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Open,
    Draining,
    Closed,
}

/// All worlds and jobs of one aggregator host.
pub(crate) struct Registry {
    plane: Arc<dyn DataPlane>,
    config: ControlConfig,
    door: Door,
    worlds: BTreeMap<String, World>,
    jobs: BTreeMap<u64, Job>,
    tickets: BTreeMap<Ticket, Progress>,
    next_ticket: u64,
}

impl Registry {
    pub(crate) fn new(plane: Arc<dyn DataPlane>, config: ControlConfig) -> Self {
        Self {
            plane,
            config,
            door: Door::Open,
            worlds: BTreeMap::new(),
            jobs: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
        }
    }

    /// Registers a rank whose call came from `peer`.
    pub(crate) fn register(
        &mut self,
        request: &Registration,
        peer: IpAddr,
        now: Instant,
    ) -> Result<Ticket, Refusal> {
        let peer = (!self.config.allow_any_address).then_some(peer);
        let applicant = check(request, &self.plane.describe(), peer)?;
        if let Some(answer) = self.running_job(&request.world, &applicant, now)? {
            return Ok(self.ticket(Progress::Done(Ok(answer))));
        }
        match self.door {
            Door::Open => self.seat(&request.world, applicant, now),
            Door::Draining => Err(Refusal::Draining),
            Door::Closed => Err(Refusal::ShuttingDown),
        }
    }

    /// The outcome, once there is one; the ticket is then used up.
    pub(crate) fn poll(&mut self, ticket: Ticket) -> Option<Outcome> {
        match self.tickets.get(&ticket) {
            Some(Progress::Waiting { .. }) => None,
            _ => Some(self.take(ticket)),
        }
    }

    /// The deadline of a registration has passed: its outcome, or whom it waited for.
    pub(crate) fn give_up(&mut self, ticket: Ticket, waited: Duration) -> Outcome {
        let Some(Progress::Waiting { world: name, rank }) = self.tickets.get(&ticket) else {
            return self.take(ticket);
        };
        let Some(world) = self.worlds.get_mut(name) else {
            return self.take(ticket);
        };
        let refusal = world.give_up(*rank, ticket, waited);
        self.withdraw(ticket);
        Err(refusal)
    }

    /// The caller has gone away.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        let Some(Progress::Waiting { world: name, rank }) = self.tickets.remove(&ticket) else {
            return;
        };
        if let Some(world) = self.worlds.get_mut(&name) {
            world.unseat(rank, ticket);
            if world.is_empty() {
                self.worlds.remove(&name);
            }
        }
    }

    pub(crate) fn heartbeat(
        &mut self,
        member: Member,
        progress: u64,
        now: Instant,
    ) -> Result<Pulse, Refusal> {
        match self.job_of(member) {
            Ok(job) => Ok(job.heartbeat(member, progress, now)),
            Err(Refusal::UnknownJob) => Ok(Pulse::UnknownJob),
            Err(refusal) => Err(refusal),
        }
    }

    /// Marks the member as left. A job that nobody needs any more is released.
    pub(crate) fn leave(&mut self, member: Member, now: Instant) -> Result<(), Refusal> {
        let plane = self.plane.clone();
        let job = self.job_of(member)?;
        job.leave(member, now);
        if job.is_deserted() {
            tracing::info!(world = job.name(), "all ranks have left");
            job.release(&*plane);
            if job.is_running() {
                self.jobs.remove(&member.key);
            }
        }
        Ok(())
    }

    /// Who is still there, for a member that has left.
    pub(crate) fn left(&self, key: u64) -> Left {
        match self.jobs.get(&key) {
            Some(job) => Left {
                remaining: job.remaining(),
                aborted: job.abort_reason().cloned(),
            },
            None => Left {
                remaining: 0,
                aborted: None,
            },
        }
    }

    pub(crate) fn abort(&mut self, member: Member, text: &str, now: Instant) -> Result<(), Refusal> {
        let plane = self.plane.clone();
        self.job_of(member)?.abort_by(member, text, &*plane, now);
        Ok(())
    }

    /// Aborts jobs with a lost rank and forgets jobs that ended some time ago. Returns whether anything changed.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        let lost_after = self.config.lost_after;
        let mut changed = false;
        for job in self.jobs.values_mut() {
            changed |= job.abort_if_lost(lost_after, &*self.plane, now);
            if job.is_deserted() {
                job.release(&*self.plane);
            }
        }
        let is_old = |job: &Job| {
            job.ended_at()
                .is_some_and(|at| now.saturating_duration_since(at) >= lost_after)
        };
        let old: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| is_old(job))
            .map(|(key, _)| *key)
            .collect();
        for key in &old {
            self.remove(*key);
        }
        changed || !old.is_empty()
    }

    /// Takes no new worlds; those that wait are refused, jobs go on.
    pub(crate) fn drain(&mut self) {
        if self.door == Door::Open {
            self.door = Door::Draining;
            self.refuse_waiting(&Refusal::Draining);
        }
    }

    /// Ends everything: jobs are aborted and released.
    pub(crate) fn close(&mut self, now: Instant) {
        self.door = Door::Closed;
        self.refuse_waiting(&Refusal::ShuttingDown);
        for job in self.jobs.values_mut() {
            job.shut_down(&*self.plane, now);
            job.release(&*self.plane);
        }
    }

    pub(crate) fn describe(&self) -> Description {
        Description {
            host: self.plane.describe(),
            memory_free: self.plane.free_memory(),
        }
    }

    pub(crate) fn status(&self, now: Instant) -> Status {
        let shards = self.plane.counters();
        Status {
            description: self.describe(),
            draining: self.door != Door::Open,
            jobs: self.jobs.values().map(|job| job.status(now)).collect(),
            waiting: self.worlds.values().map(|world| world.status(now)).collect(),
            total: total(&shards),
            shards,
        }
    }

    /// Jobs that run, not counting those that are only remembered.
    pub(crate) fn running_jobs(&self) -> usize {
        self.jobs.values().filter(|job| job.is_running()).count()
    }

    /// Registrations whose outcome nobody has taken yet.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn open_tickets(&self) -> usize {
        self.tickets.len()
    }

    /// A running job holds its name; only a process that belongs to it gets an answer.
    fn running_job(&self, name: &str, new: &Applicant, now: Instant) -> Result<Option<Registered>, Refusal> {
        let Some(job) = self
            .jobs
            .values()
            .find(|job| job.is_running() && job.name() == name)
        else {
            return Ok(None);
        };
        match job.answer_again(new.rank, new.nonce, &new.endpoints) {
            Some(answer) => Ok(Some(answer)),
            None => Err(job.refuse_second_world(now)),
        }
    }

    fn seat(&mut self, name: &str, applicant: Applicant, now: Instant) -> Result<Ticket, Refusal> {
        if !self.worlds.contains_key(name) && self.worlds.len() >= self.config.max_waiting_worlds {
            return Err(Refusal::TooManyWaiting {
                limit: self.config.max_waiting_worlds,
            });
        }
        let rank = applicant.rank;
        let ticket = self.ticket(Progress::Waiting {
            world: name.into(),
            rank,
        });
        let world = self
            .worlds
            .entry(name.into())
            .or_insert_with(|| World::new(name, now));
        match world.seat(ticket, applicant) {
            Ok(earlier) => {
                if let Some(earlier) = earlier {
                    self.finish(
                        earlier,
                        Err(Refusal::Superseded {
                            world: name.into(),
                            rank,
                        }),
                    );
                }
            }
            Err(refusal) => {
                self.withdraw(ticket);
                return Err(refusal);
            }
        }
        self.start_if_complete(name, now);
        Ok(ticket)
    }

    fn start_if_complete(&mut self, name: &str, now: Instant) {
        if !self.worlds.get(name).is_some_and(World::is_complete) {
            return;
        }
        let Some(world) = self.worlds.remove(name) else {
            return;
        };
        let outcome = self.start(name, &world, now);
        if let Err(refusal) = &outcome {
            tracing::warn!(world = name, "world refused: {refusal}");
        }
        for (member, seat) in (0..).zip(world.seats()) {
            let answer = outcome.clone().map(|answer| Registered { member, ..answer });
            self.finish(seat.ticket, answer);
        }
    }

    fn start(&mut self, name: &str, world: &World, now: Instant) -> Outcome {
        self.make_room(name)?;
        let offer = Offer {
            host: self.plane.describe(),
            free_memory: self.plane.free_memory(),
            sharers: 1 + self.worlds.len() as u64,
        };
        let terms = settle(name, world, &offer)?;
        let spec = self.spec(name, world, terms);
        self.plane.admit(&spec).map_err(|error| Refusal::NotAdmitted {
            world: name.into(),
            error,
        })?;
        let answer = self.answer(&spec, offer.host.epoch);
        log_start(&spec, terms);
        self.jobs
            .insert(spec.key, Job::new(world, spec, answer.clone(), now));
        Ok(answer)
    }

    /// A restarted world takes the slots of its aborted forerunner; a full table forgets the longest ended job.
    fn make_room(&mut self, name: &str) -> Result<(), Refusal> {
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

    fn spec(&self, name: &str, world: &World, terms: Terms) -> JobSpec {
        let members: Vec<_> = world
            .seats()
            .map(|seat| MemberSpec {
                endpoints: seat.applicant.endpoints.clone(),
                workers: 1,
                ranks: vec![seat.applicant.rank],
            })
            .collect();
        let streams = world
            .seats()
            .next()
            .map_or(0, |seat| seat.applicant.endpoints.len()) as u16; // at most the host's shards, as checked
        let (lanes, window) = (terms.lanes, terms.window.chunks);
        JobSpec {
            key: self.unused_key(),
            name: name.into(),
            epoch: self.plane.describe().epoch,
            workers: members.len() as u32,
            members,
            lanes,
            window,
            generations: GENERATIONS,
            streams,
            policy: Policy::All,
            weight: 1,
            parent: None,
        }
    }

    fn answer(&self, spec: &JobSpec, epoch: u32) -> Registered {
        Registered {
            key: spec.key,
            epoch,
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
            boundary: None,
        }
    }

    /// Keys are secrets: who knows one, and can forge a member's address, can send in its name.
    fn unused_key(&self) -> u64 {
        loop {
            let key = rand::random();
            if key != 0 && !self.jobs.contains_key(&key) {
                return key;
            }
        }
    }

    fn job_of(&mut self, member: Member) -> Result<&mut Job, Refusal> {
        let job = self.jobs.get_mut(&member.key).ok_or(Refusal::UnknownJob)?;
        job.check_member(member)?;
        Ok(job)
    }

    fn remove(&mut self, key: u64) {
        if let Some(mut job) = self.jobs.remove(&key) {
            job.release(&*self.plane);
        }
    }

    fn refuse_waiting(&mut self, refusal: &Refusal) {
        for world in std::mem::take(&mut self.worlds).values() {
            for seat in world.seats() {
                self.finish(seat.ticket, Err(refusal.clone()));
            }
        }
    }

    fn ticket(&mut self, progress: Progress) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.tickets.insert(ticket, progress);
        ticket
    }

    /// Not for a ticket that was withdrawn: nobody would take the outcome.
    fn finish(&mut self, ticket: Ticket, outcome: Outcome) {
        if let Some(progress) = self.tickets.get_mut(&ticket) {
            *progress = Progress::Done(outcome);
        }
    }

    fn take(&mut self, ticket: Ticket) -> Outcome {
        match self.tickets.remove(&ticket) {
            Some(Progress::Done(outcome)) => outcome,
            // A ticket that waits belongs to a world, and one that was used up has no second outcome.
            _ => Err(Refusal::Malformed {
                what: "a registration was answered twice".into(),
            }),
        }
    }
}

fn log_start(spec: &JobSpec, terms: Terms) {
    let (world, ranks) = (&spec.name, spec.members.len());
    tracing::info!(
        world,
        ranks,
        lanes = spec.lanes,
        window = spec.window,
        streams = spec.streams,
        "job starts"
    );
    if !terms.window.fits_buffers {
        tracing::warn!(
            world,
            window = spec.window,
            "the receive buffers do not hold the packets of a window: expect resends; raise net.core.rmem_max"
        );
    }
}

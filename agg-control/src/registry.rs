//! Which worlds wait for ranks and which jobs run. No I/O and no clock: the time is an argument.
//!
//! A registration gets a [`Ticket`]. Whoever holds it asks [`Registry::poll`] after each change until there is an
//! outcome, and ends it otherwise by [`Registry::give_up`] or [`Registry::withdraw`].

mod applicant;
mod check;
mod job;
mod reform;
mod start;
mod terms;
#[cfg(test)]
mod tests;
mod tickets;
mod upstream;
mod upward;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::applicant::Applicant;
use self::check::{Context, check};
use self::job::{Job, lost::Loss};
pub(crate) use self::tickets::Ticket;
use self::tickets::Tickets;
pub(crate) use self::upstream::{Accepted, Answer, Ask};
pub(crate) use self::upward::PARENTS_TURN;
use self::world::{Seat, World};
use crate::config::ControlConfig;
use crate::messages::{Description, Left, Member, Pulse, Registered, Registration, Status};
use crate::plane::{AbortReason, DataPlane, MemberSpec, total};
use crate::refusal::Refusal;

/// What comes of a registration.
pub(crate) type Outcome = Result<Registered, Refusal>;

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
    tickets: Tickets,
    /// Bytes per shard that a job can get of the empty host: more than its slot memory if values may spill elsewhere.
    capacity: u64,
    /// What the parent has to be told of jobs that are forgotten here.
    parting: Vec<Ask>,
}

impl Registry {
    /// What moves packets here.
    pub(crate) fn plane(&self) -> Arc<dyn DataPlane> {
        Arc::clone(&self.plane)
    }

    pub(crate) fn new(plane: Arc<dyn DataPlane>, config: ControlConfig) -> Self {
        let capacity = plane.free_memory();
        Self {
            plane,
            config,
            door: Door::Open,
            worlds: BTreeMap::new(),
            jobs: BTreeMap::new(),
            tickets: Tickets::default(),
            capacity,
            parting: Vec::new(),
        }
    }

    /// Registers a member whose call came from `peer`.
    pub(crate) fn register(
        &mut self,
        request: &Registration,
        peer: IpAddr,
        now: Instant,
    ) -> Result<Ticket, Refusal> {
        let context = Context {
            host: &self.plane.describe(),
            peer: (!self.config.allow_any_address).then_some(peer),
            is_child: self.config.parent.is_some(),
        };
        let mut applicant = check(request, &context)?;
        let name = &request.world;
        if let Some(answer) = self.meet_job(name, &mut applicant, now)? {
            return Ok(self.tickets.done(Ok(answer)));
        }
        let goes_on = self.worlds.get(name).is_some_and(|world| world.reform.is_some());
        match self.door {
            Door::Draining if !goes_on => Err(Refusal::Draining),
            Door::Closed => Err(Refusal::ShuttingDown),
            Door::Open | Door::Draining => {
                let deadline = now + request.wait.min(self.config.longest_wait);
                self.seat(name, applicant, deadline, now)
            }
        }
    }

    /// The outcome, once there is one; the ticket is then used up.
    pub(crate) fn poll(&mut self, ticket: Ticket) -> Option<Outcome> {
        match self.tickets.world_of(ticket) {
            Some(_) => None,
            None => Some(self.tickets.take(ticket)),
        }
    }

    /// The deadline of a registration has passed: its outcome, or whom it waited for.
    pub(crate) fn give_up(&mut self, ticket: Ticket, waited: Duration, now: Instant) -> Outcome {
        let world = self.tickets.world_of(ticket).map(str::to_owned);
        let Some(world) = world.and_then(|name| self.worlds.get_mut(&name)) else {
            return self.tickets.take(ticket);
        };
        let refusal = match (&self.config.parent, &world.upward.silent) {
            (Some(parent), Some((_, detail))) => Refusal::ParentSilent {
                parent: parent.address.clone(),
                detail: detail.clone(),
            },
            _ => world.give_up(ticket, waited, now),
        };
        self.withdraw(ticket, now);
        Err(refusal)
    }

    /// The caller has gone away.
    pub(crate) fn withdraw(&mut self, ticket: Ticket, now: Instant) {
        let Some(name) = self.tickets.withdraw(ticket) else {
            return;
        };
        if let Some(world) = self.worlds.get_mut(&name) {
            world.unseat(ticket, now);
            self.drop_if_empty(&name);
            // It may have been the first in the queue.
            self.admit_queued(now);
        }
    }

    pub(crate) fn heartbeat(
        &mut self,
        member: Member,
        progress: u64,
        now: Instant,
    ) -> Result<Pulse, Refusal> {
        match self.jobs.get_mut(&member.key) {
            Some(job) => job.heartbeat(member, progress, now),
            None => Ok(Pulse::UnknownJob),
        }
    }

    /// Marks the member as left. A job that nobody needs any more is released.
    pub(crate) fn leave(&mut self, member: Member, now: Instant) -> Result<(), Refusal> {
        let job = self.jobs.get_mut(&member.key).ok_or(Refusal::UnknownJob)?;
        let departed = job.leave(member, now)?;
        if job.is_deserted() {
            tracing::info!(world = job.name(), "all ranks have left");
            let (name, running) = (job.name().to_owned(), job.is_running());
            job.release(&*self.plane);
            if running {
                self.part(member.key);
                self.jobs.remove(&member.key);
                self.refuse_world(&name, &Refusal::UnknownJob);
            }
            self.admit_queued(now);
        } else if let Some(departed) = departed.filter(|_| job.is_reforming()) {
            let name = job.name().to_owned();
            let waiting = self
                .worlds
                .get_mut(&name)
                .map(|world| world.depart(&departed, now));
            for ticket in waiting.into_iter().flatten() {
                self.tickets.finish(ticket, Err(Refusal::UnknownJob));
            }
            self.advance(&name, now);
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

    /// `relayed` is the reason of another aggregator, in which the member's ranks are.
    pub(crate) fn abort(
        &mut self,
        member: Member,
        text: &str,
        relayed: Option<AbortReason>,
        now: Instant,
    ) -> Result<(), Refusal> {
        let job = self.jobs.get_mut(&member.key).ok_or(Refusal::UnknownJob)?;
        job.abort_by(member, text, relayed, &*self.plane, now)?;
        self.refuse_ended();
        // It no longer counts as one of the jobs that run.
        self.admit_queued(now);
        Ok(())
    }

    /// Looks for lost ranks and forgets jobs that ended some time ago. Returns whether anything changed.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        let mut changed = self.lose_silent(now) | self.settle_overdue(now);
        self.refuse_ended();
        let mut returned = false;
        for job in self.jobs.values_mut().filter(|job| job.is_deserted()) {
            returned |= job.release(&*self.plane);
        }
        let lost_after = self.config.lost_after;
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
        changed |= returned || !old.is_empty();
        if changed {
            self.admit_queued(now);
        }
        changed
    }

    /// Takes no new worlds; those that wait are refused, jobs go on.
    pub(crate) fn drain(&mut self) {
        if self.door == Door::Open {
            self.door = Door::Draining;
            let is_new = |world: &World| !world.reform.as_ref().is_some_and(|reform| reform.at_home);
            self.refuse_worlds(&Refusal::Draining, is_new);
        }
    }

    /// Ends everything: jobs are aborted and released.
    pub(crate) fn close(&mut self, now: Instant) {
        self.door = Door::Closed;
        self.refuse_worlds(&Refusal::ShuttingDown, |_| true);
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
        let shown = |(key, job): (&u64, &Job)| {
            let world = self.worlds.get(job.name()).filter(|_| job.is_reforming());
            let missing: BTreeSet<u32> = world.into_iter().flat_map(World::missing).collect();
            job.status(&self.plane.lags(*key), &missing, now)
        };
        Status {
            description: self.describe(),
            draining: self.door != Door::Open,
            jobs: self.jobs.iter().map(shown).collect(),
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

    /// A running job holds its name. A process that belongs to it gets its answer again, or resumes it; then the job
    /// re-forms. Ranks without which it goes on are taken out of the applicant.
    fn meet_job(
        &mut self,
        name: &str,
        new: &mut Applicant,
        now: Instant,
    ) -> Result<Option<Registered>, Refusal> {
        let named = self
            .jobs
            .iter()
            .find(|(_, job)| job.is_running() && job.name() == name);
        let Some((key, job)) = named.map(|(key, job)| (*key, job)) else {
            return self.check_resumable(name, new).map(|()| None);
        };
        let Some(resume) = new.resume.clone() else {
            let again = job.answer_again(new);
            return again.map(Some).ok_or_else(|| job.refuse_second_world(now));
        };
        if resume.key != key {
            return Err(job.refuse_second_world(now));
        }
        job.check_resume(new.rank(), &resume)?;
        self.leave_lost_out(job, new)?;
        if job.is_reforming() {
            return Ok(None);
        }
        if resume.epoch < job.spec().epoch
            && let Some(answer) = job.answer_again(new)
        {
            return Ok(Some(answer));
        }
        self.begin_reform(key, BTreeSet::new(), now);
        Ok(None)
    }

    /// A key that is known here, but not as that of a running job of this name, is of no use.
    fn check_resumable(&self, name: &str, new: &Applicant) -> Result<(), Refusal> {
        let known = new.resume.as_ref().and_then(|resume| self.jobs.get(&resume.key));
        known.map_or(Ok(()), |job| Err(job.refuse_key(name)))
    }

    fn leave_lost_out(&self, job: &Job, new: &mut Applicant) -> Result<(), Refusal> {
        let rank = new.rank();
        if self.config.parent.is_some() {
            // Others may come from other aggregators.
            let lost = job.lost_ranks();
            new.ranks.retain(|rank| !lost.contains(rank));
        } else {
            let live = job.live_ranks();
            new.ranks.retain(|rank| live.contains(rank));
        }
        if new.ranks.is_empty() {
            let world = job.name().into();
            return Err(Refusal::LeftOut { world, rank });
        }
        Ok(())
    }

    fn seat(
        &mut self,
        name: &str,
        applicant: Applicant,
        deadline: Instant,
        now: Instant,
    ) -> Result<Ticket, Refusal> {
        if !self.worlds.contains_key(name) && self.worlds.len() >= self.config.max_waiting_worlds {
            return Err(Refusal::TooManyWaiting {
                limit: self.config.max_waiting_worlds,
            });
        }
        let ticket = self.tickets.waiting(name);
        let world = self
            .worlds
            .entry(name.into())
            .or_insert_with(|| World::new(name, None, now));
        match world.seat(ticket, applicant, deadline, now) {
            Ok(displaced) => {
                for (earlier, refusal) in displaced {
                    self.tickets.finish(earlier, Err(refusal));
                }
            }
            Err(refusal) => {
                self.tickets.withdraw(ticket);
                self.drop_if_empty(name);
                return Err(refusal);
            }
        }
        self.advance(name, now);
        Ok(ticket)
    }

    /// A world that nobody waits for is forgotten, unless a job re-forms here.
    fn drop_if_empty(&mut self, name: &str) {
        let at_home = |world: &World| world.reform.as_ref().is_some_and(|reform| reform.at_home);
        if self
            .worlds
            .get(name)
            .is_some_and(|world| world.is_empty() && !at_home(world))
        {
            self.worlds.remove(name);
        }
    }

    fn lose_silent(&mut self, now: Instant) -> bool {
        let lost_after = self.config.lost_after;
        let mut changed = false;
        let mut reforms = Vec::new();
        for (key, job) in &mut self.jobs {
            match job.lose(lost_after, &*self.plane, now) {
                Loss::Settled { changed: settled } => changed |= settled,
                Loss::Reform { lost } => reforms.push((*key, lost)),
            }
        }
        for (key, lost) in reforms {
            self.begin_reform(key, lost, now);
            changed = true;
        }
        changed
    }

    /// Who waits for a job that has ended while it re-formed is told why.
    fn refuse_ended(&mut self) {
        let ended = self.worlds.iter().filter_map(|(name, world)| {
            let reform = world.reform.as_ref().filter(|reform| reform.at_home)?;
            let reason = self.jobs.get(&reform.key)?.abort_reason()?.to_string();
            Some((name.clone(), reason))
        });
        for (world, reason) in ended.collect::<Vec<_>>() {
            let refusal = Refusal::JobEnded {
                world: world.clone(),
                reason,
            };
            self.refuse_world(&world, &refusal);
        }
    }

    fn refuse_world(&mut self, name: &str, refusal: &Refusal) {
        if let Some(world) = self.worlds.remove(name) {
            self.refuse_seats(world.seats(), refusal);
        }
    }

    fn refuse_worlds(&mut self, refusal: &Refusal, which: impl Fn(&World) -> bool) {
        let worlds = self.worlds.iter().filter(|(_, world)| which(world));
        for name in worlds.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.refuse_world(&name, refusal);
        }
    }

    fn remove(&mut self, key: u64) {
        self.part(key);
        if let Some(mut job) = self.jobs.remove(&key) {
            job.release(&*self.plane);
        }
    }
}

/// The members of a job, in the order of their numbers.
fn member_specs(seats: &[Seat]) -> Vec<MemberSpec> {
    let member = |seat: &Seat| MemberSpec {
        endpoints: seat.applicant.endpoints.clone(),
        workers: seat.applicant.ranks.len() as u32,
        ranks: seat.applicant.ranks.clone(),
    };
    seats.iter().map(member).collect()
}

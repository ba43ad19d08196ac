//! How a job comes together again: at another aggregator, at a restarted one, or without some of its ranks.

use std::collections::BTreeSet;
use std::time::Instant;

use super::terms::keep;
use super::world::{Reform, Seat, World};
use super::{Registry, member_specs};
use crate::messages::{Boundary, OnLost, Policy, Resume};
use crate::plane::{AbortKind, AbortReason, JobSpec};
use crate::refusal::{Ranks, Refusal};

impl Registry {
    /// Suspends a job that runs here; its members learn it by their heartbeats and on the data path.
    pub(super) fn begin_reform(&mut self, key: u64, lost: BTreeSet<u32>, now: Instant) {
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        if job.is_reforming() || !job.is_running() {
            return;
        }
        job.reform(&*self.plane);
        let reform = Reform {
            key,
            began: now,
            at_home: true,
            strict: self.config.parent.is_none(),
            size: job.size(),
            expected: job.live_ranks().difference(&lost).copied().collect(),
            lost,
        };
        let name = job.name().to_owned();
        let mut world = World::new(&name, Some(reform), now);
        if let Some(upstream) = &job.upstream {
            (world.upward.nonce, world.upward.epoch) = (upstream.member.nonce, upstream.epoch);
        }
        for departed in job.departed() {
            world.seat_departed(departed.clone(), now);
        }
        // A running job holds its name: nobody should wait under it.
        let refusal = job.refuse_second_world(now);
        self.refuse_world(&name, &refusal);
        self.worlds.insert(name, world);
    }

    /// All ranks that were not known to be lost have registered again.
    pub(super) fn complete_reform(&mut self, name: &str, now: Instant) {
        if let Some(world) = self.worlds.remove(name)
            && let Some(reform) = &world.reform
        {
            let lost = reform.lost.clone();
            self.restart(name, world, lost, now);
        }
    }

    /// Ends the wait of re-forming worlds whose time is over. Returns whether anything changed.
    pub(super) fn settle_overdue(&mut self, now: Instant) -> bool {
        let lost_after = self.config.lost_after;
        let is_overdue = |world: &World| {
            let reform = world.reform.as_ref();
            reform.is_some_and(|reform| now.saturating_duration_since(reform.began) > lost_after)
        };
        // Below a parent only the parent knows who is lost; but a job to which nobody came back is over.
        let decides = self.config.parent.is_none();
        let overdue: Vec<String> = self
            .worlds
            .iter()
            .filter(|(_, world)| is_overdue(world) && (decides || world.is_empty()))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &overdue {
            if let Some(world) = self.worlds.remove(name) {
                self.settle_missing(name, world, now);
            }
        }
        !overdue.is_empty()
    }

    /// Ends a job that re-forms, or that could not be admitted again.
    pub(super) fn end_job(&mut self, key: u64, reason: AbortReason, now: Instant) {
        if let Some(job) = self.jobs.get_mut(&key) {
            job.end(reason, &*self.plane, now);
        }
    }

    fn settle_missing(&mut self, name: &str, world: World, now: Instant) {
        let Some(reform) = &world.reform else { return };
        let (key, mut lost) = (reform.key, reform.lost.clone());
        let missing = world.missing();
        let at_home = reform.at_home;
        let on_lost = match self.jobs.get(&key).filter(|_| at_home) {
            Some(job) => job.on_lost(),
            None => world.common().map_or(OnLost::Abort, |common| common.on_lost),
        };
        let shrinks = on_lost == OnLost::Shrink && !world.is_empty();
        // Where it did not run, nobody knows whether the missing ranks go on elsewhere: of two halves, at most one may.
        if shrinks && (at_home || world.has_majority()) {
            lost.extend(missing);
            return self.restart(name, world, lost, now);
        }
        let lost_after = self.config.lost_after;
        let refusal = if shrinks {
            world.refuse_minority(lost_after)
        } else {
            world.refuse_incomplete(lost_after)
        };
        self.refuse_seats(world.seats(), &refusal);
        if !at_home {
            return;
        }
        let text = format!(
            "{} did not register again within {:.1} s",
            Ranks(&missing),
            lost_after.as_secs_f64()
        );
        let reason = AbortReason {
            rank: missing.first().copied(),
            kind: AbortKind::Lost,
            text,
        };
        if world.is_empty()
            && let Some(job) = self.jobs.get_mut(&key)
        {
            // All may have moved to other aggregators: the parent finds out by itself.
            job.upstream = None;
        }
        self.end_job(key, reason, now);
    }

    fn restart(&mut self, name: &str, world: World, lost: BTreeSet<u32>, now: Instant) {
        let Some(reform) = &world.reform else { return };
        let (key, at_home) = (reform.key, reform.at_home);
        let mut seats = world.into_seats();
        let boundary = (!lost.is_empty()).then(|| boundary(&seats, lost));
        if boundary.is_some() {
            // Departed members hold no result of what comes after the boundary.
            seats.retain(|seat| seat.ticket.is_some());
        }
        let restarted = self
            .resumed_spec(name, key, at_home, &seats)
            .and_then(|spec| self.install(&seats, spec, boundary, None, now));
        if let Err(refusal) = restarted {
            self.refuse_seats(&seats, &refusal);
            if at_home {
                let text = format!("the job could not go on: {refusal}");
                let (rank, kind) = (None, AbortKind::Reported);
                self.end_job(key, AbortReason { rank, kind, text }, now);
            }
        }
    }

    /// The job as it was, with its present members and a new epoch.
    fn resumed_spec(
        &mut self,
        name: &str,
        key: u64,
        at_home: bool,
        seats: &[Seat],
    ) -> Result<JobSpec, Refusal> {
        let members = member_specs(seats);
        let epoch = self.next_epoch(name, key, seats)?;
        let workers = members.iter().map(|member| member.workers).sum();
        if let Some(job) = self.jobs.get(&key) {
            if !at_home {
                // Another world, or an earlier forming of this one, has taken the key meanwhile.
                return Err(job.refuse_key(name));
            }
            return Ok(JobSpec {
                epoch,
                members,
                workers,
                ..job.spec().clone()
            });
        }
        self.make_room(name)?;
        let seated = seats
            .iter()
            .find_map(|seat| Some((&seat.applicant, seat.applicant.resume.as_ref()?)));
        let Some((common, resume)) = seated else {
            let (world, what) = (name.into(), "no rank knows it".into());
            return Err(Refusal::ResumeImpossible { world, rank: 0, what });
        };
        keep(name, resume, self.plane.free_memory())?;
        Ok(JobSpec {
            key,
            name: name.into(),
            epoch,
            members,
            workers,
            lanes: resume.lanes,
            window: resume.window,
            generations: resume.generations,
            streams: resume.streams,
            policy: Policy::All,
            weight: common.weight,
            parent: None,
        })
    }

    /// Above every epoch that any member used for this job, and above that of any earlier start of this aggregator.
    pub(super) fn next_epoch(&self, name: &str, key: u64, seats: &[Seat]) -> Result<u32, Refusal> {
        let resumes = seats.iter().filter_map(|seat| seat.applicant.resume.as_ref());
        let stated = resumes.map(|resume| resume.epoch).max();
        let used = self.jobs.get(&key).map(|job| job.spec().epoch);
        let host = self.plane.describe().epoch;
        let Some(used) = stated.max(used) else {
            // The job has not run yet.
            return Ok(host);
        };
        let next = used.checked_add(1).ok_or_else(|| Refusal::ResumeImpossible {
            world: name.into(),
            rank: seats.first().map_or(0, |seat| seat.applicant.rank()),
            what: format!("the job's epoch {used} has no successor"),
        })?;
        Ok(host.max(next))
    }
}

impl Reform {
    /// A job that ran at another aggregator, or here before a restart: nobody knows which of its ranks are left.
    pub(super) fn elsewhere(resume: &Resume, size: u32, now: Instant) -> Self {
        Self {
            key: resume.key,
            began: now,
            at_home: false,
            strict: false,
            size,
            expected: (0..size).collect(),
            lost: BTreeSet::new(),
        }
    }
}

/// What all resumes of a job say together.
pub(super) fn combined<'a>(mut resumes: impl Iterator<Item = &'a Resume>) -> Option<Resume> {
    let mut all = resumes.next()?.clone();
    for resume in resumes {
        all.epoch = all.epoch.max(resume.epoch);
        all.operations = all.operations.max(resume.operations);
        for (next, other) in all.next_chunks.iter_mut().zip(&resume.next_chunks) {
            *next = (*next).max(*other);
        }
    }
    Some(all)
}

fn boundary(seats: &[Seat], lost: BTreeSet<u32>) -> Boundary {
    let waiting = seats.iter().filter(|seat| seat.ticket.is_some());
    let resume = combined(waiting.filter_map(|seat| seat.applicant.resume.as_ref()));
    let (failed_operation, next_chunks) =
        resume.map_or((0, Vec::new()), |resume| (resume.operations, resume.next_chunks));
    Boundary {
        failed_operation,
        next_chunks,
        lost: lost.into_iter().collect(),
    }
}

//! What follows from the parent's answers.

use std::collections::BTreeSet;
use std::time::Instant;

use super::{Accepted, Answer, Ask};
use crate::messages::{Member, Policy, Pulse, Registered};
use crate::plane::{AbortKind, AbortReason, JobSpec, ParentSpec};
use crate::refusal::{NOT_A_MEMBER, RANKS_MISSING, Refusal, SUPERSEDED};
use crate::registry::job::one_line;
use crate::registry::upward::{PARENTS_TURN, Upstream};
use crate::registry::world::{Seat, World};
use crate::registry::{Registry, member_specs};

impl Registry {
    /// The parent's answer to the registration of this version of a world. An acceptance counts whatever the version:
    /// the parent has started the job.
    pub(crate) fn upstream_registered(
        &mut self,
        name: &str,
        version: u64,
        answer: Answer<Accepted>,
        now: Instant,
    ) {
        match answer {
            Answer::Ok(accepted) => self.accepted(name, accepted, now),
            Answer::Refused { word, message } => self.refused(name, version, &word, message, now),
            Answer::Silent { detail } => {
                if let Some(world) = self.worlds.get_mut(name) {
                    world.upward.silent.get_or_insert((now, String::new())).1 = detail;
                    world.upward.ask_again(version, now);
                }
            }
        }
    }

    /// The parent's answer to a heartbeat of this job.
    pub(crate) fn upstream_pulse(&mut self, member: Member, answer: Answer<Pulse>, now: Instant) {
        let key = member.key;
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        let Some(upstream) = job.upstream.as_mut().filter(|upstream| upstream.member == member) else {
            return;
        };
        upstream.beating = false;
        if !matches!(answer, Answer::Silent { .. }) {
            upstream.heard = now;
        }
        match answer {
            Answer::Ok(Pulse::Ok) | Answer::Silent { .. } => {}
            Answer::Ok(Pulse::Aborted(reason) | Pulse::Excluded(reason)) => {
                // The parent knows.
                job.upstream = None;
                job.end(reason, &*self.plane, now);
                self.refuse_ended();
            }
            // Refused: the job has formed again there without this aggregator. It asks to be part of it again.
            Answer::Ok(Pulse::Reform | Pulse::UnknownJob) | Answer::Refused { .. } => {
                self.begin_reform(key, BTreeSet::new(), now);
            }
        }
    }

    fn accepted(&mut self, name: &str, accepted: Accepted, now: Instant) {
        let terms = &accepted.terms;
        let own: BTreeSet<u32> = match terms.members.get(usize::from(terms.member)) {
            Some(ranks) => ranks.iter().copied().collect(),
            None => BTreeSet::new(),
        };
        let Some(world) = self.worlds.remove(name) else {
            return self.formed_again(&accepted, now);
        };
        let at_home = world.reform.as_ref().filter(|reform| reform.at_home);
        let at_home = at_home.is_some_and(|reform| reform.key == terms.key);
        let member = Member {
            key: terms.key,
            rank: own.first().copied().unwrap_or(0),
            nonce: world.upward.nonce,
        };
        let here: BTreeSet<u32> = world
            .seats()
            .iter()
            .flat_map(|seat| seat.applicant.ranks.iter().copied())
            .collect();
        if !own.is_subset(&here) || own.is_empty() {
            return self.incomplete(name, world, member, terms, now);
        }
        let strangers = here.difference(&own).copied().collect();
        let seats = self.leave_out(name, world.into_seats(), &strangers);
        if seats.iter().all(|seat| seat.ticket.is_none()) {
            // Only ranks that have left are counted to this aggregator.
            return self.abandon(at_home.then_some(terms.key), member);
        }
        let spec = match self.jobs.get(&terms.key) {
            Some(job) if !at_home => Err(job.refuse_key(name)),
            _ => self.local_spec(name, &seats, &accepted),
        };
        let upstream = Upstream {
            member,
            epoch: terms.epoch,
            heard: now,
            next_beat: now,
            beating: false,
        };
        let installed = spec.and_then(|spec| {
            self.make_room_for(name, terms.key)?;
            self.install(&seats, spec, terms.boundary.clone(), Some(upstream), now)
        });
        if let Err(refusal) = installed {
            self.refuse_seats(&seats, &refusal);
            let reason = AbortReason {
                rank: Some(member.rank),
                kind: AbortKind::Reported,
                text: format!("a child aggregator could not take part: {refusal}"),
            };
            if let Some(job) = self.jobs.get_mut(&terms.key).filter(|_| at_home) {
                job.upstream = None;
                job.end(reason.clone(), &*self.plane, now);
            }
            self.parting.push(Ask::Abort { member, reason });
        }
    }

    /// A rank for which the parent counts on this aggregator has gone while the answer was under way.
    fn incomplete(&mut self, name: &str, mut world: World, member: Member, terms: &Registered, now: Instant) {
        if world.reform.is_some() {
            world.upward.epoch = terms.epoch;
            world.upward.touch(now);
            self.worlds.insert(name.into(), world);
            return;
        }
        let reason = AbortReason {
            rank: Some(member.rank),
            kind: AbortKind::Lost,
            text: "a rank went away just when its world was complete: start the job again".into(),
        };
        let refusal = Refusal::JobEnded {
            world: name.into(),
            reason: reason.text.clone(),
        };
        self.refuse_seats(world.seats(), &refusal);
        self.parting.push(Ask::Abort { member, reason });
    }

    /// An answer for a world that does not wait any more. If the job formed once more at the parent, it has to here.
    fn formed_again(&mut self, accepted: &Accepted, now: Instant) {
        let key = accepted.terms.key;
        let known = self.jobs.get(&key).and_then(|job| job.upstream.as_ref());
        if known.is_some_and(|upstream| upstream.epoch != accepted.terms.epoch) {
            if let Some(upstream) = self.jobs.get_mut(&key).and_then(|job| job.upstream.as_mut()) {
                upstream.epoch = accepted.terms.epoch;
            }
            self.begin_reform(key, BTreeSet::new(), now);
        }
    }

    /// Ranks that the parent does not count to this aggregator are told so; the others stay.
    fn leave_out(&mut self, name: &str, mut seats: Vec<Seat>, strangers: &BTreeSet<u32>) -> Vec<Seat> {
        for seat in &mut seats {
            let rank = seat.applicant.rank();
            seat.applicant.ranks.retain(|rank| !strangers.contains(rank));
            if let Some(ticket) = seat.ticket.filter(|_| seat.applicant.ranks.is_empty()) {
                let world = name.into();
                self.tickets.finish(ticket, Err(Refusal::LeftOut { world, rank }));
            }
        }
        seats.retain(|seat| !seat.applicant.ranks.is_empty());
        seats.sort_by_key(|seat| seat.applicant.rank());
        seats
    }

    /// Nobody is here any more who takes part in the job.
    fn abandon(&mut self, key: Option<u64>, member: Member) {
        if let Some(mut job) = key.and_then(|key| self.jobs.remove(&key)) {
            job.release(&*self.plane);
        }
        self.parting.push(Ask::Leave { member });
    }

    fn make_room_for(&mut self, name: &str, key: u64) -> Result<(), Refusal> {
        if self.jobs.contains_key(&key) {
            return Ok(());
        }
        self.make_room(name)
    }

    fn local_spec(&self, name: &str, seats: &[Seat], accepted: &Accepted) -> Result<JobSpec, Refusal> {
        let (terms, endpoints) = (&accepted.terms, &accepted.endpoints);
        let streams = usize::from(terms.streams);
        let host = self.plane.describe();
        let as_asked = seats.iter().all(|seat| seat.applicant.endpoints.len() == streams);
        if !host.lanes.contains(&terms.lanes) || !as_asked || endpoints.len() < streams {
            return Err(Refusal::ParentRefused {
                parent: self.parent(),
                message: format!(
                    "its terms (lanes {}, streams {streams}, {} shards) are not possible here",
                    terms.lanes,
                    endpoints.len()
                ),
                missing: false,
            });
        }
        Ok(JobSpec {
            key: terms.key,
            name: name.into(),
            epoch: self.next_epoch(name, terms.key, seats)?,
            members: member_specs(seats),
            workers: terms.workers,
            lanes: terms.lanes,
            window: terms.window,
            generations: terms.generations,
            streams: terms.streams,
            policy: Policy::All,
            weight: seats.first().map_or(1, |seat| seat.applicant.weight),
            parent: Some(ParentSpec {
                endpoints: endpoints[..streams].to_vec(),
                member: terms.member,
                epoch: terms.epoch,
            }),
        })
    }

    fn refused(&mut self, name: &str, version: u64, word: &str, message: String, now: Instant) {
        let parent = self.parent();
        let Some(world) = self.worlds.get_mut(name) else {
            return;
        };
        world.upward.silent = None;
        if world.upward.version != version {
            // A newer call is under way, or will be.
            return;
        }
        if word == SUPERSEDED || word == NOT_A_MEMBER {
            return world.upward.ask_again(version, now);
        }
        let missing = word == RANKS_MISSING;
        let refusal = Refusal::ParentRefused {
            parent,
            message: one_line(&message),
            missing,
        };
        if missing {
            let late: Vec<_> = world
                .waiting_seats()
                .filter(|seat| seat.deadline <= now + PARENTS_TURN)
                .filter_map(|seat| seat.ticket)
                .collect();
            let all_wait = world.waiting_seats().count() > late.len();
            // Before any deadline is near, the parent has given the job up that was to go on.
            if !late.is_empty() && all_wait {
                for ticket in late {
                    world.unseat(ticket, now);
                    self.tickets.finish(ticket, Err(refusal.clone()));
                }
                return;
            }
        }
        let key = world.reform.as_ref().map(|reform| reform.key);
        self.refuse_world(name, &refusal);
        if let Some(job) = key.and_then(|key| self.jobs.get_mut(&key)) {
            // The parent knows, and the ranks of other aggregators may go on.
            job.upstream = None;
            let reason = AbortReason {
                rank: None,
                kind: AbortKind::Lost,
                text: refusal.to_string(),
            };
            job.end(reason, &*self.plane, now);
        }
    }
}

//! A job: a world whose ranks have all registered.

pub(super) mod lost;
mod view;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::applicant::Applicant;
use super::upward::Upstream;
use super::world::Seat;
use crate::messages::{Member, OnLost, Policy, Pulse, RankState, Registered, Resume};
use crate::plane::{AbortKind, AbortReason, DataPlane, JobSpec};
use crate::refusal::Refusal;

/// Longest text of an abort that is passed on, in bytes.
const LONGEST_REASON: usize = 400;

#[derive(Debug)]
struct Record {
    applicant: Applicant,
    state: RankState,
    heard: Instant,
    progress: u64,
    /// Why the job goes on without it.
    excluded: Option<AbortReason>,
}

/// A member of an earlier forming of the job, without which it goes on.
#[derive(Debug)]
struct Gone {
    ranks: Vec<u32>,
    nonce: u64,
    /// None if it had left.
    reason: Option<AbortReason>,
}

#[derive(Debug)]
struct End {
    reason: AbortReason,
    at: Instant,
}

/// A job that runs or comes together again, or that was aborted and is remembered so that its ranks can be told why.
#[derive(Debug)]
pub(super) struct Job {
    spec: JobSpec,
    /// The answer to member 0; the others' differ by their number.
    terms: Registered,
    size: u32,
    on_lost: OnLost,
    priority: u8,
    started: Instant,
    /// By member number.
    members: Vec<Record>,
    gone: Vec<Gone>,
    end: Option<End>,
    /// The data plane still holds slots for it.
    reserved: bool,
    reforming: bool,
    /// Its membership at the parent aggregator.
    pub(super) upstream: Option<Upstream>,
}

impl Job {
    /// The job of a complete world that the data plane has admitted. `seats` are in the order of member numbers.
    pub(super) fn new(seats: &[Seat], spec: JobSpec, terms: Registered, now: Instant) -> Self {
        let record = |seat: &Seat| Record {
            applicant: seat.applicant.clone(),
            state: if seat.ticket.is_some() {
                RankState::Registered
            } else {
                RankState::Left
            },
            heard: now,
            progress: 0,
            excluded: None,
        };
        let common = seats.first().map(|seat| &seat.applicant);
        Self {
            spec,
            terms,
            size: common.map_or(0, |common| common.size),
            on_lost: common.map_or(OnLost::Abort, |common| common.on_lost),
            priority: common.map_or(0, |common| common.priority),
            started: now,
            members: seats.iter().map(record).collect(),
            gone: Vec::new(),
            end: None,
            reserved: true,
            reforming: false,
            upstream: None,
        }
    }

    /// It is `earlier`, formed again: members of it that are not seated now are told why, if they come back.
    pub(super) fn continues(&mut self, earlier: Job) {
        let live = self.live_ranks();
        self.started = earlier.started;
        self.size = earlier.size;
        self.gone = earlier.gone;
        self.gone
            .retain(|gone| !gone.ranks.iter().any(|rank| live.contains(rank)));
        for record in earlier.members {
            let mut ranks = record.applicant.ranks;
            ranks.retain(|rank| !live.contains(rank));
            if ranks.is_empty() || self.members.iter().any(|member| member.applicant.ranks == ranks) {
                continue;
            }
            let missed = AbortReason {
                rank: ranks.first().copied(),
                kind: AbortKind::Lost,
                text: "it did not register again in time: the job goes on without it".into(),
            };
            let left = record.state == RankState::Left;
            self.gone.push(Gone {
                ranks,
                nonce: record.applicant.nonce,
                reason: (!left).then(|| record.excluded.unwrap_or(missed)),
            });
        }
    }

    pub(super) fn spec(&self) -> &JobSpec {
        &self.spec
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// For a world that resumes a job of this key, which is not this one.
    pub(super) fn refuse_key(&self, world: &str) -> Refusal {
        let reason = match self.abort_reason() {
            Some(reason) => reason.to_string(),
            None => format!("its key is that of a running job, '{}'", self.spec.name),
        };
        let world = world.into();
        Refusal::JobEnded { world, reason }
    }

    pub(super) fn on_lost(&self) -> OnLost {
        self.on_lost
    }

    pub(super) fn is_running(&self) -> bool {
        self.end.is_none()
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.reserved
    }

    pub(super) fn is_reforming(&self) -> bool {
        self.reforming && self.is_running()
    }

    pub(super) fn ended_at(&self) -> Option<Instant> {
        self.end.as_ref().map(|end| end.at)
    }

    pub(super) fn abort_reason(&self) -> Option<&AbortReason> {
        self.end.as_ref().map(|end| &end.reason)
    }

    /// Nobody will ask for this job any more.
    pub(super) fn is_deserted(&self) -> bool {
        self.members
            .iter()
            .all(|member| matches!(member.state, RankState::Left | RankState::Lost))
    }

    /// Ranks that are to leave yet.
    pub(super) fn remaining(&self) -> u32 {
        let staying = |member: &&Record| member.state != RankState::Left && member.excluded.is_none();
        self.members
            .iter()
            .filter(staying)
            .map(|member| member.applicant.ranks.len() as u32)
            .sum()
    }

    /// Ranks that neither left nor were lost.
    pub(super) fn live_ranks(&self) -> BTreeSet<u32> {
        self.live_members()
            .flat_map(|member| member.applicant.ranks.iter().copied())
            .collect()
    }

    fn live_members(&self) -> impl Iterator<Item = &Record> {
        self.members
            .iter()
            .filter(|member| !matches!(member.state, RankState::Left | RankState::Lost))
    }

    pub(super) fn departed(&self) -> impl Iterator<Item = &Applicant> {
        self.members
            .iter()
            .filter(|member| member.state == RankState::Left)
            .map(|member| &member.applicant)
    }

    /// Ranks that must not come back: the job goes on without them.
    pub(super) fn lost_ranks(&self) -> BTreeSet<u32> {
        let gone = self.gone.iter().filter(|gone| gone.reason.is_some());
        let excluded = self.members.iter().filter(|member| member.excluded.is_some());
        gone.flat_map(|gone| &gone.ranks)
            .chain(excluded.flat_map(|member| &member.applicant.ranks))
            .copied()
            .collect()
    }

    /// The slowest member's progress: what this aggregator as a whole has.
    pub(super) fn progress(&self) -> u64 {
        self.live_members()
            .map(|member| member.progress)
            .min()
            .unwrap_or(0)
    }

    /// The answer to a process that registers again because it did not get the first answer.
    pub(super) fn answer_again(&self, new: &Applicant) -> Option<Registered> {
        let same = |member: &Record| {
            let old = &member.applicant;
            let live = !matches!(member.state, RankState::Left | RankState::Lost);
            live && old.nonce == new.nonce && old.endpoints == new.endpoints && old.ranks == new.ranks
        };
        let member = self.members.iter().position(same)? as u8; // one of at most 64
        Some(Registered {
            member,
            ..self.terms.clone()
        })
    }

    pub(super) fn refuse_second_world(&self, now: Instant) -> Refusal {
        let ranks: usize = self
            .members
            .iter()
            .map(|member| member.applicant.ranks.len())
            .sum();
        Refusal::WorldRunning {
            world: self.spec.name.clone(),
            ranks,
            left: ranks - self.remaining() as usize,
            age: now.saturating_duration_since(self.started),
        }
    }

    /// Whether a member that resumes this job knows it as it is.
    pub(super) fn check_resume(&self, rank: u32, resume: &Resume) -> Result<(), Refusal> {
        let world = self.spec.name.clone();
        if self.spec.policy != Policy::All {
            return Err(Refusal::QuorumResumed { world });
        }
        let spec = &self.spec;
        let known = (resume.lanes, resume.window, resume.generations, resume.streams);
        if known == (spec.lanes, spec.window, spec.generations, spec.streams) {
            return Ok(());
        }
        let what = format!(
            "it has lanes {}, window {}, generations {}, streams {}, the job {}, {}, {}, {}",
            known.0, known.1, known.2, known.3, spec.lanes, spec.window, spec.generations, spec.streams
        );
        Err(Refusal::ResumeImpossible { world, rank, what })
    }

    pub(super) fn reform(&mut self, plane: &dyn DataPlane) {
        if !std::mem::replace(&mut self.reforming, true) {
            tracing::info!(world = self.spec.name, "job comes together again");
            plane.suspend(self.spec.key);
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        member: Member,
        progress: u64,
        now: Instant,
    ) -> Result<Pulse, Refusal> {
        let reforming = self.is_reforming();
        let Some(index) = self.number(member) else {
            let gone = self.gone_record(member)?;
            return Ok(match (&self.end, &gone.reason) {
                (Some(end), _) => Pulse::Aborted(end.reason.clone()),
                (None, Some(reason)) => Pulse::Excluded(reason.clone()),
                (None, None) => Pulse::Ok,
            });
        };
        let record = &mut self.members[index];
        record.heard = now;
        record.progress = progress;
        if record.state == RankState::Registered {
            record.state = RankState::Running;
        }
        Ok(match (&self.end, &record.excluded) {
            (Some(end), _) => Pulse::Aborted(end.reason.clone()),
            (None, Some(reason)) => Pulse::Excluded(reason.clone()),
            (None, None) if reforming && record.state != RankState::Left => Pulse::Reform,
            (None, None) => Pulse::Ok,
        })
    }

    /// The applicant of the member, if it is in the job still.
    pub(super) fn leave(&mut self, member: Member, now: Instant) -> Result<Option<Applicant>, Refusal> {
        let Some(index) = self.number(member) else {
            return self.gone_record(member).map(|_| None);
        };
        let record = &mut self.members[index];
        record.heard = now;
        if record.excluded.is_some() {
            return Ok(None);
        }
        record.state = RankState::Left;
        Ok(Some(record.applicant.clone()))
    }

    /// Only the first abort of a job counts. A child aggregator says for which of its ranks it speaks.
    pub(super) fn abort_by(
        &mut self,
        member: Member,
        text: &str,
        relayed: Option<AbortReason>,
        plane: &dyn DataPlane,
        now: Instant,
    ) -> Result<(), Refusal> {
        let Some(index) = self.number(member) else {
            // The job goes on without it: its end is not theirs.
            return self.gone_record(member).map(|_| ());
        };
        let record = &mut self.members[index];
        record.heard = now;
        if record.excluded.is_some() {
            return Ok(());
        }
        let reason = match relayed.filter(|_| record.applicant.child) {
            Some(reason) if reason.text.is_empty() => AbortReason {
                text: format!("{} gave no reason", title(&record.applicant)),
                ..reason
            },
            Some(reason) => AbortReason {
                text: one_line(&reason.text),
                ..reason
            },
            None => AbortReason {
                rank: Some(member.rank),
                kind: AbortKind::Reported,
                text: format!("rank {} failed: {}", member.rank, one_line(text)),
            },
        };
        self.end(reason, plane, now);
        Ok(())
    }

    pub(super) fn shut_down(&mut self, plane: &dyn DataPlane, now: Instant) {
        let text = "the aggregator shut down: start the job again when one is there".into();
        self.end(
            AbortReason {
                rank: None,
                kind: AbortKind::Shutdown,
                text,
            },
            plane,
            now,
        );
    }

    /// Gives the slots back; the job is remembered. Returns whether there were any.
    pub(super) fn release(&mut self, plane: &dyn DataPlane) -> bool {
        let reserved = std::mem::take(&mut self.reserved);
        if reserved {
            plane.release(self.spec.key);
        }
        reserved
    }

    pub(super) fn end(&mut self, reason: AbortReason, plane: &dyn DataPlane, now: Instant) {
        if self.is_running() {
            tracing::warn!(world = self.spec.name, kind = %reason.kind, "job aborted: {reason}");
            plane.abort(self.spec.key, &reason);
            self.end = Some(End { reason, at: now });
        }
    }

    fn number(&self, member: Member) -> Option<usize> {
        self.members.iter().position(|record| {
            record.applicant.nonce == member.nonce && record.applicant.ranks.contains(&member.rank)
        })
    }

    fn gone_record(&self, member: Member) -> Result<&Gone, Refusal> {
        self.gone
            .iter()
            .find(|gone| gone.nonce == member.nonce && gone.ranks.contains(&member.rank))
            .ok_or(Refusal::NotAMember { rank: member.rank })
    }
}

/// "rank 2", or "the aggregator of ranks 2, 3".
fn title(applicant: &Applicant) -> String {
    let ranks = crate::refusal::Ranks(&applicant.ranks);
    if applicant.child {
        format!("the aggregator of {ranks}")
    } else {
        ranks.to_string()
    }
}

/// A rank's text, made safe to print and bounded.
pub(super) fn one_line(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_REASON);
    text[..end]
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// How long since `earlier`.
fn since(earlier: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(earlier)
}

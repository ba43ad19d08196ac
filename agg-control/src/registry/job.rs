//! A job: a world whose ranks have all registered.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::world::World;
use crate::messages::{JobStatus, Member, Pulse, RankState, RankStatus, Registered};
use crate::plane::{AbortKind, AbortReason, DataPlane, JobSpec};
use crate::refusal::Refusal;

/// Longest text of an abort that is passed on, in bytes.
const LONGEST_REASON: usize = 400;

#[derive(Debug)]
struct RankRecord {
    nonce: u64,
    state: RankState,
    heard: Instant,
    progress: u64,
}

#[derive(Debug)]
struct End {
    reason: AbortReason,
    at: Instant,
}

/// A job that runs, or that was aborted and is remembered so that its ranks can be told why.
#[derive(Debug)]
pub(super) struct Job {
    spec: JobSpec,
    terms: Registered,
    started: Instant,
    ranks: Vec<RankRecord>,
    end: Option<End>,
    /// The data plane still holds slots for it.
    reserved: bool,
}

impl Job {
    /// The job of a complete world that the data plane has admitted.
    pub(super) fn new(world: &World, spec: JobSpec, terms: Registered, now: Instant) -> Self {
        let record = |nonce| RankRecord {
            nonce,
            state: RankState::Registered,
            heard: now,
            progress: 0,
        };
        let ranks = world.seats().map(|seat| record(seat.applicant.nonce)).collect();
        Self {
            spec,
            terms,
            started: now,
            ranks,
            end: None,
            reserved: true,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    pub(super) fn is_running(&self) -> bool {
        self.end.is_none()
    }

    pub(super) fn ended_at(&self) -> Option<Instant> {
        self.end.as_ref().map(|end| end.at)
    }

    pub(super) fn abort_reason(&self) -> Option<&AbortReason> {
        self.end.as_ref().map(|end| &end.reason)
    }

    /// Nobody will ask for this job any more.
    pub(super) fn is_deserted(&self) -> bool {
        self.ranks
            .iter()
            .all(|rank| matches!(rank.state, RankState::Left | RankState::Lost))
    }

    pub(super) fn remaining(&self) -> u32 {
        self.ranks
            .iter()
            .filter(|rank| rank.state != RankState::Left)
            .count() as u32
    }

    /// Checks that the member registered for this job.
    pub(super) fn check_member(&self, member: Member) -> Result<(), Refusal> {
        match self.ranks.get(member.rank as usize) {
            Some(record) if record.nonce == member.nonce => Ok(()),
            _ => Err(Refusal::NotAMember { rank: member.rank }),
        }
    }

    /// The answer to a process that registers again because it did not get the first answer.
    pub(super) fn answer_again(&self, rank: u32, nonce: u64, endpoints: &[SocketAddr]) -> Option<Registered> {
        let record = self.ranks.get(rank as usize)?;
        let same = record.nonce == nonce && self.spec.members[rank as usize].endpoints == endpoints;
        let member = rank as u8; // a number of one of at most 64 members
        (same && record.state != RankState::Left).then(|| Registered {
            member,
            ..self.terms.clone()
        })
    }

    pub(super) fn refuse_second_world(&self, now: Instant) -> Refusal {
        Refusal::WorldRunning {
            world: self.spec.name.clone(),
            ranks: self.ranks.len(),
            left: self.ranks.len() - self.remaining() as usize,
            age: now.saturating_duration_since(self.started),
        }
    }

    /// The member must have been checked.
    pub(super) fn heartbeat(&mut self, member: Member, progress: u64, now: Instant) -> Pulse {
        let record = &mut self.ranks[member.rank as usize];
        record.heard = now;
        record.progress = progress;
        if record.state == RankState::Registered {
            record.state = RankState::Running;
        }
        match &self.end {
            Some(end) => Pulse::Aborted(end.reason.clone()),
            None => Pulse::Ok,
        }
    }

    /// The member must have been checked.
    pub(super) fn leave(&mut self, member: Member, now: Instant) {
        let record = &mut self.ranks[member.rank as usize];
        record.heard = now;
        record.state = RankState::Left;
    }

    /// The member must have been checked. Only the first abort of a job counts.
    pub(super) fn abort_by(&mut self, member: Member, text: &str, plane: &dyn DataPlane, now: Instant) {
        self.ranks[member.rank as usize].heard = now;
        let text = format!("rank {} failed: {}", member.rank, one_line(text));
        self.end(
            AbortReason {
                rank: Some(member.rank),
                kind: AbortKind::Reported,
                text,
            },
            plane,
            now,
        );
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

    /// Aborts the job if a rank was not heard for longer than `lost_after`. Returns whether it did.
    pub(super) fn abort_if_lost(
        &mut self,
        lost_after: Duration,
        plane: &dyn DataPlane,
        now: Instant,
    ) -> bool {
        if !self.is_running() {
            return false;
        }
        let mut lost: Vec<(u32, Duration)> = Vec::new();
        for (rank, record) in (0u32..).zip(&mut self.ranks) {
            let silent = now.saturating_duration_since(record.heard);
            if silent > lost_after && record.state != RankState::Left {
                record.state = RankState::Lost;
                lost.push((rank, silent));
            }
        }
        lost.sort_by_key(|(rank, silent)| (std::cmp::Reverse(*silent), *rank));
        let Some((rank, silent)) = lost.first().copied() else {
            return false;
        };
        let address = self.spec.members[rank as usize].endpoints[0];
        let mut text = format!(
            "rank {rank} ({address}) not heard for {:.1} s",
            silent.as_secs_f64()
        );
        let others: Vec<String> = lost[1..].iter().map(|(rank, _)| rank.to_string()).collect();
        if !others.is_empty() {
            let plural = if others.len() == 1 { "" } else { "s" };
            text += &format!(", nor rank{plural} {}", others.join(", "));
        }
        self.end(
            AbortReason {
                rank: Some(rank),
                kind: AbortKind::Lost,
                text,
            },
            plane,
            now,
        );
        true
    }

    /// Gives the slots back; the job is remembered.
    pub(super) fn release(&mut self, plane: &dyn DataPlane) {
        if std::mem::take(&mut self.reserved) {
            plane.release(self.spec.key);
        }
    }

    pub(super) fn status(&self, now: Instant) -> JobStatus {
        let rank_status = |(rank, record): (usize, &RankRecord)| RankStatus {
            rank: rank as u32,
            ranks: vec![rank as u32],
            child: false,
            state: record.state,
            address: self.spec.members[rank].endpoints[0],
            heard: now.saturating_duration_since(record.heard),
            progress: record.progress,
            lag_chunks: 0,
            lag: Duration::ZERO,
        };
        JobStatus {
            name: self.spec.name.clone(),
            size: self.ranks.len() as u32,
            workers: self.spec.workers,
            lanes: self.spec.lanes,
            window: self.spec.window,
            generations: self.spec.generations,
            policy: self.spec.policy,
            priority: 0,
            weight: self.spec.weight,
            streams: self.spec.streams,
            age: now.saturating_duration_since(self.started),
            ranks: self.ranks.iter().enumerate().map(rank_status).collect(),
            aborted: self.abort_reason().cloned(),
        }
    }

    fn end(&mut self, reason: AbortReason, plane: &dyn DataPlane, now: Instant) {
        if self.is_running() {
            tracing::warn!(world = self.spec.name, kind = %reason.kind, "job aborted: {reason}");
            plane.abort(self.spec.key, &reason);
            self.end = Some(End { reason, at: now });
        }
    }
}

/// A rank's text, made safe to print and bounded.
fn one_line(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_REASON);
    text[..end]
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

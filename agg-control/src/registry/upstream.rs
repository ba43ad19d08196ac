//! An aggregator below a parent: what it asks of the parent, and what follows from the answers. Pure decisions; the
//! calls are made by `service::uplink`.

mod answers;
mod request;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Registry;
use super::job::Job;
use super::upward::RETRY;
use crate::messages::{Member, Registered};
use crate::plane::{AbortKind, AbortReason};
use crate::refusal::Refusal;

/// A call to make to the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Register this world's ranks, see [`Registry::upstream_request`].
    Register { world: String, version: u64 },
    /// Say that the ranks below are alive.
    Heartbeat { member: Member, progress: u64 },
    /// End the job everywhere; try until it is done.
    Abort { member: Member, reason: AbortReason },
    /// All ranks below have left; try until it is done.
    Leave { member: Member },
}

/// What came of a call to the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    Ok(T),
    /// The parent says no: its word and its message.
    Refused {
        word: String,
        message: String,
    },
    /// It does not answer; how.
    Silent {
        detail: String,
    },
}

/// The parent's answer to a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) terms: Registered,
    /// The parent's data addresses, by shard.
    pub(crate) endpoints: Vec<SocketAddr>,
}

impl Registry {
    /// The calls to make now; each is asked for once.
    pub(crate) fn upstream_wants(&mut self, now: Instant) -> Vec<Ask> {
        self.end_unheard(now);
        self.refuse_unheard(now);
        for job in self.jobs.values_mut() {
            if !job.is_running() {
                self.parting.extend(last_word(job));
            }
        }
        let mut asks = std::mem::take(&mut self.parting);
        let heartbeat = self.config.heartbeat.min(RETRY);
        for job in self.jobs.values_mut() {
            let progress = job.progress();
            if let Some(upstream) = &mut job.upstream
                && !upstream.beating
                && now >= upstream.next_beat
            {
                upstream.beating = true;
                upstream.next_beat = now + heartbeat;
                let member = upstream.member;
                asks.push(Ask::Heartbeat { member, progress });
            }
        }
        for (name, world) in &mut self.worlds {
            if !world.is_empty()
                && let Some(version) = world.upward.due(now)
            {
                let world = name.clone();
                asks.push(Ask::Register { world, version });
            }
        }
        asks
    }

    /// Somebody still waits for this world.
    pub(crate) fn upstream_waits(&self, world: &str) -> bool {
        self.worlds.get(world).is_some_and(|world| !world.is_empty())
    }

    /// The last thing to tell the parent of a job that is forgotten here.
    pub(super) fn part(&mut self, key: u64) {
        if let Some(job) = self.jobs.get_mut(&key) {
            self.parting.extend(last_word(job));
        }
    }

    /// Jobs cannot go on without the parent.
    fn end_unheard(&mut self, now: Instant) {
        let (lost_after, address) = (self.config.lost_after, self.parent());
        for job in self.jobs.values_mut().filter(|job| job.is_running()) {
            let silent = |since: Instant| now.saturating_duration_since(since) > lost_after;
            if job
                .upstream
                .as_ref()
                .is_some_and(|upstream| silent(upstream.heard))
            {
                job.upstream = None;
                let reason = silent_parent(&address, lost_after);
                job.end(reason, &*self.plane, now);
            }
        }
        self.refuse_ended();
    }

    /// Ranks that resume a job may find it at another aggregator: they do not wait here for long.
    fn refuse_unheard(&mut self, now: Instant) {
        let lost_after = self.config.lost_after;
        let unheard = self.worlds.iter().filter_map(|(name, world)| {
            world.reform.as_ref()?;
            let (since, detail) = world.upward.silent.as_ref()?;
            let is_silent = now.saturating_duration_since(*since) > lost_after;
            is_silent.then(|| (name.clone(), detail.clone()))
        });
        for (world, detail) in unheard.collect::<Vec<_>>() {
            let parent = self.parent();
            let key = self
                .worlds
                .get(&world)
                .and_then(|world| Some(world.reform.as_ref()?.key));
            self.refuse_world(&world, &Refusal::ParentSilent { parent, detail });
            if let Some(job) = key.and_then(|key| self.jobs.get_mut(&key)) {
                job.upstream = None;
                let reason = silent_parent(&self.config.parent_address(), lost_after);
                job.end(reason, &*self.plane, now);
            }
        }
    }

    fn parent(&self) -> String {
        self.config.parent_address()
    }
}

/// Told once: a job that was aborted takes its forerunners with it, one that all have left is left.
fn last_word(job: &mut Job) -> Option<Ask> {
    let member = job.upstream.take()?.member;
    Some(match job.abort_reason() {
        Some(reason) => Ask::Abort {
            member,
            reason: reason.clone(),
        },
        None => Ask::Leave { member },
    })
}

fn silent_parent(address: &str, lost_after: Duration) -> AbortReason {
    AbortReason {
        rank: None,
        kind: AbortKind::Lost,
        text: format!(
            "the parent aggregator at {address} does not answer (for {:.1} s)",
            lost_after.as_secs_f64()
        ),
    }
}

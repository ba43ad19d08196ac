//! The host as the control service sees it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agg_control::{
    AbortKind, AbortReason, AdmitError, Capabilities, DataPlane, HostKind, JobSpec, MemberLag, ParentSpec,
    Ranks, ShardCounters, Uplink,
};
use agg_core::pool::slot_memory;
use agg_core::slot::Head;
use agg_core::wire::{NO_MEMBER, packet_len};
use agg_core::{Abort, AbortCause, Endpoint, Epoch, JobConfig, Lanes, Member, MemberSet, Parent, Policy};

use udp_io::{local_ip_towards, path_payload};

use crate::queues::spread;
use crate::shard::{Names, Route, Shard, State};
use crate::store::{JobStore, Store};

/// Chunks of slot memory that a job with a store has at least.
const MIN_FRAMES: u64 = 64;

/// The shards of one host.
pub(crate) struct Plane {
    pub(crate) shards: Vec<Shard>,
    pub(crate) epoch: Epoch,
    pub(crate) memory_per_shard: u64,
    /// Deeper memory of each shard, in bytes.
    pub(crate) store_per_shard: u64,
    pub(crate) base_port: u16,
    /// The host stops: jobs that are ended now stay, so that their ranks can be told.
    pub(crate) closing: AtomicBool,
}

/// The core's word for a policy; its memory is settled by the job's generations.
fn policy(policy: agg_control::Policy) -> Policy {
    match policy {
        agg_control::Policy::All => Policy::All,
        agg_control::Policy::Quorum { members, grace, .. } => Policy::Quorum {
            members,
            grace: u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX),
        },
    }
}

fn parent(parent: &ParentSpec, stream: usize) -> Option<Parent> {
    Some(Parent {
        source: Endpoint::from(*parent.endpoints.get(stream)?),
        member: parent.member,
        epoch: Epoch(parent.epoch),
    })
}

impl Plane {
    /// The jobs of this host, and what messages call them.
    pub(crate) fn jobs(&self) -> Vec<(u64, Arc<Names>)> {
        let Some(shard) = self.shards.first() else {
            return Vec::new();
        };
        let state = shard.lock();
        let jobs = state.routes.iter();
        jobs.map(|(key, route)| (*key, Arc::clone(&route.names)))
            .collect()
    }

    /// Whether a job holds slots.
    pub(crate) fn has_jobs(&self) -> bool {
        self.shards.iter().any(|shard| !shard.lock().routes.is_empty())
    }

    fn job_config(job: &JobSpec, stream: usize) -> Result<JobConfig, AdmitError> {
        let lanes = Lanes::from_count(job.lanes)
            .ok_or_else(|| AdmitError::Other(format!("{} lanes is no chunk size of this host", job.lanes)))?;
        let members = job.members.iter().enumerate().map(|(number, member)| {
            let source = member.endpoints.get(stream).copied()?;
            Some(Member {
                source: Endpoint::from(source),
                set: MemberSet::single(number as u8),
                workers: member.workers,
            })
        });
        let members: Option<Vec<Member>> = members.collect();
        let members = members.and_then(|members| members.as_slice().try_into().ok());
        let members = members.ok_or_else(|| {
            AdmitError::Other(format!(
                "{} members with an address a stream do not fit",
                job.members.len()
            ))
        })?;
        Ok(JobConfig {
            key: job.key,
            epoch: Epoch(job.epoch),
            members,
            lanes,
            window: job.window,
            generations: job.generations,
            policy: policy(job.policy),
            parent: job.parent.as_ref().and_then(|spec| parent(spec, stream)),
            frames: None,
        })
    }

    /// Takes a job off every shard.
    fn forget(&self, key: u64) {
        for shard in &self.shards {
            shard.lock().remove(key);
            if let Some(lender) = shard.lender() {
                lender.end(key);
            }
        }
    }

    /// Refuses a job whose ranks cannot be reached: from sockets of another address family, or with packets that do
    /// not fit the path from here. The ranks have looked at their own side of it.
    fn reachable(&self, job: &JobSpec, stream: usize) -> Result<(), AdmitError> {
        let local = self.shards[stream].port.local_addr();
        let needed = packet_len(usize::from(job.lanes));
        let members = job
            .members
            .iter()
            .map(|member| (name(&member.ranks), member.endpoints.get(stream)));
        let parent = job
            .parent
            .iter()
            .map(|parent| ("the parent".to_owned(), parent.endpoints.get(stream)));
        for (who, endpoint) in members
            .chain(parent)
            .filter_map(|(who, endpoint)| Some((who, *endpoint?)))
        {
            if endpoint.is_ipv4() != local.is_ipv4() {
                return Err(AdmitError::Other(format!(
                    "{who} is at {endpoint}, but packets are received on {local}: give an aggregator address of the \
                     same family"
                )));
            }
            match path_payload(endpoint) {
                Ok(carried) if carried < needed => {
                    return Err(AdmitError::Other(format!(
                        "chunks of {} lanes need datagrams of {needed} bytes, the way to {who} at {endpoint} carries \
                         {carried}: request fewer lanes, or raise the MTU of the aggregator's interface",
                        job.lanes
                    )));
                }
                Ok(_) => {}
                Err(error) => {
                    return Err(AdmitError::Other(format!(
                        "there is no way to {who} at {endpoint}: {error}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn admit_to(&self, job: &JobSpec, stream: usize) -> Result<(), AdmitError> {
        let mut config = Self::job_config(job, stream)?;
        let mut state = self.shards[stream].lock();
        let replaces = state.routes.contains_key(&job.key);
        let mut store = None;
        if replaces {
            // As it was: the window is the same.
            config.frames = state.aggregator.frames(job.key);
        } else {
            store = self.spill(&mut config, &state, self.shards[stream].lender().is_some())?;
        }
        state.aggregator.admit(&config).map_err(|error| match error {
            agg_core::AdmitError::Memory { needed, free } => AdmitError::OutOfMemory { needed, free },
            agg_core::AdmitError::Jobs(limit) => AdmitError::TooManyJobs { limit },
            other => AdmitError::Other(format!("the job cannot run here: {other:?}")),
        })?;
        if replaces {
            // Only now: what is not replaced stays whole.
            store = state.routes.remove(&job.key).and_then(|route| route.store);
        }
        let members = job
            .members
            .iter()
            .filter_map(|member| member.endpoints.get(stream))
            .copied()
            .collect();
        let parent = job
            .parent
            .as_ref()
            .and_then(|parent| parent.endpoints.get(stream))
            .copied();
        let names = Arc::new(Names {
            world: job.name.clone(),
            members: job.members.iter().map(|member| name(&member.ranks)).collect(),
            ranks: job.members.iter().map(|member| member.ranks.clone()).collect(),
        });
        let route = Route {
            members,
            parent,
            weight: job.weight,
            names,
            store,
        };
        state.insert(job.key, route);
        Ok(())
    }

    /// A job that is too large for the memory that is free gets frames in half of that, and deeper memory for the rest.
    fn spill(
        &self,
        config: &mut JobConfig,
        state: &State,
        is_lent: bool,
    ) -> Result<Option<Store>, AdmitError> {
        let generations = u64::from(config.window) * u64::from(config.generations);
        let lanes = config.lanes.count() as u64;
        let needed = slot_memory(u64::from(config.window), lanes, u64::from(config.generations));
        let free = state.aggregator.largest_free();
        let can_spill = config.parent.is_none() && !config.policy.keeps_history();
        if needed <= free || self.store_per_shard == 0 || !can_spill {
            return Ok(None);
        }
        let heads = generations * size_of::<Head>() as u64;
        let frames = (free / 2).saturating_sub(heads) / (4 * lanes);
        let store = JobStore::bytes(generations, lanes);
        let free_store = self.store_per_shard.saturating_sub(state.stored());
        if frames < MIN_FRAMES || store > free_store {
            return Err(AdmitError::Other(format!(
                "a window of {} chunks of {lanes} lanes needs {store} bytes of deeper memory, {free_store} are free, and \
                 {MIN_FRAMES} chunks of slot memory, {frames} are free: request a smaller window, or give the aggregator \
                 more of either (store_mib, memory_mib)",
                config.window
            )));
        }
        config.frames = Some(frames as u32);
        if is_lent {
            return Ok(Some(Store::Lent(store)));
        }
        let store = JobStore::new(generations as usize, lanes as usize).ok_or_else(|| {
            AdmitError::Other(format!(
                "{store} bytes of deeper memory cannot be had from the system: request a smaller window"
            ))
        })?;
        Ok(Some(Store::Here(store)))
    }
}

/// A member as its ranks: `rank 3`, or `the aggregator of ranks 4, 6`.
fn name(ranks: &[u32]) -> String {
    match ranks {
        [_] => Ranks(ranks).to_string(),
        _ => format!("the aggregator of {}", Ranks(ranks)),
    }
}

impl DataPlane for Plane {
    fn describe(&self) -> Capabilities {
        Capabilities {
            kind: HostKind::Udp,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: self.epoch.0,
            data_ip: self
                .shards
                .first()
                .map(|shard| shard.port.local_addr().ip())
                .filter(|ip| !ip.is_unspecified()),
            base_port: self.base_port,
            shards: self.shards.len() as u16,
            // The smallest size is for tests and tiny devices: nobody should negotiate it by accident.
            lanes: Lanes::ALL
                .iter()
                .filter(|lanes| **lanes != Lanes::L16)
                .map(|lanes| *lanes as u16)
                .collect(),
            memory_per_shard: self.memory_per_shard,
            receive_buffer: self
                .shards
                .iter()
                .map(|shard| shard.port.receive_buffer() as u64)
                .min()
                .unwrap_or(0),
        }
    }

    fn admit(&self, job: &JobSpec) -> Result<(), AdmitError> {
        let streams = usize::from(job.streams).min(self.shards.len());
        let replaces = self.shards[0].lock().routes.contains_key(&job.key);
        for stream in 0..streams {
            self.reachable(job, stream)?;
        }
        for stream in 0..streams {
            if let Err(error) = self.admit_to(job, stream) {
                // What is replaced has the same size, so that it fits wherever the first shard's did.
                if !replaces {
                    self.forget(job.key);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn suspend(&self, key: u64) {
        for shard in &self.shards {
            shard.lock().aggregator.suspend(key);
        }
    }

    fn exclude(&self, key: u64, member: u8) {
        for shard in &self.shards {
            shard.lock().aggregator.exclude(key, member);
        }
    }

    fn abort(&self, key: u64, reason: &AbortReason) {
        let cause = match reason.kind {
            AbortKind::Lost => AbortCause::LostMember,
            AbortKind::Reported => AbortCause::MemberFailed,
            AbortKind::Shutdown => AbortCause::Ended,
        };
        // A rank below another aggregator of the tree has no number here: the reason's text names it.
        let names = self.jobs().into_iter().find(|(job, _)| *job == key);
        let member = names.zip(reason.rank).and_then(|((_, names), rank)| {
            let member = names.ranks.iter().position(|ranks| ranks == &[rank]);
            u8::try_from(member?).ok()
        });
        let member = member.unwrap_or(NO_MEMBER);
        for shard in &self.shards {
            shard.lock().aggregator.abort(key, Abort { cause, member });
        }
        tracing::warn!(%reason, "aborted a job");
    }

    fn release(&self, key: u64) {
        if self.closing.load(Ordering::Relaxed) {
            return;
        }
        self.forget(key);
    }

    fn counters(&self) -> Vec<ShardCounters> {
        let counters = self.shards.iter().enumerate().map(|(shard, state)| {
            let counters = state.lock().aggregator.counters().clone();
            let values = counters
                .iter()
                .map(|(counter, value)| (counter.name().to_owned(), value))
                .collect();
            ShardCounters {
                shard: shard as u16,
                values,
            }
        });
        counters.collect()
    }

    fn free_memory(&self) -> u64 {
        let free = |shard: &Shard| {
            let state = shard.lock();
            let near = state.aggregator.largest_free();
            // A job may need as much as the deeper memory holds, if the heads and some frames fit the slot memory.
            near.max((self.store_per_shard.saturating_sub(state.stored())).min(8 * near))
        };
        self.shards.iter().map(free).min().unwrap_or(0)
    }

    fn pick_key(&self, random: u64) -> u64 {
        let Some(shard) = self.shards.first() else {
            return random;
        };
        let running: Vec<u64> = shard.lock().routes.keys().copied().collect();
        spread(random, running, shard.port.queues().len())
    }

    fn lags(&self, key: u64) -> Vec<MemberLag> {
        let mut worst: Vec<MemberLag> = Vec::new();
        for shard in &self.shards {
            let lags = shard.lock().aggregator.lags(key, shard.now());
            worst.resize(worst.len().max(lags.len()), MemberLag::default());
            for (worst, lag) in worst.iter_mut().zip(lags) {
                worst.chunks = worst.chunks.max(lag.chunks);
                worst.waiting = worst.waiting.max(Duration::from_nanos(lag.waiting));
            }
        }
        worst
    }

    fn local_endpoints(&self, parent_data: SocketAddr) -> Result<Uplink, String> {
        let no_way = |error| format!("there is no way to the parent's data address {parent_data}: {error}");
        let towards = local_ip_towards(parent_data).map_err(no_way)?;
        let max_datagram = path_payload(parent_data).map_err(no_way)?;
        let endpoints = self.shards.iter().map(|shard| {
            let local = shard.port.local_addr();
            if !local.ip().is_unspecified() && local.ip() != towards {
                return Err(format!(
                    "the parent at {parent_data} is reached from {towards}, but packets are received on {local} only: \
                     set data_addr to {towards} or to all addresses"
                ));
            }
            Ok(SocketAddr::new(towards, local.port()))
        });
        Ok(Uplink {
            endpoints: endpoints.collect::<Result<_, _>>()?,
            max_datagram: max_datagram as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    /// The control service sizes jobs without knowing the core.
    #[test]
    fn both_sides_count_slot_memory_alike() {
        for (lanes, window, generations) in [(256, 2, 2), (352, 256, 2), (8192, 16, 64)] {
            assert_eq!(
                agg_control::slot_memory(lanes, window, generations),
                agg_core::pool::slot_memory(u64::from(window), u64::from(lanes), u64::from(generations))
            );
        }
    }
}

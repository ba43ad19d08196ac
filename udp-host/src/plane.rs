//! The host as the control service sees it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agg_control::{
    AbortReason, AdmitError, Capabilities, DataPlane, HostKind, JobSpec, MemberLag, ShardCounters, Uplink,
    attached_name,
};
use agg_core::pool::slot_memory;
use agg_core::slot::Head;
use agg_core::{Counter, Epoch, JobConfig, Lanes};
use agg_host::{
    Names, Watched, job_config, member_endpoints, name as name_of, parent_endpoint, reachable,
    shard_counters, uplink, worst_lags,
};

use crate::queues::spread;
use crate::shard::{Route, Shard, State};
use crate::store::{JobStore, Store};

/// Chunks of slot memory that a job with a store has at least.
const MIN_FRAMES: u64 = 64;

/// The counter of packets that were not sent to members attached by shared memory: full, or gone.
const RINGS_FULL: &str = "ring_unsent";

/// The shards of one host.
pub(crate) struct Plane {
    pub(crate) shards: Vec<Shard>,
    pub(crate) epoch: Epoch,
    pub(crate) memory_per_shard: u64,
    /// Deeper memory of each shard, in bytes.
    pub(crate) store_per_shard: u64,
    pub(crate) base_port: u16,
    /// The name of the door for shared memory; empty: there is none.
    pub(crate) shared_memory: String,
    /// The host stops: jobs that are ended now stay, so that their ranks can be told.
    pub(crate) closing: AtomicBool,
}

impl Plane {
    /// Takes a job off every shard.
    fn forget(&self, key: u64) {
        for shard in &self.shards {
            shard.lock().remove(key);
            if let Some(lender) = shard.lender() {
                lender.end(key);
            }
        }
    }

    fn admit_to(&self, job: &JobSpec, stream: usize) -> Result<(), AdmitError> {
        let mut config = job_config(job, stream)?;
        let mut state = self.shards[stream].lock();
        let replaces = state.routes.contains_key(&job.key);
        let mut store = None;
        if replaces {
            // As it was: the window is the same.
            config.frames = state.aggregator.frames(job.key);
        } else {
            store = self.spill(&mut config, &state, self.shards[stream].lender().is_some())?;
        }
        state.aggregator.admit(&config).map_err(agg_host::refused)?;
        if replaces {
            // Only now: what is not replaced stays whole.
            store = state.routes.remove(&job.key).and_then(|route| route.store);
        }
        let members = member_endpoints(job, stream);
        let (attached, members): (Vec<_>, Vec<_>) = members
            .into_iter()
            .partition(|member| attached_name(member).is_some());
        let route = Route {
            members,
            attached: attached.iter().filter_map(attached_name).collect(),
            parent: parent_endpoint(job, stream),
            weight: job.weight,
            names: Arc::new(Names::of(job)),
            store,
        };
        state.insert(job.key, route, self.shards[stream].port.queues().len());
        Ok(())
    }

    /// Refuses a job whose members say to be attached to the shard of `stream`, and are not, or for another job.
    fn attached(&self, job: &JobSpec, stream: usize) -> Result<(), AdmitError> {
        let state = self.shards[stream].lock();
        for member in &job.members {
            let name = member.endpoints.get(stream).and_then(attached_name);
            if name.is_some_and(|name| !state.rings.can_be_of(name, job.key)) {
                return Err(AdmitError::Other(format!(
                    "{} is not attached by shared memory here, or not any more: did its process end? Start it again",
                    name_of(&member.ranks)
                )));
            }
        }
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

impl Watched for Plane {
    fn jobs(&self) -> Vec<(u64, Arc<Names>)> {
        let Some(shard) = self.shards.first() else {
            return Vec::new();
        };
        let state = shard.lock();
        let jobs = state.routes.iter();
        jobs.map(|(key, route)| (*key, Arc::clone(&route.names)))
            .collect()
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
            // The kernel empties it into the sockets' buffers.
            receive_ring: 0,
            answers_probes: true,
            shared_memory: self.shared_memory.clone(),
        }
    }

    fn admit(&self, job: &JobSpec) -> Result<(), AdmitError> {
        let streams = usize::from(job.streams).min(self.shards.len());
        let replaces = self.shards[0].lock().routes.contains_key(&job.key);
        for stream in 0..streams {
            reachable(job, stream, self.shards[stream].port.local_addr())?;
            self.attached(job, stream)?;
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
        let jobs = self.jobs();
        let names = jobs.iter().find(|(job, _)| *job == key);
        let abort = agg_host::abort(reason, names.map(|(_, names)| &**names));
        for shard in &self.shards {
            shard.lock().aggregator.abort(key, abort);
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
        let shards = self.shards.iter().enumerate();
        shards
            .map(|(number, shard)| {
                let state = shard.lock();
                let mut counters = shard_counters(number as u16, state.aggregator.counters());
                let bad_length = Counter::DroppedLength.name();
                if let Some((_, count)) = counters.values.iter_mut().find(|(name, _)| name == bad_length) {
                    *count += state.too_long();
                }
                counters
                    .values
                    .push((RINGS_FULL.to_owned(), state.rings.dropped()));
                counters
            })
            .collect()
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
        let lags = |shard: &Shard| shard.lock().aggregator.lags(key, shard.now());
        worst_lags(self.shards.iter().map(lags))
    }

    fn probe(&self, parent: &Capabilities, data: SocketAddr) -> Option<u32> {
        agg_host::probe(parent, data)
    }

    fn local_endpoints(&self, parent_data: SocketAddr) -> Result<Uplink, String> {
        uplink(
            parent_data,
            self.shards.iter().map(|shard| shard.port.local_addr()),
        )
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

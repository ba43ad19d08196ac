//! The host as the control service sees it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use agg_control::{
    AbortKind, AbortReason, AdmitError, Capabilities, DataPlane, HostKind, JobSpec, ShardCounters,
};
use agg_core::wire::{NO_MEMBER, packet_len};
use agg_core::{Abort, AbortCause, Endpoint, Epoch, JobConfig, Lanes, Member, MemberSet, pool};

use udp_io::path_payload;

use crate::shard::Shard;

/// The shards of one host, and what of their memory is taken.
pub(crate) struct Plane {
    pub(crate) shards: Vec<Shard>,
    pub(crate) epoch: Epoch,
    pub(crate) memory_per_shard: u64,
    pub(crate) base_port: u16,
    /// The host stops: jobs that are ended now stay, so that their ranks can be told.
    pub(crate) closing: AtomicBool,
    /// Bytes taken on each shard, by job.
    pub(crate) taken: Mutex<Vec<(u64, u16, u64)>>,
}

impl Plane {
    /// Whether a job holds slots.
    pub(crate) fn has_jobs(&self) -> bool {
        !self
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    fn job_config(job: &JobSpec, stream: usize) -> Result<JobConfig, AdmitError> {
        let lanes = Lanes::from_count(job.lanes)
            .ok_or_else(|| AdmitError::Other(format!("{} lanes is no chunk size of this host", job.lanes)))?;
        let members = job.members.iter().enumerate().map(|(rank, endpoints)| {
            let source = endpoints.get(stream).copied()?;
            Some(Member {
                source: Endpoint::from(source),
                set: MemberSet::single(rank as u8),
                workers: 1,
            })
        });
        let members: Option<Vec<Member>> = members.collect();
        let members = members.and_then(|members| members.as_slice().try_into().ok());
        let members = members.ok_or_else(|| {
            AdmitError::Other(format!(
                "{} ranks with an address a stream do not fit",
                job.members.len()
            ))
        })?;
        Ok(JobConfig {
            key: job.key,
            members,
            lanes,
            window: job.window,
        })
    }

    /// Takes a job off every shard.
    fn forget(&self, key: u64) {
        for shard in &self.shards {
            let mut state = shard.lock();
            state.aggregator.release(key);
            state.addresses.remove(&key);
        }
    }

    /// Refuses a job whose ranks cannot be reached: from sockets of another address family, or with packets that do
    /// not fit the path from here. The ranks have looked at their own side of it.
    fn reachable(&self, job: &JobSpec, stream: usize) -> Result<(), AdmitError> {
        let local = self.shards[stream].port.local_addr();
        let needed = packet_len(usize::from(job.lanes));
        for (rank, endpoint) in job
            .members
            .iter()
            .enumerate()
            .filter_map(|(r, e)| Some((r, *e.get(stream)?)))
        {
            if endpoint.is_ipv4() != local.is_ipv4() {
                return Err(AdmitError::Other(format!(
                    "rank {rank} is at {endpoint}, but packets are received on {local}: give an aggregator address of \
                     the same family"
                )));
            }
            match path_payload(endpoint) {
                Ok(carried) if carried < needed => {
                    return Err(AdmitError::Other(format!(
                        "chunks of {} lanes need datagrams of {needed} bytes, the way to rank {rank} at {endpoint} carries \
                         {carried}: request fewer lanes, or raise the MTU of the aggregator's interface",
                        job.lanes
                    )));
                }
                Ok(_) => {}
                Err(error) => {
                    return Err(AdmitError::Other(format!(
                        "there is no way to rank {rank} at {endpoint}: {error}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn admit_to(&self, job: &JobSpec, stream: usize) -> Result<(), AdmitError> {
        let config = Self::job_config(job, stream)?;
        self.reachable(job, stream)?;
        let mut state = self.shards[stream].lock();
        state.aggregator.admit(&config).map_err(|error| match error {
            agg_core::AdmitError::Memory { needed, free } => AdmitError::OutOfMemory { needed, free },
            agg_core::AdmitError::Jobs(limit) => AdmitError::TooManyJobs { limit },
            other => AdmitError::Other(format!("the job cannot run here: {other:?}")),
        })?;
        let addresses = job
            .members
            .iter()
            .filter_map(|endpoints| endpoints.get(stream))
            .copied()
            .collect();
        state.addresses.insert(job.key, addresses);
        Ok(())
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
        for stream in 0..streams {
            if let Err(error) = self.admit_to(job, stream) {
                self.forget(job.key);
                return Err(error);
            }
        }
        let bytes = pool::slot_memory(u64::from(job.window), u64::from(job.lanes));
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.push((job.key, job.streams, bytes));
        tracing::info!(
            world = job.name,
            ranks = job.members.len(),
            lanes = job.lanes,
            window = job.window,
            "admitted"
        );
        Ok(())
    }

    fn abort(&self, key: u64, reason: &AbortReason) {
        let cause = match reason.kind {
            AbortKind::Lost => AbortCause::LostMember,
            AbortKind::Reported => AbortCause::MemberFailed,
            AbortKind::Shutdown => AbortCause::Ended,
        };
        let member = reason
            .rank
            .and_then(|rank| u8::try_from(rank).ok())
            .unwrap_or(NO_MEMBER);
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
        self.taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(taken, _, _)| *taken != key);
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
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let used = |shard: u16| -> u64 {
            taken
                .iter()
                .filter(|(_, streams, _)| shard < *streams)
                .map(|(_, _, bytes)| bytes)
                .sum()
        };
        let fullest = (0..self.shards.len() as u16).map(used).max().unwrap_or(0);
        self.memory_per_shard.saturating_sub(fullest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The control service sizes jobs without knowing the core.
    #[test]
    fn both_sides_count_slot_memory_alike() {
        for (lanes, window) in [(256, 2), (352, 256), (8192, 16)] {
            assert_eq!(
                agg_control::slot_memory(lanes, window),
                pool::slot_memory(u64::from(window), u64::from(lanes))
            );
        }
    }
}

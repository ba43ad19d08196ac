//! The host as the control service sees it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agg_control::{
    AbortReason, AdmitError, Capabilities, DataPlane, HostKind, JobSpec, MemberLag, ShardCounters, Uplink,
};
use agg_core::wire::packet_len;
use agg_core::{Epoch, Lanes};
use agg_host::frame::Framing;
use agg_host::{Names, Watched, job_config, member_endpoints, name, parent_endpoint, shard_counters};

use crate::lcore::About;
use crate::{Route, Shard};

/// The one shard's number.
const SHARD: u16 = 0;

/// The jobs of a shard.
pub(crate) struct Plane {
    pub(crate) shard: Arc<Shard>,
    pub(crate) epoch: Epoch,
    pub(crate) local: SocketAddr,
    pub(crate) framing: Framing,
    pub(crate) about: About,
    pub(crate) memory: u64,
    pub(crate) names: Mutex<HashMap<u64, Arc<Names>>>,
    /// The host stops: jobs that are ended now stay, so that their ranks can be told.
    pub(crate) closing: AtomicBool,
}

impl Plane {
    fn names(&self) -> MutexGuard<'_, HashMap<u64, Arc<Names>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the largest packet.
    fn payload(&self) -> usize {
        usize::from(self.about.mtu).saturating_sub(self.framing.in_mtu())
    }

    /// Where a job's packets go. Who cannot be reached is refused, with what to do.
    fn route(&self, job: &JobSpec) -> Result<Route, AdmitError> {
        let network = *self.shard.lock().neighbours.network();
        let reach = |who: &str, end: SocketAddr| {
            if end.is_ipv4() != self.local.is_ipv4() {
                return Err(AdmitError::Other(format!(
                    "{who} is at {end}, but packets are received on {}: register from an address of the same family",
                    self.local
                )));
            }
            if network.next_hop(end.ip()).is_none() {
                return Err(AdmitError::Other(format!(
                    "{who} is at {end}, which is not in {}/{}: start the aggregator with --gateway, or another --prefix",
                    network.address, network.prefix
                )));
            }
            Ok(end)
        };
        let members = job.members.iter().zip(member_endpoints(job, SHARD.into()));
        let parent = parent_endpoint(job, SHARD.into());
        Ok(Route {
            members: members
                .map(|(member, end)| reach(&name(&member.ranks), end))
                .collect::<Result<_, _>>()?,
            parent: parent.map(|end| reach("the parent", end)).transpose()?,
        })
    }
}

impl Watched for Plane {
    fn jobs(&self) -> Vec<(u64, Arc<Names>)> {
        let names = self.names();
        names
            .iter()
            .map(|(key, names)| (*key, Arc::clone(names)))
            .collect()
    }
}

impl DataPlane for Plane {
    fn describe(&self) -> Capabilities {
        let fits = |lanes: &&Lanes| packet_len(lanes.count()) <= self.payload();
        // The smallest size is for tests: nobody should negotiate it by accident.
        let lanes = Lanes::ALL
            .iter()
            .filter(|lanes| **lanes != Lanes::L16)
            .filter(fits);
        Capabilities {
            kind: HostKind::Dpdk,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: self.epoch.0,
            data_ip: Some(self.local.ip()),
            base_port: self.local.port(),
            shards: 1,
            lanes: lanes.map(|lanes| *lanes as u16).collect(),
            memory_per_shard: self.memory,
            // No socket holds packets: they wait in the port's ring.
            receive_buffer: 0,
            receive_ring: self.about.ring.into(),
        }
    }

    fn admit(&self, job: &JobSpec) -> Result<(), AdmitError> {
        let config = job_config(job, SHARD.into())?;
        let needed = packet_len(config.lanes.count());
        if needed > self.payload() {
            return Err(AdmitError::Other(format!(
                "chunks of {} lanes need datagrams of {needed} bytes, port {} carries {}: request fewer lanes, or raise \
                 mtu and mbuf_room",
                job.lanes,
                self.about.name,
                self.payload()
            )));
        }
        let route = self.route(job)?;
        let mut state = self.shard.lock();
        state.aggregator.admit(&config).map_err(agg_host::refused)?;
        state.set_route(job.key, route);
        drop(state);
        self.names().insert(job.key, Arc::new(Names::of(job)));
        Ok(())
    }

    fn suspend(&self, key: u64) {
        self.shard.lock().aggregator.suspend(key);
    }

    fn exclude(&self, key: u64, member: u8) {
        self.shard.lock().aggregator.exclude(key, member);
    }

    fn abort(&self, key: u64, reason: &AbortReason) {
        let names = self.names().get(&key).map(Arc::clone);
        let abort = agg_host::abort(reason, names.as_deref());
        self.shard.lock().aggregator.abort(key, abort);
        tracing::warn!(%reason, "aborted a job");
    }

    fn release(&self, key: u64) {
        if self.closing.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.shard.lock();
        state.aggregator.release(key);
        state.remove_route(key);
        drop(state);
        self.names().remove(&key);
    }

    fn counters(&self) -> Vec<ShardCounters> {
        let state = self.shard.lock();
        let mut counters = shard_counters(SHARD, state.aggregator.counters());
        let frames = state.frames.iter();
        counters
            .values
            .extend(frames.map(|(counter, value)| (counter.name().to_owned(), value)));
        vec![counters]
    }

    fn free_memory(&self) -> u64 {
        self.shard.lock().aggregator.largest_free()
    }

    fn lags(&self, key: u64) -> Vec<MemberLag> {
        let now = self.shard.now();
        let lags = self.shard.lock().aggregator.lags(key, now);
        let lags = lags.into_iter().map(|lag| MemberLag {
            chunks: lag.chunks,
            waiting: Duration::from_nanos(lag.waiting),
        });
        lags.collect()
    }

    fn local_endpoints(&self, parent_data: SocketAddr) -> Result<Uplink, String> {
        let network = *self.shard.lock().neighbours.network();
        if network.next_hop(parent_data.ip()).is_none() {
            return Err(format!(
                "there is no way to the parent's data address {parent_data} from {}: start the aggregator with --gateway, \
                 and at an address of the same family",
                self.local
            ));
        }
        Ok(Uplink {
            endpoints: vec![self.local],
            max_datagram: self.payload() as u32,
        })
    }
}

#[cfg(test)]
mod tests;

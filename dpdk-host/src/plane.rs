//! The host as the control service sees it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agg_control::{
    AbortReason, AdmitError, Capabilities, DataPlane, HostKind, JobSpec, MemberLag, ShardCounters, Uplink,
};
use agg_core::wire::packet_len;
use agg_core::{Epoch, Lanes};
use agg_host::frame::Framing;
use agg_host::{
    Names, Watched, carried_bytes, job_config, member_endpoints, name, parent_endpoint, worst_lags,
};

use crate::lcore::{About, address};
use crate::trial;
use crate::{Network, Route, Shard};

/// The shards of one host.
pub(crate) struct Plane {
    pub(crate) shards: Vec<Arc<Shard>>,
    pub(crate) epoch: Epoch,
    pub(crate) local: SocketAddr,
    pub(crate) framing: Framing,
    pub(crate) ports: Vec<About>,
    /// Slot memory of each shard, in bytes.
    pub(crate) memory: u64,
    pub(crate) names: Mutex<HashMap<u64, Arc<Names>>>,
    /// Held while the way to a parent is looked at.
    pub(crate) trying: Mutex<()>,
    /// The host stops: jobs that are ended now stay, so that their ranks can be told.
    pub(crate) closing: AtomicBool,
}

impl Plane {
    fn names(&self) -> MutexGuard<'_, HashMap<u64, Arc<Names>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port that carries the least.
    fn narrowest(&self) -> &About {
        let least = self.ports.iter().min_by_key(|port| port.mtu);
        least.expect("a host has a port")
    }

    /// Bytes of the largest packet.
    fn payload(&self) -> usize {
        usize::from(self.narrowest().mtu).saturating_sub(self.framing.in_mtu())
    }

    /// Frames that the ports hold for a shard. Where one cannot steer, the frames of all shards may wait in one queue.
    fn receive_ring(&self) -> u16 {
        let shards = self.shards.len() as u16;
        let ring = |port: &About| {
            if port.is_steered {
                port.ring
            } else {
                port.ring / shards
            }
        };
        self.ports.iter().map(ring).min().unwrap_or(0)
    }

    fn network(&self) -> Network {
        *self.shards[0].lock().neighbours.network()
    }

    /// Where the packets of a job's stream go. Who cannot be reached is refused, with what to do.
    fn route(&self, job: &JobSpec, stream: usize) -> Result<Route, AdmitError> {
        let network = self.network();
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
        let members = job.members.iter().zip(member_endpoints(job, stream));
        let parent = parent_endpoint(job, stream);
        Ok(Route {
            members: members
                .map(|(member, end)| reach(&name(&member.ranks), end))
                .collect::<Result<_, _>>()?,
            parent: parent.map(|end| reach("the parent", end)).transpose()?,
        })
    }

    fn admit_to(&self, job: &JobSpec, stream: usize, route: Route) -> Result<(), AdmitError> {
        let config = job_config(job, stream)?;
        let mut state = self.shards[stream].lock();
        state.aggregator.admit(&config).map_err(agg_host::refused)?;
        state.set_route(job.key, route);
        Ok(())
    }

    /// Takes a job off every shard.
    fn forget(&self, key: u64) {
        for shard in &self.shards {
            let mut state = shard.lock();
            state.aggregator.release(key);
            state.remove_route(key);
        }
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
            shards: self.shards.len() as u16,
            lanes: lanes.map(|lanes| *lanes as u16).collect(),
            memory_per_shard: self.memory,
            // No socket holds packets: they wait in the ports' rings.
            receive_buffer: 0,
            receive_ring: self.receive_ring().into(),
            answers_probes: true,
            shared_memory: String::new(),
        }
    }

    fn admit(&self, job: &JobSpec) -> Result<(), AdmitError> {
        let streams = usize::from(job.streams).min(self.shards.len());
        let needed = packet_len(usize::from(job.lanes));
        if needed > self.payload() {
            return Err(AdmitError::Other(format!(
                "chunks of {} lanes need datagrams of {needed} bytes, port {} carries {}: request fewer lanes, or raise \
                 mtu and mbuf_room",
                job.lanes,
                self.narrowest().name,
                self.payload()
            )));
        }
        let routes: Vec<Route> = (0..streams)
            .map(|stream| self.route(job, stream))
            .collect::<Result<_, _>>()?;
        let replaces = self.names().contains_key(&job.key);
        for (stream, route) in routes.into_iter().enumerate() {
            if let Err(error) = self.admit_to(job, stream, route) {
                // What is replaced has the same size, so that it fits wherever the first shard's did.
                if !replaces {
                    self.forget(job.key);
                }
                return Err(error);
            }
        }
        self.names().insert(job.key, Arc::new(Names::of(job)));
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
        let names = self.names().get(&key).map(Arc::clone);
        let abort = agg_host::abort(reason, names.as_deref());
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
        self.names().remove(&key);
    }

    fn counters(&self) -> Vec<ShardCounters> {
        let shards = self.shards.iter().zip(0..);
        shards.map(|(shard, number)| shard.counters(number)).collect()
    }

    fn free_memory(&self) -> u64 {
        let free = |shard: &Arc<Shard>| shard.lock().aggregator.largest_free();
        self.shards.iter().map(free).min().unwrap_or(0)
    }

    fn lags(&self, key: u64) -> Vec<MemberLag> {
        let lags = |shard: &Arc<Shard>| shard.lock().aggregator.lags(key, shard.now());
        worst_lags(self.shards.iter().map(lags))
    }

    fn probe(&self, parent: &Capabilities, data: SocketAddr) -> Option<u32> {
        if !parent.answers_probes || self.network().next_hop(data.ip()).is_none() {
            return None;
        }
        let _trying = self.trying.lock().unwrap_or_else(PoisonError::into_inner);
        let largest = trial::largest(&self.shards[0], parent, data, self.payload());
        carried_bytes(largest, data)
    }

    fn local_endpoints(&self, parent_data: SocketAddr) -> Result<Uplink, String> {
        if self.network().next_hop(parent_data.ip()).is_none() {
            return Err(format!(
                "there is no way to the parent's data address {parent_data} from {}: start the aggregator with --gateway, \
                 and at an address of the same family",
                self.local
            ));
        }
        let shards = 0..self.shards.len() as u16;
        Ok(Uplink {
            endpoints: shards.map(|shard| address(self.local, shard)).collect(),
            max_datagram: self.payload() as u32,
        })
    }
}

#[cfg(test)]
mod tests;

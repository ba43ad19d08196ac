//! A rank's place in its job: at which aggregator, with which number, among whom.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agg_control::{ControlClient, Registered};
use agg_core::Epoch;
use agg_core::worker::{Boundary, Membership};

use crate::arrival::Arrival;
use crate::names::Members;
use crate::rings::Rings;
use crate::transport::Ports;

/// A rank's place in its job. It never changes: a rank that moves gets another one.
pub(crate) struct Place {
    /// How many places this rank had before.
    pub(crate) generation: u64,
    /// Which of the configured aggregators it is.
    pub(crate) index: usize,
    pub(crate) control: ControlClient,
    /// The aggregator process's epoch: another one is another process.
    pub(crate) host_epoch: u32,
    /// Where its shard 0 receives.
    pub(crate) data_addr: SocketAddr,
    /// It is not bound to one address: it may answer from another than it was sent to.
    pub(crate) has_many_addresses: bool,
    pub(crate) ports: Arc<dyn Ports>,
    /// The same, if they are shared memory.
    pub(crate) rings: Option<Arc<Rings>>,
    pub(crate) membership: Membership,
    pub(crate) members: Members,
    pub(crate) boundary: Option<agg_control::Boundary>,
    pub(crate) heartbeat: Duration,
}

impl Place {
    pub(crate) fn new(generation: u64, index: usize, arrival: Arrival, registered: Registered) -> Self {
        Self {
            generation,
            index,
            control: arrival.control,
            host_epoch: arrival.host.epoch,
            data_addr: arrival.data_addr,
            has_many_addresses: arrival.host.data_ip.is_none(),
            ports: arrival.ports,
            rings: arrival.rings,
            membership: Membership {
                epoch: Epoch(registered.epoch),
                member: registered.member,
                members: registered.members.len() as u8, // at most 64
                workers: registered.workers,
            },
            members: Members(registered.members),
            boundary: registered.boundary,
            heartbeat: registered.heartbeat,
        }
    }

    /// Where the shard of a stream receives.
    pub(crate) fn shard(&self, stream: usize) -> SocketAddr {
        SocketAddr::new(
            self.data_addr.ip(),
            self.data_addr.port().wrapping_add(stream as u16),
        )
    }

    /// Where the stream goes on, if ranks were lost.
    pub(crate) fn boundary_on(&self, stream: usize) -> Option<Boundary> {
        let boundary = self.boundary.as_ref()?;
        Some(Boundary {
            operation: boundary.failed_operation,
            next_chunk: *boundary.next_chunks.get(stream)?,
        })
    }
}

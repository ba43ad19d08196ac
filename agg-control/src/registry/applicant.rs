//! A registration that makes sense by itself.

use std::net::SocketAddr;

use crate::messages::{OnLost, Policy, Resume};

/// A worker or a child aggregator whose registration makes sense by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Applicant {
    pub(super) size: u32,
    /// At least one, ascending.
    pub(super) ranks: Vec<u32>,
    pub(super) child: bool,
    pub(super) nonce: u64,
    /// In canonical form: what the data plane will see as a packet's source.
    pub(super) endpoints: Vec<SocketAddr>,
    pub(super) max_datagram: u32,
    pub(super) receive_buffer: u64,
    pub(super) slot_memory: Option<u64>,
    pub(super) lanes: Option<u16>,
    pub(super) window: Option<u16>,
    pub(super) policy: Policy,
    pub(super) on_lost: OnLost,
    pub(super) weight: u16,
    pub(super) priority: u8,
    pub(super) resume: Option<Resume>,
}

impl Applicant {
    /// The lowest of its ranks, by which it is named.
    pub(super) fn rank(&self) -> u32 {
        self.ranks.first().copied().unwrap_or(0)
    }

    pub(super) fn overlaps(&self, other: &Applicant) -> bool {
        self.ranks
            .iter()
            .any(|rank| other.ranks.binary_search(rank).is_ok())
    }
}

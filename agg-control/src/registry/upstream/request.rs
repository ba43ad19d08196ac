//! The registration that stands for all ranks below.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::messages::{Registration, Resume};
use crate::plane::Uplink;
use crate::refusal::Refusal;
use crate::registry::Registry;
use crate::registry::reform::combined;
use crate::registry::world::World;
use crate::sizing::datagram_bytes;

impl Registry {
    /// The registration to send, if the world still waits in this version. `parent_data` is where the parent's first
    /// shard receives.
    pub(crate) fn upstream_request(
        &mut self,
        name: &str,
        version: u64,
        parent_data: SocketAddr,
        now: Instant,
    ) -> Option<Registration> {
        let world = self.worlds.get(name)?;
        if world.upward.version != version || world.is_empty() {
            return None;
        }
        match self.plane.local_endpoints(parent_data) {
            Ok(uplink) => self.request(name, world, uplink, now),
            Err(message) => {
                let refusal = Refusal::ParentRefused {
                    parent: self.parent(),
                    message: format!("this aggregator's shards cannot reach it: {message}"),
                    missing: false,
                };
                self.refuse_world(name, &refusal);
                None
            }
        }
    }

    fn request(&self, name: &str, world: &World, uplink: Uplink, now: Instant) -> Option<Registration> {
        let common = world.common()?;
        let seats = || world.waiting_seats().map(|seat| &seat.applicant);
        let mut ranks: Vec<u32> = world
            .seats()
            .iter()
            .flat_map(|seat| seat.applicant.ranks.iter().copied())
            .collect();
        ranks.sort_unstable();
        let host = self.plane.describe();
        let largest = host.lanes.iter().copied().map(datagram_bytes).max().unwrap_or(0);
        let paths = seats().map(|seat| seat.max_datagram);
        let buffers = seats()
            .map(|seat| seat.receive_buffer)
            .chain([host.receive_buffer]);
        // The first to give up decides: the parent's answer then names who is missing.
        let deadline = world.waiting_seats().map(|seat| seat.deadline).min()?;
        let mut endpoints = uplink.endpoints;
        endpoints.truncate(common.endpoints.len());
        Some(Registration {
            world: name.into(),
            size: common.size,
            ranks,
            child: true,
            nonce: world.upward.nonce,
            endpoints,
            max_datagram: paths.fold(uplink.max_datagram.min(largest), u32::min),
            receive_buffer: buffers.filter(|bytes| *bytes > 0).min().unwrap_or(0),
            slot_memory: Some(self.slot_memory_for(name, world)),
            lanes: common.lanes.map(u32::from),
            window: common.window.map(u32::from),
            policy: common.policy,
            on_lost: common.on_lost,
            weight: common.weight,
            priority: common.priority,
            wait: round_up(deadline.saturating_duration_since(now)),
            resume: self.upstream_resume(world),
        })
    }

    /// A job that re-forms keeps its slots; a window that was asked for may take what is free.
    fn slot_memory_for(&self, name: &str, world: &World) -> u64 {
        let children = world
            .waiting_seats()
            .filter_map(|seat| seat.applicant.slot_memory);
        let free = children.fold(self.plane.free_memory(), u64::min);
        let reform = world.reform.as_ref().filter(|reform| reform.at_home);
        if let Some(job) = reform.and_then(|reform| self.jobs.get(&reform.key)) {
            return job.spec().memory_per_shard();
        }
        match world.common().and_then(|common| common.window) {
            Some(_) => free,
            None => free.min(self.share(name, world.weight())),
        }
    }

    /// What all ranks know together. The epoch is that of the parent where it is known: those of the ranks are epochs
    /// of this aggregator, or of another one that is gone.
    fn upstream_resume(&self, world: &World) -> Option<Resume> {
        let resume = combined(
            world
                .waiting_seats()
                .filter_map(|seat| seat.applicant.resume.as_ref()),
        )?;
        let epoch = match world.upward.epoch {
            0 => resume.epoch,
            epoch => epoch,
        };
        Some(Resume { epoch, ..resume })
    }
}

/// The parent's refusal shows it: 30 s, not 29.98 s.
fn round_up(wait: Duration) -> Duration {
    const STEP: u128 = 100;
    let steps = wait.as_millis().div_ceil(STEP).max(1);
    Duration::from_millis((steps * STEP) as u64) // bounded by `longest_wait`
}

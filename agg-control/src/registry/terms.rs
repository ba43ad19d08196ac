//! Settles the terms of a complete world: its chunk size, window and generations.

use super::world::World;
use crate::messages::{Policy, Resume};
use crate::negotiate::{NoRoom, Window, WindowLimits, choose_lanes};
use crate::plane::Capabilities;
use crate::refusal::Refusal;
use crate::sizing::{GENERATIONS, datagram_bytes, generations_within, slot_memory};

/// Chunk size, window and generations of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) lanes: u16,
    pub(super) window: Window,
    pub(super) generations: u16,
}

/// What the host has for a new job.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) host: Capabilities,
    /// Bytes per shard.
    pub(super) free_memory: u64,
    /// The part of the host's memory that the world may take unasked, by its weight; bytes per shard.
    pub(super) share: u64,
}

/// The terms for a complete world named `name`.
///
/// Unless requested, the chunk size is the largest that every rank's path carries and whose window fits the memory
/// and, if the window is chosen as well, the socket buffers: large chunks that are often dropped would be slower.
pub(super) fn settle(name: &str, world: &World, offer: &Offer) -> Result<Terms, Refusal> {
    let asked = world.common().map(|common| (common.lanes, common.window));
    let (asked_lanes, asked_window) = asked.unwrap_or((None, None));
    if let Some(lanes) = asked_lanes {
        return match limits(world, offer, lanes).window(asked_window) {
            Ok(window) => Ok(with_history(world, offer, lanes, window)),
            Err(no_room) => Err(does_not_fit(name, world, offer, lanes, no_room, true)),
        };
    }
    let mut lanes = largest_carried(world, offer)?;
    loop {
        let window = limits(world, offer, lanes).window(asked_window);
        let smaller = choose_lanes(&offer.host.lanes, datagram_bytes(lanes) - 1);
        match (window, smaller) {
            (Ok(window), _) if window.fits_buffers || asked_window.is_some() => {
                return Ok(with_history(world, offer, lanes, window));
            }
            (_, Some(smaller)) => lanes = smaller,
            (Ok(window), None) => return Ok(with_history(world, offer, lanes, window)),
            (Err(no_room), None) => {
                let requested = asked_window.is_some();
                return Err(does_not_fit(name, world, offer, lanes, no_room, requested));
            }
        }
    }
}

/// Under a quorum the first members may run ahead of the last by as many rounds as the history has generations.
fn with_history(world: &World, offer: &Offer, lanes: u16, window: Window) -> Terms {
    let generations = match world.common().map(|common| common.policy) {
        Some(Policy::Quorum { history_bytes, .. }) => {
            let most = history_bytes.min(offer.share).min(offer.free_memory);
            generations_within(most, lanes, window.chunks)
        }
        _ => GENERATIONS,
    };
    Terms {
        lanes,
        window,
        generations,
    }
}

fn largest_carried(world: &World, offer: &Offer) -> Result<u16, Refusal> {
    let narrowest = world
        .waiting_seats()
        .map(|seat| &seat.applicant)
        .min_by_key(|applicant| applicant.max_datagram);
    let (rank, max_datagram) =
        narrowest.map_or((0, 0), |applicant| (applicant.rank(), applicant.max_datagram));
    choose_lanes(&offer.host.lanes, max_datagram).ok_or_else(|| {
        let lanes = offer.host.lanes.iter().copied().min().unwrap_or(0);
        Refusal::DatagramTooSmall {
            rank,
            max_datagram,
            lanes,
            needed: datagram_bytes(lanes),
            requested: false,
        }
    })
}

fn limits(world: &World, offer: &Offer, lanes: u16) -> WindowLimits {
    let buffers = world.waiting_seats().map(|seat| seat.applicant.receive_buffer);
    let children = least_child(world).map_or(u64::MAX, |(_, bytes)| bytes);
    WindowLimits {
        ranks: world.seats().len() as u32,
        lanes,
        host_receive_buffer: offer.host.receive_buffer,
        host_receive_ring: offer.host.receive_ring,
        rank_receive_buffer: buffers.filter(|bytes| *bytes > 0).min().unwrap_or(0),
        free_memory: offer.free_memory.min(children),
        share: offer.share.min(children),
    }
}

/// The child aggregator with the least memory: its lowest rank, and the bytes per shard.
fn least_child(world: &World) -> Option<(u32, u64)> {
    let children = world.waiting_seats().map(|seat| &seat.applicant);
    let memory = children.filter_map(|child| Some((child.rank(), child.slot_memory?)));
    memory.min_by_key(|(_, bytes)| *bytes)
}

fn does_not_fit(
    name: &str,
    world: &World,
    offer: &Offer,
    lanes: u16,
    no_room: NoRoom,
    requested: bool,
) -> Refusal {
    let child = least_child(world).filter(|(_, bytes)| *bytes < offer.free_memory);
    Refusal::DoesNotFit {
        world: name.into(),
        needed: no_room.needed,
        free: child.map_or(offer.free_memory, |(_, bytes)| bytes),
        lanes,
        window: no_room.window,
        requested,
        child: child.map(|(rank, _)| rank),
    }
}

/// A resumed job keeps its terms: it fits as it is or not at all.
pub(super) fn keep(name: &str, resume: &Resume, free: u64) -> Result<(), Refusal> {
    let needed = slot_memory(resume.lanes, resume.window, resume.generations);
    if needed <= free {
        return Ok(());
    }
    Err(Refusal::DoesNotFit {
        world: name.into(),
        needed,
        free,
        lanes: resume.lanes,
        window: resume.window,
        requested: false,
        child: None,
    })
}

//! Settles the terms of a complete world: its chunk size and window.

use super::world::World;
use crate::negotiate::{NoRoom, Window, WindowLimits, choose_lanes};
use crate::plane::Capabilities;
use crate::refusal::Refusal;
use crate::sizing::datagram_bytes;

/// Chunk size and window of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) lanes: u16,
    pub(super) window: Window,
}

/// What the host has for a new job.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) host: Capabilities,
    /// Bytes per shard.
    pub(super) free_memory: u64,
    /// Worlds that are registering, the one in question included.
    pub(super) sharers: u64,
}

/// The terms for a complete world named `name`.
///
/// Unless requested, the chunk size is the largest that every rank's path carries and whose window fits the memory
/// and, if the window is chosen as well, the socket buffers: large chunks that are often dropped would be slower.
pub(super) fn settle(name: &str, world: &World, offer: &Offer) -> Result<Terms, Refusal> {
    let asked = world
        .seats()
        .map(|seat| (seat.applicant.lanes, seat.applicant.window))
        .next();
    let (asked_lanes, asked_window) = asked.unwrap_or((None, None));
    if let Some(lanes) = asked_lanes {
        return match limits(world, offer, lanes).window(asked_window) {
            Ok(window) => Ok(Terms { lanes, window }),
            Err(no_room) => Err(does_not_fit(name, offer, lanes, no_room, true)),
        };
    }
    let mut lanes = largest_carried(world, offer)?;
    loop {
        let window = limits(world, offer, lanes).window(asked_window);
        let smaller = choose_lanes(&offer.host.lanes, datagram_bytes(lanes) - 1);
        match (window, smaller) {
            (Ok(window), _) if window.fits_buffers || asked_window.is_some() => {
                return Ok(Terms { lanes, window });
            }
            (_, Some(smaller)) => lanes = smaller,
            (Ok(window), None) => return Ok(Terms { lanes, window }),
            (Err(no_room), None) => {
                return Err(does_not_fit(name, offer, lanes, no_room, asked_window.is_some()));
            }
        }
    }
}

fn largest_carried(world: &World, offer: &Offer) -> Result<u16, Refusal> {
    let narrowest = world
        .seats()
        .map(|seat| &seat.applicant)
        .min_by_key(|applicant| applicant.max_datagram);
    let (rank, max_datagram) = narrowest.map_or((0, 0), |applicant| (applicant.rank, applicant.max_datagram));
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
    let buffers = world.seats().map(|seat| seat.applicant.receive_buffer);
    WindowLimits {
        ranks: world.seats().len() as u32,
        lanes,
        host_receive_buffer: offer.host.receive_buffer,
        rank_receive_buffer: buffers.filter(|bytes| *bytes > 0).min().unwrap_or(0),
        free_memory: offer.free_memory,
        sharers: offer.sharers,
    }
}

fn does_not_fit(name: &str, offer: &Offer, lanes: u16, no_room: NoRoom, requested: bool) -> Refusal {
    let (world, free) = (name.into(), offer.free_memory);
    Refusal::DoesNotFit {
        world,
        needed: no_room.needed,
        free,
        lanes,
        window: no_room.window,
        requested,
    }
}

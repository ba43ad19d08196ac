//! What can be said about one registration without looking at the others.

mod endpoints;
mod resume;

use std::net::IpAddr;

use self::endpoints::check_endpoints;
use self::resume::check_resume;
use super::applicant::Applicant;
use crate::messages::{Policy, Registration};
use crate::negotiate::round_window;
use crate::plane::{AdmitError, Capabilities};
use crate::refusal::{HEAVIEST, LONGEST_NAME, MOST_RANKS, Refusal};
use crate::sizing::datagram_bytes;

/// What the check knows of this aggregator and of the call.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) host: &'a Capabilities,
    /// The address the registration came from, `None` if any data address is allowed.
    pub(super) peer: Option<IpAddr>,
    /// This aggregator has a parent.
    pub(super) is_child: bool,
}

pub(super) fn check(request: &Registration, context: &Context<'_>) -> Result<Applicant, Refusal> {
    check_name(&request.world)?;
    check_ranks(request)?;
    check_policy(request, context.is_child)?;
    let lanes = check_lanes(request, context.host)?;
    let window = match request.window {
        Some(window) => {
            Some(round_window(window).map_err(|largest| Refusal::WindowTooLarge { window, largest })?)
        }
        None => None,
    };
    let endpoints = check_endpoints(request, context)?;
    check_resume(request, context.host)?;
    Ok(Applicant {
        size: request.size,
        ranks: request.ranks.clone(),
        child: request.child,
        nonce: request.nonce,
        endpoints,
        max_datagram: request.max_datagram,
        receive_buffer: request.receive_buffer,
        slot_memory: request.slot_memory,
        lanes,
        window,
        policy: request.policy,
        on_lost: request.on_lost,
        weight: request.weight,
        priority: request.priority,
        resume: request.resume.clone(),
    })
}

fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::NameEmpty);
    }
    if name.len() > LONGEST_NAME {
        return Err(Refusal::NameTooLong { bytes: name.len() });
    }
    if name.chars().any(char::is_control) {
        return Err(Refusal::NameUnprintable { name: name.into() });
    }
    Ok(())
}

fn check_ranks(request: &Registration) -> Result<(), Refusal> {
    let (world, size) = (request.world.clone(), request.size);
    if size == 0 || size > MOST_RANKS {
        return Err(Refusal::SizeImpossible { world, size });
    }
    let ascending = request.ranks.is_sorted_by(|rank, next| rank < next);
    let expected = !request.ranks.is_empty() && (request.child || request.ranks.len() == 1);
    if !ascending || !expected {
        let (ranks, child) = (request.ranks.len(), request.child);
        return Err(Refusal::RanksImpossible { world, ranks, child });
    }
    if let Some(rank) = request.ranks.iter().copied().find(|rank| *rank >= size) {
        return Err(Refusal::RankOutOfRange { world, size, rank });
    }
    if request.nonce == 0 {
        return Err(Refusal::NonceMissing { rank: request.rank() });
    }
    Ok(())
}

fn check_policy(request: &Registration, is_child: bool) -> Result<(), Refusal> {
    let (rank, size) = (request.rank(), request.size);
    if !(1..=HEAVIEST).contains(&request.weight) {
        let weight = request.weight;
        return Err(Refusal::WeightImpossible { rank, weight });
    }
    let Policy::Quorum { members, .. } = request.policy else {
        return Ok(());
    };
    if members == 0 || u32::from(members) > size {
        return Err(Refusal::QuorumImpossible { rank, members, size });
    }
    if is_child || request.child {
        let world = request.world.clone();
        return Err(Refusal::QuorumInTree { world });
    }
    Ok(())
}

fn check_lanes(request: &Registration, host: &Capabilities) -> Result<Option<u16>, Refusal> {
    let requested = match request.lanes {
        None => None,
        Some(lanes) => match host
            .lanes
            .iter()
            .find(|supported| u32::from(**supported) == lanes)
        {
            Some(lanes) => Some(*lanes),
            None => {
                return Err(Refusal::LanesUnsupported {
                    lanes,
                    supported: host.lanes.clone(),
                });
            }
        },
    };
    let Some(least) = requested.or_else(|| host.lanes.iter().copied().min()) else {
        let error = AdmitError::Other("the host offers no chunk size: its configuration is broken".into());
        return Err(Refusal::NotAdmitted {
            world: request.world.clone(),
            error,
        });
    };
    if datagram_bytes(least) > request.max_datagram {
        return Err(Refusal::DatagramTooSmall {
            rank: request.rank(),
            max_datagram: request.max_datagram,
            lanes: least,
            needed: datagram_bytes(least),
            requested: requested.is_some(),
        });
    }
    Ok(requested)
}

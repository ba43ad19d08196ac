//! What can be said about one registration without looking at the others.

use std::net::{IpAddr, SocketAddr};

use crate::messages::Registration;
use crate::negotiate::round_window;
use crate::plane::{AdmitError, Capabilities};
use crate::refusal::{LONGEST_NAME, MOST_RANKS, Refusal};
use crate::sizing::datagram_bytes;

/// A rank whose registration makes sense by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Applicant {
    pub(super) size: u32,
    pub(super) rank: u32,
    pub(super) nonce: u64,
    /// In canonical form: what the data plane will see as a packet's source.
    pub(super) endpoints: Vec<SocketAddr>,
    pub(super) max_datagram: u32,
    pub(super) receive_buffer: u64,
    pub(super) lanes: Option<u16>,
    pub(super) window: Option<u16>,
}

/// `peer` is the address the registration came from, `None` if any data address is allowed.
pub(super) fn check(
    request: &Registration,
    host: &Capabilities,
    peer: Option<IpAddr>,
) -> Result<Applicant, Refusal> {
    check_name(&request.world)?;
    check_rank(request)?;
    let lanes = check_lanes(request, host)?;
    let window = match request.window {
        Some(window) => {
            Some(round_window(window).map_err(|largest| Refusal::WindowTooLarge { window, largest })?)
        }
        None => None,
    };
    Ok(Applicant {
        size: request.size,
        rank: request.rank(),
        nonce: request.nonce,
        endpoints: check_endpoints(request, host, peer)?,
        max_datagram: request.max_datagram,
        receive_buffer: request.receive_buffer,
        lanes,
        window,
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

fn check_rank(request: &Registration) -> Result<(), Refusal> {
    let (world, size, rank) = (request.world.clone(), request.size, request.rank());
    if size == 0 || size > MOST_RANKS {
        return Err(Refusal::SizeImpossible { world, size });
    }
    if rank >= size {
        return Err(Refusal::RankOutOfRange { world, size, rank });
    }
    if request.nonce == 0 {
        return Err(Refusal::NonceMissing { rank });
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

fn check_endpoints(
    request: &Registration,
    host: &Capabilities,
    peer: Option<IpAddr>,
) -> Result<Vec<SocketAddr>, Refusal> {
    let (rank, streams) = (request.rank(), request.endpoints.len());
    if streams == 0 || streams > usize::from(host.shards) {
        return Err(Refusal::StreamsImpossible {
            rank,
            streams,
            shards: host.shards,
        });
    }
    let mut endpoints: Vec<SocketAddr> = Vec::with_capacity(streams);
    for address in &request.endpoints {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        if !can_receive(address) {
            return Err(Refusal::AddressUnusable { rank, address });
        }
        if let Some(peer) = peer.map(|peer| peer.to_canonical())
            && peer != address.ip()
        {
            return Err(Refusal::AddressForeign { rank, address, peer });
        }
        if endpoints.contains(&address) {
            return Err(Refusal::AddressTaken {
                rank,
                address,
                other: rank,
            });
        }
        endpoints.push(address);
    }
    Ok(endpoints)
}

fn can_receive(address: SocketAddr) -> bool {
    let broadcast = matches!(address.ip(), IpAddr::V4(ip) if ip.is_broadcast());
    let one_host = !address.ip().is_unspecified() && !address.ip().is_multicast() && !broadcast;
    one_host && address.port() != 0
}

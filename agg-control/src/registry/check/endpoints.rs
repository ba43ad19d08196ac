//! The data addresses of a registration.

use std::net::{IpAddr, SocketAddr};

use super::Context;
use crate::attached::attached_name;
use crate::messages::Registration;
use crate::refusal::Refusal;

/// The addresses in canonical form.
pub(super) fn check_endpoints(
    request: &Registration,
    context: &Context<'_>,
) -> Result<Vec<SocketAddr>, Refusal> {
    let (rank, streams, shards) = (request.rank(), request.endpoints.len(), context.host.shards);
    if streams == 0 || streams > usize::from(shards) {
        return Err(Refusal::StreamsImpossible {
            rank,
            streams,
            shards,
        });
    }
    let mut endpoints: Vec<SocketAddr> = Vec::with_capacity(streams);
    for address in &request.endpoints {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let is_attached = attached_name(&address).is_some();
        if !can_receive(address) || (is_attached && context.host.shared_memory.is_empty()) {
            return Err(Refusal::AddressUnusable { rank, address });
        }
        // Whether a member is attached is known to the data plane.
        if !is_attached
            && let Some(peer) = context.peer.map(|peer| peer.to_canonical())
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

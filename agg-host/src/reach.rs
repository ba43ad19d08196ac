//! Whether a job's members and parent can be reached from here, and the parent this host.

use std::net::SocketAddr;

use agg_control::{AdmitError, JobSpec, Uplink, attached_name};
use agg_core::wire::packet_len;
use udp_io::{local_ip_towards, path_payload};

use crate::{name, parent_endpoint};

/// Refuses a job whose ranks cannot be reached from `local`, where the packets of `stream` are received: from an address
/// of another family, or with packets that do not fit the path from here. The ranks have looked at their own side of it.
/// Those that are attached by shared memory are the host's to look at.
///
/// # Errors
/// The first member, or the parent, that cannot be reached; what to do.
pub fn reachable(job: &JobSpec, stream: usize, local: SocketAddr) -> Result<(), AdmitError> {
    let needed = packet_len(usize::from(job.lanes));
    let members = job
        .members
        .iter()
        .map(|member| (name(&member.ranks), member.endpoints.get(stream).copied()));
    let parent = std::iter::once(("the parent".to_owned(), parent_endpoint(job, stream)));
    for (who, endpoint) in members
        .chain(parent)
        .filter_map(|(who, endpoint)| Some((who, endpoint?)))
        // No way of the network leads there.
        .filter(|(_, endpoint)| attached_name(endpoint).is_none())
    {
        if endpoint.is_ipv4() != local.is_ipv4() {
            return Err(AdmitError::Other(format!(
                "{who} is at {endpoint}, but packets are received on {local}: give an aggregator address of the \
                 same family"
            )));
        }
        match path_payload(endpoint) {
            Ok(carried) if carried < needed => {
                return Err(AdmitError::Other(format!(
                    "chunks of {} lanes need datagrams of {needed} bytes, the way to {who} at {endpoint} carries \
                     {carried}: request fewer lanes, or raise the MTU of the aggregator's interface",
                    job.lanes
                )));
            }
            Ok(_) => {}
            Err(error) => {
                return Err(AdmitError::Other(format!(
                    "there is no way to {who} at {endpoint}: {error}"
                )));
            }
        }
    }
    Ok(())
}

/// How an aggregator at `parent_data` reaches this host's shards, which receive on `locals`.
///
/// # Errors
/// There is no way there, or it begins at an address that a shard does not receive on.
pub fn uplink(parent_data: SocketAddr, locals: impl Iterator<Item = SocketAddr>) -> Result<Uplink, String> {
    let no_way = |error| format!("there is no way to the parent's data address {parent_data}: {error}");
    let towards = local_ip_towards(parent_data).map_err(no_way)?;
    let max_datagram = path_payload(parent_data).map_err(no_way)?;
    let endpoints = locals.map(|local| {
        if !local.ip().is_unspecified() && local.ip() != towards {
            return Err(format!(
                "the parent at {parent_data} is reached from {towards}, but packets are received on {local} only: \
                 set data_addr to {towards} or to all addresses"
            ));
        }
        Ok(SocketAddr::new(towards, local.port()))
    });
    Ok(Uplink {
        endpoints: endpoints.collect::<Result<_, _>>()?,
        max_datagram: max_datagram as u32,
    })
}

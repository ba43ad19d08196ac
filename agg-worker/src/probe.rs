//! Looking which chunk sizes get to an aggregator and back, before a rank registers (R-PROBE-3).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agg_control::{Capabilities, fresh_nonce};
use agg_core::wire::packet_len;
use agg_core::{Epoch, Lanes, Nanos, Prober};

use crate::transport::{Link, Ports, Way};

/// Bytes of the largest datagram that a rank may count on: of the chunk sizes that the host offers, that the way there may
/// carry by its MTU, and that are no larger than `wanted`, the largest that came back. Where none did, or the host answers no
/// probes, what the way's MTU says.
///
/// # Errors
/// The chunk size that was asked for did not come back, but a smaller one; the port is broken.
pub(crate) fn max_datagram(
    ports: &Arc<dyn Ports>,
    host: &Capabilities,
    way: &Way,
    wanted: Option<u32>,
) -> Result<usize, String> {
    let fits = |lanes: Lanes| packet_len(lanes.count()) <= way.max_datagram;
    let is_offered = |lanes: Lanes| host.lanes.contains(&(lanes.count() as u16));
    let is_wanted = |lanes: Lanes| wanted.is_none_or(|wanted| lanes.count() <= wanted as usize);
    let is_asked = |lanes| fits(lanes) && is_offered(lanes) && is_wanted(lanes);
    let largest = Lanes::ALL.into_iter().rfind(|lanes| is_asked(*lanes));
    let Some(largest) = largest.filter(|_| host.answers_probes) else {
        return Ok(way.max_datagram);
    };
    // Of another size than any that was asked for: the aggregator says what is wrong with it.
    if wanted.is_some_and(|wanted| largest.count() != wanted as usize) {
        return Ok(way.max_datagram);
    }
    let mut link = ports.link(0, packet_len(largest.count()));
    let prober = Prober::new(fresh_nonce(), Epoch(host.epoch), is_asked, 0);
    let found = run(&mut *link, way.aggregator, prober)
        .map_err(|error| format!("cannot try which packets get to {}: {error}", way.aggregator))?;
    let Some(found) = found else {
        tracing::warn!(
            "no probe came back from {}: if operations fail, look whether a firewall drops UDP on the way",
            way.aggregator
        );
        return Ok(way.max_datagram);
    };
    let carried = packet_len(found.count());
    if wanted.is_some() && found != largest {
        return Err(format!(
            "chunks of {} lanes need datagrams of {} bytes, and none came back from {}: of those that did, {carried} bytes are \
             the largest; request {} lanes or none, or raise the MTU on the way",
            largest.count(),
            packet_len(largest.count()),
            way.aggregator,
            found.count(),
        ));
    }
    if found != largest {
        tracing::info!(
            "datagrams of {} bytes, which the local MTU allows, do not get to {} and back: {carried} bytes do",
            packet_len(largest.count()),
            way.aggregator,
        );
    }
    Ok(carried)
}

/// Asks until it is known, or time is up.
fn run(link: &mut dyn Link, aggregator: SocketAddr, mut prober: Prober) -> io::Result<Option<Lanes>> {
    let began = Instant::now();
    let now = || began.elapsed().as_nanos() as Nanos;
    while !prober.is_done() {
        while let Some(room) = link.room()
            && let Some(len) = prober.transmit(room)
        {
            link.send(len, aggregator)?;
            // Each for itself: a train is cut after the hops that would drop one of its packets alone, where these are virtual.
            link.flush()?;
        }
        link.receive(&mut |_, packet, _| prober.handle(packet))?;
        if prober.is_done() {
            break;
        }
        let left = prober.next_timeout().saturating_sub(now());
        link.wait(Duration::from_nanos(left))?;
        prober.handle_timeout(now());
    }
    Ok(prober.largest())
}

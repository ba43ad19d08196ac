//! Which chunk sizes get from a leaf to its parent and back (R-PROBE-3).

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use agg_control::{Capabilities, fresh_nonce};
use agg_core::wire::packet_len;
use agg_core::{Epoch, Lanes, Nanos, Prober};
use udp_io::{MAX_DATAGRAM, Port, PortConfig, RecvBatch, SendBatch, UdpPort, local_ip_towards, path_payload};

/// Room for the answers to all sizes, a few times over, in bytes.
const BUFFER: usize = 512 << 10;

/// Bytes of the largest packet, of the chunk sizes that `parent` offers, that got to its first shard at `data` and back, from a
/// socket of its own: the way is that of the shards' packets. `None`: it answers no probes, or none came back, or there is no
/// way at all. It takes a quarter of a second at most.
pub fn probe(parent: &Capabilities, data: SocketAddr) -> Option<u32> {
    if !parent.answers_probes {
        return None;
    }
    let carried = try_sizes(parent, data)
        .inspect_err(|error| tracing::debug!(%data, %error, "the way to the parent was not tried"));
    carried_bytes(carried.ok()?, data)
}

/// Bytes of a packet of the largest chunk size that got to the parent at `data` and back; that none did is logged.
pub fn carried_bytes(largest: Option<Lanes>, data: SocketAddr) -> Option<u32> {
    if largest.is_none() {
        tracing::warn!(
            "no probe came back from the parent at {data}: look whether a firewall drops UDP on the way"
        );
    }
    largest.map(|lanes| packet_len(lanes.count()) as u32)
}

/// What asks a parent, from now on, for the chunk sizes that it offers and whose packets have `most` bytes or less.
pub fn prober(parent: &Capabilities, most: usize, now: Nanos) -> Prober {
    let is_asked =
        |lanes: Lanes| parent.lanes.contains(&(lanes.count() as u16)) && packet_len(lanes.count()) <= most;
    Prober::new(fresh_nonce(), Epoch(parent.epoch), is_asked, now)
}

fn try_sizes(parent: &Capabilities, data: SocketAddr) -> io::Result<Option<Lanes>> {
    let most = path_payload(data)?;
    let buffers = PortConfig {
        receive_buffer: BUFFER,
        send_buffer: BUFFER,
        ..PortConfig::default()
    };
    let port =
        UdpPort::bind(SocketAddr::new(local_ip_towards(data)?, 0), &buffers).map_err(io::Error::other)?;
    let mut sending = SendBatch::new(MAX_DATAGRAM, 1);
    let mut received = RecvBatch::new(&port, MAX_DATAGRAM);
    let mut packet = vec![0; MAX_DATAGRAM];
    let began = Instant::now();
    let now = || began.elapsed().as_nanos() as Nanos;
    let mut prober = prober(parent, most, 0);
    while !prober.is_done() {
        while let Some(len) = prober.transmit(&mut packet) {
            port.send(&mut sending, data, &packet[..len])?;
            // Each for itself, not as one of a train.
            port.flush(&mut sending)?;
        }
        let left = prober.next_timeout().saturating_sub(now());
        if port.wait_readable(Duration::from_nanos(left))? {
            port.recv(&mut received)?;
            received.packets().for_each(|packet| prober.handle(packet.1));
        }
        prober.handle_timeout(now());
    }
    Ok(prober.largest())
}

//! What is in a frame that comes, and the headers of one that goes.

use std::net::SocketAddr;
use std::ops::Range;

use agg_host::frame::{Datagram, End, Ethernet, Framing, Ip, Sum, Way};
use agg_worker::transport::Ecn;
use dpdk_host::discovery::{self, Heard, Ours};
use dpdk_host::dpdk::Mbuf;

/// What is in a frame that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A datagram for this address.
    Datagram {
        from: SocketAddr,
        /// The UDP port that it is for.
        to: u16,
        /// Whether the network has marked it.
        ecn: Ecn,
        /// Where in the frame it is.
        payload: Range<usize>,
    },
    /// About Ethernet addresses.
    Discovery(Heard),
    /// Nothing of interest.
    Foreign,
}

/// Looks at a frame that came to a port.
pub(crate) fn content(mbuf: &Mbuf, ours: &Ours) -> Content {
    look(mbuf, ours).unwrap_or(Content::Foreign)
}

fn look(mbuf: &Mbuf, ours: &Ours) -> Option<Content> {
    let (frame, arrival) = (mbuf.bytes(), mbuf.arrival());
    let ethernet = Ethernet::read(frame)?;
    // Frames are of a size that mbufs hold: one that is spread over several is nobody's who knows.
    if arrival.vlan_of(&ethernet) != ours.vlan || mbuf.segments() != 1 || arrival.has_bad_ip {
        return None;
    }
    let ip = Ip::read(frame, &ethernet);
    if let Some(ip) = ip.as_ref().filter(|ip| ip.to() == ours.ip)
        && let Some(datagram) = Datagram::read(frame, ip)
    {
        if arrival.is_damaged(&datagram, frame) {
            return None;
        }
        return Some(Content::Datagram {
            from: datagram.from,
            to: datagram.to.port(),
            ecn: datagram.ecn,
            payload: datagram.payload,
        });
    }
    discovery::hear(frame, &ethernet, ip.as_ref(), ours).map(Content::Discovery)
}

/// Makes a frame of a packet of so many bytes, behind the room for its headers. `checksums`: the port writes them. `false`: there
/// is no such way.
pub(crate) fn wrap(
    mbuf: &mut Mbuf,
    packet: usize,
    (from, to): (&End, &End),
    framing: Framing,
    checksums: bool,
) -> bool {
    let Some(way) = Way::between(from, to) else {
        return false;
    };
    mbuf.set_len(framing.len() + packet);
    let frame = mbuf.bytes_mut();
    // IPv6 wants one.
    let is_summed = framing.is_ipv6() && !checksums;
    let sum = is_summed.then(|| Sum::of(&frame[framing.len()..]));
    way.write(framing.vlan(), packet, sum, frame);
    if checksums {
        mbuf.offload_checksums(framing);
    }
    true
}

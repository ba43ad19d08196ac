//! What is in a frame that comes, and the headers of one that goes.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use agg_host::frame::{Datagram, End, Ethernet, Framing, Ip, Mac, Sum, Way};
use dpdk_host::discovery::{self, Heard};
use dpdk_host::dpdk::Mbuf;

/// What is in a frame that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A datagram for this address.
    Datagram {
        from: SocketAddr,
        /// The UDP port that it is for.
        to: u16,
        /// Where in the frame it is.
        payload: Range<usize>,
    },
    /// About Ethernet addresses.
    Discovery(Heard),
    /// Nothing of interest.
    Foreign,
}

/// Looks at a frame that came to a port with these addresses.
pub(crate) fn content(frame: &[u8], ours: (Mac, IpAddr), vlan: Option<u16>) -> Content {
    let look = || {
        // A tag for the priority only is in no VLAN.
        let ethernet = Ethernet::read(frame).filter(|header| header.vlan.filter(|id| *id != 0) == vlan)?;
        let ip = Ip::read(frame, &ethernet);
        if let Some(ip) = ip.as_ref().filter(|ip| ip.to() == ours.1)
            && let Some(Datagram { from, to, payload }) = Datagram::read(frame, ip)
        {
            let to = to.port();
            return Some(Content::Datagram { from, to, payload });
        }
        discovery::hear(frame, &ethernet, ip.as_ref(), ours).map(Content::Discovery)
    };
    look().unwrap_or(Content::Foreign)
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

//! What is in a frame that comes, and the headers of one that goes.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;

use agg_host::frame::{Datagram, End, FRAMING, Ip, TYPE_IPV4, Way, ethernet};
use dpdk_host::dpdk::Mbuf;
use dpdk_host::{Arp, TYPE_ARP};

/// Bytes of the headers in front of a packet.
pub(crate) const HEADERS: usize = FRAMING;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = agg_host::frame::ETHERNET;

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
    Arp(Arp),
    /// Nothing of interest.
    Foreign,
}

/// Looks at a frame that came to a port with this address.
pub(crate) fn content(frame: &[u8], ours: Ipv4Addr) -> Content {
    match ethernet(frame) {
        Some((_, _, TYPE_IPV4)) => datagram(frame, ours),
        Some((_, _, TYPE_ARP)) => Arp::read(frame).map(Content::Arp),
        _ => None,
    }
    .unwrap_or(Content::Foreign)
}

fn datagram(frame: &[u8], ours: Ipv4Addr) -> Option<Content> {
    let ip = Ip::read(frame).filter(|ip| ip.to == ours)?;
    let datagram = Datagram::read(frame, &ip)?;
    Some(Content::Datagram {
        from: datagram.from.into(),
        to: datagram.to.port(),
        payload: datagram.payload,
    })
}

/// Makes a frame of a packet of so many bytes that is behind the room for its headers.
pub(crate) fn wrap(mbuf: &mut Mbuf, packet: usize, from: End, to: End, checksums: bool) {
    mbuf.set_len(FRAMING + packet);
    if let Some(headers) = mbuf.bytes_mut().first_chunk_mut() {
        Way { from, to }.write(packet, headers);
    }
    if checksums {
        mbuf.offload_checksums();
    }
}

/// An end of a frame's way.
pub(crate) fn end(mac: [u8; 6], address: SocketAddrV4) -> End {
    End { mac, address }
}

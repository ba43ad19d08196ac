//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use agg_core::wire::Ecn;

use super::{Ethernet, Sum, TYPE_IPV4, TYPE_IPV6, checksum, split, udp};

/// Bytes of an IPv4 header without options.
pub const IPV4: usize = 20;
/// Bytes of an IPv6 header without extensions.
pub const IPV6: usize = 40;

/// More fragments, or an offset: the packet is a part of a datagram.
const FRAGMENT: u16 = 0x3fff;

/// Hops that a packet may take, as most systems have it.
const HOPS: u8 = 64;

/// From whom to whom: two addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair {
    /// IPv4.
    V4 {
        /// The sender.
        from: Ipv4Addr,
        /// The receiver.
        to: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// The sender.
        from: Ipv6Addr,
        /// The receiver.
        to: Ipv6Addr,
    },
}

impl Pair {
    /// Of two addresses; `None`: they are of different families.
    #[inline]
    pub fn of(from: IpAddr, to: IpAddr) -> Option<Self> {
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Some(Self::V4 { from, to }),
            (IpAddr::V6(from), IpAddr::V6(to)) => Some(Self::V6 { from, to }),
            _ => None,
        }
    }

    /// The EtherType of packets between them.
    pub fn kind(&self) -> u16 {
        match self {
            Self::V4 { .. } => TYPE_IPV4,
            Self::V6 { .. } => TYPE_IPV6,
        }
    }

    /// The sum over the pseudo-header that protocols above IP cover: the addresses, their own number, and their bytes.
    #[inline]
    pub fn sum(&self, protocol: u8, len: usize) -> Sum {
        let addresses = match self {
            Self::V4 { from, to } => Sum::of(&from.octets()).and(Sum::of(&to.octets())),
            Self::V6 { from, to } => Sum::of(&from.octets()).and(Sum::of(&to.octets())),
        };
        let [a, b] = (len as u16).to_be_bytes();
        addresses.and(Sum::of(&[0, protocol, a, b]))
    }

    /// Writes the header of a packet with so many bytes behind it, which may take so many `hops`, and gives the room there.
    ///
    /// # Panics
    /// There is too little room.
    #[inline]
    pub fn write<'f>(&self, protocol: u8, hops: u8, len: usize, into: &'f mut [u8]) -> &'f mut [u8] {
        // Whoever receives our datagrams heeds marks (R-ECN-1).
        let class = if protocol == udp::PROTOCOL { Ecn::ECT_0 } else { 0 };
        match self {
            Self::V4 { from, to } => {
                let (header, rest) = split::<IPV4>(into);
                // Version 4, five words, no special service; may not be fragmented.
                header[..2].copy_from_slice(&[0x45, class]);
                header[2..4].copy_from_slice(&((IPV4 + len) as u16).to_be_bytes());
                header[4..12].copy_from_slice(&[0, 0, 0x40, 0, hops, protocol, 0, 0]);
                header[12..16].copy_from_slice(&from.octets());
                header[16..].copy_from_slice(&to.octets());
                let sum = checksum(header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                rest
            }
            Self::V6 { from, to } => {
                let (header, rest) = split::<IPV6>(into);
                // Version 6, no special service, no flow.
                header[..4].copy_from_slice(&[0x60 | class >> 4, class << 4, 0, 0]);
                header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
                header[6..8].copy_from_slice(&[protocol, hops]);
                header[8..24].copy_from_slice(&from.octets());
                header[24..].copy_from_slice(&to.octets());
                rest
            }
        }
    }
}

/// An IP packet in a frame, whole and with a sound header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ip {
    /// From whom to whom.
    pub pair: Pair,
    /// The number of the protocol inside. An IPv6 packet's extensions count as one: nobody here sends or needs any.
    pub protocol: u8,
    /// How many more hops it could have taken.
    pub hops: u8,
    /// Whether the network has marked it.
    pub ecn: Ecn,
    /// Where in the frame its payload is.
    pub payload: Range<usize>,
}

impl Ip {
    /// Hops that are written where nothing else is asked for.
    pub const HOPS: u8 = HOPS;

    /// Reads what is behind an Ethernet header. `None`: it is no IP packet, its header is damaged, or the packet is cut off,
    /// or a fragment.
    #[inline]
    pub fn read(frame: &[u8], ethernet: &Ethernet) -> Option<Self> {
        let start = ethernet.len();
        let packet = frame.get(start..)?;
        match ethernet.kind {
            TYPE_IPV4 => Self::read_v4(packet, start),
            TYPE_IPV6 => Self::read_v6(packet, start),
            _ => None,
        }
    }

    /// Who is to get it.
    #[inline]
    pub fn to(&self) -> IpAddr {
        match self.pair {
            Pair::V4 { to, .. } => to.into(),
            Pair::V6 { to, .. } => to.into(),
        }
    }

    #[inline]
    fn read_v4(packet: &[u8], start: usize) -> Option<Self> {
        let header_len = 4 * usize::from(packet.first()? & 0xf);
        let header = packet.get(..header_len.max(IPV4))?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let len = usize::from(word(2));
        // A sum over a whole header is 0.
        let sound = header[0] >> 4 == 4 && header_len >= IPV4 && checksum(header) == 0;
        if !sound || len < header_len || len > packet.len() || word(6) & FRAGMENT != 0 {
            return None;
        }
        let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        Some(Self {
            pair: Pair::V4 {
                from: address(12),
                to: address(16),
            },
            protocol: header[9],
            hops: header[8],
            ecn: Ecn::from_traffic_class(header[1]),
            payload: start + header_len..start + len,
        })
    }

    #[inline]
    fn read_v6(packet: &[u8], start: usize) -> Option<Self> {
        let (header, rest) = packet.split_first_chunk::<IPV6>()?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if header[0] >> 4 != 6 || len > rest.len() {
            return None;
        }
        let from: [u8; 16] = *header[8..].first_chunk()?;
        let to: [u8; 16] = *header[24..].first_chunk()?;
        let start = start + IPV6;
        Some(Self {
            pair: Pair::V6 {
                from: from.into(),
                to: to.into(),
            },
            protocol: header[6],
            hops: header[7],
            ecn: Ecn::from_traffic_class(header[0] << 4 | header[1] >> 4),
            payload: start..start + len,
        })
    }
}

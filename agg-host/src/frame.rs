//! Ethernet frames around UDP over IPv4, for hosts that see whole frames.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
pub const IPV4: usize = 20;
const UDP: usize = 8;
/// Bytes of the three headers in front of a packet.
pub const FRAMING: usize = ETHERNET + IPV4 + UDP;

/// EtherType of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
const PROTOCOL_UDP: u8 = 17;
/// More fragments, or an offset: the packet is a part of a datagram.
const FRAGMENT: u16 = 0x3fff;

/// One end of a frame's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Its Ethernet address, or the next hop's towards it.
    pub mac: Mac,
    /// Its address and port.
    pub address: SocketAddrV4,
}

/// From where to where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Who sends it.
    pub from: End,
    /// Who gets it.
    pub to: End,
}

impl Way {
    /// Writes the headers in front of a packet of so many bytes. The UDP checksum is 0, that is none (RFC 768): packets have
    /// one of their own for the header, and Ethernet covers each hop.
    pub fn write(&self, packet: usize, into: &mut [u8; FRAMING]) {
        let udp_len = (UDP + packet) as u16;
        into[..6].copy_from_slice(&self.to.mac);
        into[6..12].copy_from_slice(&self.from.mac);
        into[12..14].copy_from_slice(&TYPE_IPV4.to_be_bytes());
        let ip = &mut into[ETHERNET..ETHERNET + IPV4];
        // Version 4, five words, no special service; may not be fragmented, 64 hops.
        ip[..2].copy_from_slice(&[0x45, 0]);
        ip[2..4].copy_from_slice(&(udp_len + IPV4 as u16).to_be_bytes());
        ip[4..12].copy_from_slice(&[0, 0, 0x40, 0, 64, PROTOCOL_UDP, 0, 0]);
        ip[12..16].copy_from_slice(&self.from.address.ip().octets());
        ip[16..20].copy_from_slice(&self.to.address.ip().octets());
        let sum = checksum(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let udp = &mut into[ETHERNET + IPV4..];
        udp[..2].copy_from_slice(&self.from.address.port().to_be_bytes());
        udp[2..4].copy_from_slice(&self.to.address.port().to_be_bytes());
        udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
        udp[6..8].fill(0);
    }
}

/// The two Ethernet addresses and the type of a frame: whom it is for, from whom, and what follows.
pub fn ethernet(frame: &[u8]) -> Option<(Mac, Mac, u16)> {
    let header = frame.first_chunk::<ETHERNET>()?;
    let (to, from) = (header.first_chunk()?, header[6..].first_chunk()?);
    Some((*to, *from, u16::from_be_bytes([header[12], header[13]])))
}

/// An IPv4 packet in a frame, whole and with a sound header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ip {
    /// Who sent it.
    pub from: Ipv4Addr,
    /// Who is to get it.
    pub to: Ipv4Addr,
    /// The number of the protocol inside.
    pub protocol: u8,
    /// Where in the frame its payload is.
    pub payload: Range<usize>,
}

impl Ip {
    /// Reads a frame whose type is [`TYPE_IPV4`]. `None`: its header is none, or damaged, the packet is cut off, or a fragment.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET..)?;
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
            from: address(12),
            to: address(16),
            protocol: header[9],
            payload: ETHERNET + header_len..ETHERNET + len,
        })
    }
}

/// A UDP datagram in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Who sent it.
    pub from: SocketAddrV4,
    /// Who is to get it.
    pub to: SocketAddrV4,
    /// Where in the frame its payload is.
    pub payload: Range<usize>,
}

impl Datagram {
    /// Reads what is inside an IPv4 packet; `None`: it is no whole UDP datagram. The UDP checksum is not looked at: a virtual
    /// device leaves it for a real one to write.
    #[inline]
    pub fn read(frame: &[u8], ip: &Ip) -> Option<Self> {
        let header = frame.get(ip.payload.clone())?.first_chunk::<UDP>()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let len = usize::from(word(4));
        if ip.protocol != PROTOCOL_UDP || len < UDP || len > ip.payload.len() {
            return None;
        }
        Some(Self {
            from: SocketAddrV4::new(ip.from, word(0)),
            to: SocketAddrV4::new(ip.to, word(2)),
            payload: ip.payload.start + UDP..ip.payload.start + len,
        })
    }
}

/// The Internet checksum (RFC 1071) of bytes in which the checksum's own field is 0; over bytes with their checksum it is 0.
pub fn checksum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |byte| u16::from_be_bytes([*byte, 0]));
    let words = words.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
    let mut sum = words.fold(u32::from(last), u32::wrapping_add);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> Way {
        let end = |number: u8| End {
            mac: [2, 0, 0, 0, 0, number],
            address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, number), 5000 + u16::from(number)),
        };
        Way {
            from: end(1),
            to: end(2),
        }
    }

    fn framed(packet: &[u8]) -> Vec<u8> {
        let mut headers = [0xa5; FRAMING];
        way().write(packet.len(), &mut headers);
        [&headers, packet].concat()
    }

    #[test]
    fn what_is_written_is_read_again() {
        for len in [0, 1, 56, 1464] {
            let mut frame = framed(&vec![7; len]);
            // Ethernet's shortest frame is padded.
            frame.resize(frame.len().max(60), 0);
            let Way { from, to } = way();
            assert_eq!(ethernet(&frame), Some((to.mac, from.mac, TYPE_IPV4)));
            let ip = Ip::read(&frame).unwrap();
            let datagram = Datagram::read(&frame, &ip).unwrap();
            assert_eq!((datagram.from, datagram.to), (from.address, to.address));
            assert_eq!(datagram.payload, FRAMING..FRAMING + len);
        }
    }

    #[test]
    fn what_is_cut_off_damaged_or_a_fragment_is_nothing() {
        let frame = framed(&[1; 100]);
        for len in 0..frame.len() {
            assert_eq!(Ip::read(&frame[..len]), None, "{len} bytes");
        }
        for at in ETHERNET..ETHERNET + IPV4 {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            assert_eq!(Ip::read(&damaged), None, "byte {at}");
        }
        for (flags, is_whole) in [(0x40, true), (0, true), (0x20, false), (0x01, false)] {
            let mut fragment = frame.clone();
            fragment[20] = flags;
            fragment[24..26].fill(0);
            let sum = checksum(&fragment[ETHERNET..ETHERNET + IPV4]);
            fragment[24..26].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(Ip::read(&fragment).is_some(), is_whole, "{flags:#x}");
        }
        for udp_len in [0_u16, 7, 109, 0xffff] {
            let mut damaged = frame.clone();
            damaged[38..40].copy_from_slice(&udp_len.to_be_bytes());
            let ip = Ip::read(&damaged).unwrap();
            assert_eq!(Datagram::read(&damaged, &ip), None, "{udp_len}");
        }
    }

    /// Padding between the IPv4 header and the datagram is what options are.
    #[test]
    fn options_are_skipped() {
        let mut frame = framed(b"packet");
        frame.splice(ETHERNET + IPV4..ETHERNET + IPV4, [1, 1, 1, 0]);
        frame[ETHERNET] = 0x46;
        let len = (frame.len() - ETHERNET) as u16;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        frame[24..26].fill(0);
        let sum = checksum(&frame[ETHERNET..ETHERNET + 24]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        let ip = Ip::read(&frame).unwrap();
        let datagram = Datagram::read(&frame, &ip).unwrap();
        assert_eq!(&frame[datagram.payload], b"packet");
    }
}

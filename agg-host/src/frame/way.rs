//! From where to where packets go, and the headers that say so.

use std::net::SocketAddr;

use super::{ETHERNET, Ethernet, IPV4, IPV6, Ip, Mac, Pair, Sum, VLAN_TAG, udp};

/// One end of a frame's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Its Ethernet address, or the next hop's towards it.
    pub mac: Mac,
    /// Its address and port.
    pub address: SocketAddr,
}

/// Which headers are in front of packets: the same for all of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    is_ipv6: bool,
    vlan: Option<u16>,
}

impl Framing {
    /// Those of the packets of an address, with a VLAN tag or without.
    pub const fn new(address: &SocketAddr, vlan: Option<u16>) -> Self {
        Self {
            is_ipv6: address.is_ipv6(),
            vlan,
        }
    }

    /// Bytes of all headers.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> usize {
        self.ethernet() + self.in_mtu()
    }

    /// Bytes of the Ethernet header and its tag.
    pub const fn ethernet(&self) -> usize {
        match self.vlan {
            Some(_) => ETHERNET + VLAN_TAG,
            None => ETHERNET,
        }
    }

    /// Bytes of the headers that count towards the MTU, which is that of an IP packet.
    pub const fn in_mtu(&self) -> usize {
        let ip = if self.is_ipv6 { IPV6 } else { IPV4 };
        ip + udp::UDP
    }

    /// Whether it is IPv6, where UDP must have a checksum.
    pub const fn is_ipv6(&self) -> bool {
        self.is_ipv6
    }

    /// The VLAN, if frames have tags.
    pub const fn vlan(&self) -> Option<u16> {
        self.vlan
    }
}

/// From where to where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    from: Mac,
    to: Mac,
    pair: Pair,
    ports: (u16, u16),
}

impl Way {
    /// From one end to another; `None`: their addresses are of different families.
    #[inline]
    pub fn between(from: &End, to: &End) -> Option<Self> {
        Some(Self {
            from: from.mac,
            to: to.mac,
            pair: Pair::of(from.address.ip(), to.address.ip())?,
            ports: (from.address.port(), to.address.port()),
        })
    }

    /// Writes the headers in front of a packet of so many bytes: as many as [`Framing`] says for these addresses and this VLAN.
    ///
    /// `sum` is that of the packet's bytes. Without it there is no UDP checksum (RFC 768): packets have one of their own for
    /// the header, and Ethernet covers each hop. IPv6 takes it only where a port writes the checksum (RFC 8200, section 8.1).
    ///
    /// # Panics
    /// There is too little room.
    #[inline]
    pub fn write(&self, vlan: Option<u16>, packet: usize, sum: Option<Sum>, into: &mut [u8]) {
        let ethernet = Ethernet {
            to: self.to,
            from: self.from,
            vlan,
            kind: self.pair.kind(),
        };
        let rest = ethernet.write(into);
        let rest = self.pair.write(udp::PROTOCOL, Ip::HOPS, udp::UDP + packet, rest);
        udp::write(&self.pair, self.ports, packet, sum, rest);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use agg_core::wire::Ecn;

    use super::super::{Datagram, checksum};
    use super::*;

    fn end(number: u8, is_ipv6: bool) -> End {
        let ip: IpAddr = match is_ipv6 {
            false => [10, 0, 0, number].into(),
            true => [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)].into(),
        };
        End {
            mac: [2, 0, 0, 0, 0, number],
            address: (ip, 5000 + u16::from(number)).into(),
        }
    }

    const FRAMINGS: [Framing; 4] = [
        framing(false, None),
        framing(true, None),
        framing(false, Some(7)),
        framing(true, Some(4094)),
    ];

    const fn framing(is_ipv6: bool, vlan: Option<u16>) -> Framing {
        Framing { is_ipv6, vlan }
    }

    fn framed(framing: Framing, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![0xa5; framing.len()];
        let way = Way::between(&end(1, framing.is_ipv6), &end(2, framing.is_ipv6)).unwrap();
        let sum = framing.is_ipv6.then(|| Sum::of(packet));
        way.write(framing.vlan, packet.len(), sum, &mut frame);
        frame.extend(packet);
        frame
    }

    fn read(frame: &[u8]) -> Option<(Ethernet, Ip)> {
        let ethernet = Ethernet::read(frame)?;
        let ip = Ip::read(frame, &ethernet)?;
        Some((ethernet, ip))
    }

    #[test]
    fn what_is_written_is_read_again() {
        for framing in FRAMINGS {
            for len in [0, 1, 56, 1440, 32_824] {
                let mut frame = framed(framing, &vec![7; len]);
                // Ethernet's shortest frame is padded.
                frame.resize(frame.len().max(60), 0);
                let (ethernet, ip) = read(&frame).unwrap();
                let (from, to) = (end(1, framing.is_ipv6), end(2, framing.is_ipv6));
                assert_eq!(
                    (ethernet.to, ethernet.from, ethernet.vlan),
                    (to.mac, from.mac, framing.vlan)
                );
                assert_eq!((ip.to(), ip.hops), (to.address.ip(), 64));
                let datagram = Datagram::read(&frame, &ip).unwrap();
                assert_eq!((datagram.from, datagram.to), (from.address, to.address));
                assert_eq!(datagram.payload, framing.len()..framing.len() + len);
                assert_eq!(datagram.has_no_checksum(&frame), !framing.is_ipv6);
            }
        }
        assert_eq!(Way::between(&end(1, true), &end(2, false)), None);
    }

    #[test]
    fn ecn_1_datagrams_can_be_marked_and_marks_are_seen() {
        for framing in FRAMINGS {
            let mut frame = framed(framing, b"packet");
            let at = framing.ethernet();
            assert_eq!(read(&frame).unwrap().1.ecn, Ecn::Clear);
            if framing.is_ipv6 {
                assert_eq!(frame[at..at + 2], [0x60, Ecn::ECT_0 << 4]);
                frame[at + 1] |= 0x30;
            } else {
                assert_eq!(frame[at + 1], Ecn::ECT_0);
                frame[at + 1] |= 3;
                // The sum grows by what the word has, its complement shrinks.
                frame[at + 11] -= 1;
            }
            let (_, ip) = read(&frame).unwrap();
            let datagram = Datagram::read(&frame, &ip).unwrap();
            assert_eq!(datagram.ecn, Ecn::Congested);
        }
    }

    /// Over the pseudo-header and the datagram with its checksum the sum is 0.
    #[test]
    fn a_checksum_covers_addresses_and_packet() {
        for packet in [b"".as_slice(), b"x", b"packet", &[0xff; 1409]] {
            let frame = framed(FRAMINGS[1], packet);
            let (_, ip) = read(&frame).unwrap();
            let datagram = &frame[ip.payload.clone()];
            let sum = |datagram: &[u8]| ip.pair.sum(17, datagram.len()).and(Sum::of(datagram)).checksum();
            assert_eq!(sum(datagram), 0);
            let mut damaged = datagram.to_vec();
            damaged[0] ^= 1;
            assert_ne!(sum(&damaged), 0);
        }
    }

    /// A sum that comes out as "there is none" is sent in its other form.
    #[test]
    fn a_checksum_is_never_zero() {
        let without = framed(FRAMINGS[1], &[0; 2]);
        let [.., a, b, 0, 0] = without[..] else {
            panic!("two bytes of packet")
        };
        let frame = framed(FRAMINGS[1], &[a, b]);
        assert_eq!(frame[FRAMINGS[1].len() - 2..], [0xff, 0xff, a, b]);
    }

    #[test]
    fn what_is_cut_off_damaged_or_a_fragment_is_nothing() {
        for framing in FRAMINGS {
            let frame = framed(framing, &[1; 100]);
            for len in 0..frame.len() {
                assert_eq!(read(&frame[..len]), None, "{len} bytes");
            }
            let udp = framing.len() - 4;
            for udp_len in [0_u16, 7, 109, 0xffff] {
                let mut damaged = frame.clone();
                damaged[udp..udp + 2].copy_from_slice(&udp_len.to_be_bytes());
                let (_, ip) = read(&damaged).unwrap();
                assert_eq!(Datagram::read(&damaged, &ip), None, "{udp_len}");
            }
        }
        let frame = framed(FRAMINGS[0], &[1; 100]);
        for at in ETHERNET..ETHERNET + IPV4 {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            assert_eq!(read(&damaged), None, "byte {at}");
        }
        for (flags, is_whole) in [(0x40, true), (0, true), (0x20, false), (0x01, false)] {
            let mut fragment = frame.clone();
            fragment[20] = flags;
            fragment[24..26].fill(0);
            let sum = checksum(&fragment[ETHERNET..ETHERNET + IPV4]);
            fragment[24..26].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(read(&fragment).is_some(), is_whole, "{flags:#x}");
        }
        // IPv6: another version, and a fragment's extension.
        let frame = framed(FRAMINGS[1], &[1; 100]);
        let mut other = frame.clone();
        other[14] = 0x40;
        assert_eq!(read(&other), None);
        let mut other = frame;
        other[20] = 44;
        let (_, ip) = read(&other).unwrap();
        assert_eq!(Datagram::read(&other, &ip), None);
    }

    /// Padding between the IPv4 header and the datagram is what options are.
    #[test]
    fn options_are_skipped() {
        let mut frame = framed(FRAMINGS[0], b"packet");
        frame.splice(ETHERNET + IPV4..ETHERNET + IPV4, [1, 1, 1, 0]);
        frame[ETHERNET] = 0x46;
        let len = (frame.len() - ETHERNET) as u16;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        frame[24..26].fill(0);
        let sum = checksum(&frame[ETHERNET..ETHERNET + 24]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        let (_, ip) = read(&frame).unwrap();
        let datagram = Datagram::read(&frame, &ip).unwrap();
        assert_eq!(&frame[datagram.payload], b"packet");
    }
}

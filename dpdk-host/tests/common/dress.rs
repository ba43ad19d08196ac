//! The frames of the golden traces, which are IPv4 without a tag, as they look over IPv6 or in a VLAN. Written by hand, not to be
//! what is tested.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use agg_core::JobConfig;

/// How frames look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dress {
    /// IPv6 in the place of IPv4.
    pub ipv6: bool,
    /// With the tag of a VLAN.
    pub vlan: Option<u16>,
}

/// What is in front of an IPv4 address that stands for an IPv6 one.
const PREFIX: [u8; 12] = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[allow(dead_code, reason = "not every test needs all")]
impl Dress {
    /// An address of the traces.
    pub fn ip(self, ip: Ipv4Addr) -> IpAddr {
        if !self.ipv6 {
            return ip.into();
        }
        IpAddr::V6(v6(ip.octets()))
    }

    /// The same with a port.
    pub fn address(self, address: SocketAddrV4) -> SocketAddr {
        SocketAddr::new(self.ip(*address.ip()), address.port())
    }

    /// A job whose members are at IPv4 addresses.
    pub fn job(self, mut job: JobConfig) -> JobConfig {
        if self.ipv6 {
            for member in &mut job.members {
                member.source.ip[..12].copy_from_slice(&PREFIX);
            }
            if let Some(parent) = &mut job.parent {
                parent.source.ip[..12].copy_from_slice(&PREFIX);
            }
        }
        job
    }

    /// Bytes in front of packets.
    pub fn framing(self) -> usize {
        42 + if self.ipv6 { 20 } else { 0 } + if self.vlan.is_some() { 4 } else { 0 }
    }

    /// A frame of UDP over IPv4.
    pub fn frame(self, frame: &[u8]) -> Vec<u8> {
        let [.., a, b] = frame[..40] else {
            panic!("no frame of UDP")
        };
        let udp_len = usize::from(u16::from_be_bytes([a, b]));
        let mut out = frame.to_vec();
        if self.ipv6 {
            let end = |at: usize| v6([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
            let datagram = &frame[34..34 + udp_len];
            out = packet(&frame[..12], end(26), end(30), (17, 64), datagram, 6);
            out.resize(out.len().max(60), 0);
        }
        self.tagged(out)
    }

    /// The same as the host sends it: over IPv4 without a UDP checksum, and without padding.
    pub fn sent(self, from: SocketAddrV4, to: SocketAddrV4, packet: &[u8]) -> Vec<u8> {
        let mut frame = self.frame(&super::answering::sent(from, to, packet));
        frame.truncate(self.framing() + packet.len());
        frame
    }

    /// How somebody answers when he is asked for his Ethernet address, which shows his IPv4 address: by ARP or an advertisement.
    pub fn reply(self, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
        let arp = super::answering::arp_reply(from, to);
        if !self.ipv6 {
            return self.tagged(arp);
        }
        let advertises = [
            &[136, 0, 0, 0, 0x60, 0, 0, 0],
            &v6(from.octets()).octets()[..],
            &[2, 1],
            &arp[6..12],
        ];
        let (from, to) = (v6(from.octets()), v6(to.octets()));
        self.tagged(packet(&arp[..12], from, to, (58, 255), &advertises.concat(), 2))
    }

    /// Somebody's question for an Ethernet address.
    pub fn question(self, from: Ipv4Addr, about: Ipv4Addr) -> Vec<u8> {
        let mut arp = super::answering::arp_reply(from, about);
        if !self.ipv6 {
            arp[21] = 1;
            return self.tagged(arp);
        }
        let target = v6(about.octets());
        let solicits = [
            &[135, 0, 0, 0, 0, 0, 0, 0],
            &target.octets()[..],
            &[1, 1],
            &arp[6..12],
        ];
        let [.., b, c, d] = about.octets();
        let group = Ipv6Addr::new(
            0xff02,
            0,
            0,
            0,
            0,
            1,
            0xff00 | u16::from(b),
            u16::from_be_bytes([c, d]),
        );
        let ethernet = [&[0x33, 0x33, 0xff, b, c, d], &arp[6..12]].concat();
        self.tagged(packet(
            &ethernet,
            v6(from.octets()),
            group,
            (58, 255),
            &solicits.concat(),
            2,
        ))
    }

    /// A ping, or its answer.
    pub fn ping(self, from: Ipv4Addr, to: Ipv4Addr, is_answer: bool) -> Vec<u8> {
        let at = |ip| SocketAddrV4::new(ip, 0);
        let mut frame = super::answering::sent(at(from), at(to), b"ping");
        frame[15] = 0;
        let kinds = if self.ipv6 { [128, 129] } else { [8, 0] };
        let mut message = [kinds[usize::from(is_answer)], 0, 0, 0, 0, 7, 0, 1].to_vec();
        message.extend(b"ping");
        if self.ipv6 {
            let (from, to) = (v6(from.octets()), v6(to.octets()));
            return self.tagged(packet(&frame[..12], from, to, (58, 64), &message, 2));
        }
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum);
        frame[34..].copy_from_slice(&message);
        frame[23] = 1;
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum);
        self.tagged(frame)
    }

    fn tagged(self, mut frame: Vec<u8>) -> Vec<u8> {
        if let Some(vlan) = self.vlan {
            let [a, b] = vlan.to_be_bytes();
            frame.splice(12..12, [0x81, 0, a, b]);
        }
        frame
    }
}

fn v6(ip: [u8; 4]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets[..12].copy_from_slice(&PREFIX);
    octets[12..].copy_from_slice(&ip);
    octets.into()
}

/// An IPv6 packet of a protocol with some hops, behind Ethernet addresses; its checksum is at a place in the payload.
fn packet(
    ethernet: &[u8],
    from: Ipv6Addr,
    to: Ipv6Addr,
    (protocol, hops): (u8, u8),
    payload: &[u8],
    sum_at: usize,
) -> Vec<u8> {
    let mut payload = payload.to_vec();
    payload[sum_at..sum_at + 2].fill(0);
    let [a, b] = (payload.len() as u16).to_be_bytes();
    let addresses = [from.octets(), to.octets()].concat();
    let sum = checksum(&[&addresses, &[0, 0, a, b, 0, 0, 0, protocol][..], &payload].concat());
    // Never "there is none".
    let sum = if sum == [0, 0] { [0xff, 0xff] } else { sum };
    payload[sum_at..sum_at + 2].copy_from_slice(&sum);
    // Datagrams are ECN-capable (R-ECN-1).
    let class = if protocol == 17 { 0x20 } else { 0 };
    let ip = [0x60, class, 0, 0, a, b, protocol, hops];
    [ethernet, &[0x86, 0xdd], &ip, &addresses, &payload].concat()
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2);
    let sum: u64 = words
        .map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0)))
        .sum();
    // Not 0 where the sum is not: in ones' complement both forms of zero are told apart.
    let folded = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
    (!(folded as u16)).to_be_bytes()
}

//! ICMP echo (RFC 792, RFC 4443): the aggregator's address can be pinged.

use agg_host::frame::{Ethernet, IPV4, Ip, Mac, Pair, Sum};

use crate::nd::PROTOCOL_ICMPV6;

const PROTOCOL_ICMP: u8 = 1;

/// Requests and replies, over IPv4 and IPv6.
const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

/// Makes the answer of an echo request in its place; `false`: it is none.
pub(crate) fn answer(frame: &mut [u8], ethernet: &Ethernet, ip: &Ip, ours: Mac) -> bool {
    let message = &frame[ip.payload.clone()];
    let ip_start = ethernet.len();
    let (protocol, [request, reply], covered) = match ip.pair {
        Pair::V4 { .. } => (PROTOCOL_ICMP, [ECHO, ECHO_REPLY], Sum::default()),
        Pair::V6 { .. } => {
            let covered = ip.pair.sum(PROTOCOL_ICMPV6, message.len());
            (PROTOCOL_ICMPV6, [ECHO_V6, ECHO_REPLY_V6], covered)
        }
    };
    // Behind options nobody pings.
    let has_options = matches!(ip.pair, Pair::V4 { .. }) && ip.payload.start != ip_start + IPV4;
    if ip.protocol != protocol || has_options || message.len() < 8 || message[0] != request {
        return false;
    }
    if covered.and(Sum::of(message)).checksum() != 0 {
        return false;
    }
    frame.copy_within(6..12, 0);
    frame[6..12].copy_from_slice(&ours);
    let back = match ip.pair {
        Pair::V4 { from, to } => Pair::V4 { from: to, to: from },
        Pair::V6 { from, to } => Pair::V6 { from: to, to: from },
    };
    let len = ip.payload.len();
    back.write(protocol, Ip::HOPS, len, &mut frame[ip_start..]);
    let message = &mut frame[ip.payload.clone()];
    message[0] = reply;
    message[2..4].fill(0);
    // The same addresses are covered.
    let sum = covered.and(Sum::of(message)).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    type Side = (Mac, IpAddr);

    const V4: [Side; 2] = [
        ([2, 0, 0, 0, 0, 1], IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
        ([2, 0, 0, 0, 0, 2], IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))),
    ];
    const V6: [Side; 2] = [
        (V4[0].0, IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1))),
        (V4[1].0, IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2))),
    ];

    /// A ping, or its answer.
    fn ping(from: Side, to: Side, vlan: Option<u16>, is_reply: bool) -> Vec<u8> {
        let pair = Pair::of(from.1, to.1).unwrap();
        let (protocol, kinds, covered) = match pair {
            Pair::V4 { .. } => (1, [8, 0], Sum::default()),
            Pair::V6 { .. } => (58, [128, 129], pair.sum(58, 13)),
        };
        let mut message = [kinds[usize::from(is_reply)], 0, 0, 0, 0, 7, 0, 1].to_vec();
        message.extend(b"datas");
        let sum = covered.and(Sum::of(&message)).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let ethernet = Ethernet {
            to: to.0,
            from: from.0,
            vlan,
            kind: pair.kind(),
        };
        let mut frame = vec![0; 100];
        let left = {
            let rest = ethernet.write(&mut frame);
            let rest = pair.write(protocol, 64, message.len(), rest);
            rest[..message.len()].copy_from_slice(&message);
            rest.len() - message.len()
        };
        frame.truncate(100 - left);
        frame
    }

    fn answered(frame: &mut [u8]) -> bool {
        let ethernet = Ethernet::read(frame).unwrap();
        let ip = Ip::read(frame, &ethernet).unwrap();
        answer(frame, &ethernet, &ip, V4[0].0)
    }

    #[test]
    fn a_ping_is_answered() {
        for [here, there] in [V4, V6] {
            for vlan in [None, Some(7)] {
                let mut frame = ping(there, here, vlan, false);
                assert!(answered(&mut frame));
                assert_eq!(frame, ping(here, there, vlan, true));
            }
        }
    }

    #[test]
    fn answers_and_damaged_pings_are_not() {
        for [here, there] in [V4, V6] {
            assert!(!answered(&mut ping(there, here, None, true)));
            let mut frame = ping(there, here, None, false);
            let last = frame.len() - 1;
            frame[last] ^= 1;
            assert!(!answered(&mut frame));
        }
    }
}

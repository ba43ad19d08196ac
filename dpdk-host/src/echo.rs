//! ICMP echo (RFC 792): the aggregator's address can be pinged.

use agg_host::frame::{ETHERNET, FRAMING, IPV4, Ip, Mac, checksum};

const PROTOCOL_ICMP: u8 = 1;
const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;

/// Makes the answer of an echo request in its place; `false`: it is none.
pub(crate) fn answer(frame: &mut [u8], ip: &Ip, ours: Mac) -> bool {
    // Behind options nobody pings.
    let has_options = ip.payload.start != ETHERNET + IPV4;
    let message = &frame[ip.payload.clone()];
    if ip.protocol != PROTOCOL_ICMP || has_options || message.len() < 8 || message[0] != ECHO {
        return false;
    }
    if checksum(message) != 0 {
        return false;
    }
    frame.copy_within(6..12, 0);
    frame[6..12].copy_from_slice(&ours);
    // The header's sum stays: the same addresses are in it.
    let addresses = ETHERNET + 12;
    frame.copy_within(addresses..addresses + 4, addresses + 4);
    frame[addresses..addresses + 4].copy_from_slice(&ip.to.octets());
    let message = &mut frame[ip.payload.clone()];
    message[0] = ECHO_REPLY;
    message[2..4].fill(0);
    let sum = checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    debug_assert!(ip.payload.start < FRAMING);
    true
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use agg_host::frame::{End, Way};

    use super::*;

    const HERE: End = End {
        mac: [2, 0, 0, 0, 0, 1],
        address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 0),
    };
    const THERE: End = End {
        mac: [2, 0, 0, 0, 0, 2],
        address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 0),
    };

    /// A ping from `from` to `to`, or its answer.
    fn ping(from: End, to: End, kind: u8) -> Vec<u8> {
        let mut message = [kind, 0, 0, 0, 0, 7, 0, 1].to_vec();
        message.extend(b"data");
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut headers = [0; FRAMING];
        Way { from, to }.write(message.len() - 8, &mut headers);
        let mut frame = [&headers[..ETHERNET + IPV4], &message].concat();
        frame[23] = PROTOCOL_ICMP;
        frame[24..26].fill(0);
        let sum = checksum(&frame[ETHERNET..ETHERNET + IPV4]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn a_ping_is_answered() {
        let mut frame = ping(THERE, HERE, ECHO);
        let ip = Ip::read(&frame).unwrap();
        assert!(answer(&mut frame, &ip, HERE.mac));
        assert_eq!(frame, ping(HERE, THERE, ECHO_REPLY));
    }

    #[test]
    fn answers_and_damaged_pings_are_not() {
        let mut frame = ping(THERE, HERE, ECHO_REPLY);
        let ip = Ip::read(&frame).unwrap();
        assert!(!answer(&mut frame, &ip, HERE.mac));
        let mut frame = ping(THERE, HERE, ECHO);
        frame[44] ^= 1;
        assert!(!answer(&mut frame, &ip, HERE.mac));
    }
}

//! A frame around a packet that came through a socket, and what the program made of it.

use std::net::{Ipv4Addr, SocketAddrV4};

use agg_core::wire::packet_len;
use agg_host::frame::{End, Way};
use bpf_layout::{FRAMING, MAX_FRAME, MAX_LANES};

/// Bytes of the largest packet.
pub(crate) const MAX_PACKET: usize = packet_len(MAX_LANES);

const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const _: () = assert!(ETHERNET + IP + UDP == FRAMING && FRAMING + MAX_PACKET == MAX_FRAME);

/// Frames a packet as if it had come through an interface, with room behind it for the longest answer. `None`: it is longer
/// than any packet.
pub(crate) fn wrap(from: SocketAddrV4, to: SocketAddrV4, packet: &[u8]) -> Option<[u8; MAX_FRAME]> {
    if packet.len() > MAX_PACKET {
        return None;
    }
    let mut frame = [0; MAX_FRAME];
    let end = |address: SocketAddrV4| End {
        mac: [0; 6],
        address: address.into(),
    };
    let way = Way::between(&end(from), &end(to))?;
    way.write(None, packet.len(), None, &mut frame);
    frame[FRAMING..FRAMING + packet.len()].copy_from_slice(packet);
    Some(frame)
}

/// Where a frame goes, and the packet in it.
pub(crate) fn unwrap(frame: &[u8]) -> Option<(SocketAddrV4, &[u8])> {
    let (framing, rest) = frame.split_first_chunk::<FRAMING>()?;
    let word = |at: usize| u16::from_be_bytes([framing[at], framing[at + 1]]);
    let ip: [u8; 4] = framing[ETHERNET + 16..ETHERNET + IP].try_into().ok()?;
    let to = SocketAddrV4::new(Ipv4Addr::from(ip), word(ETHERNET + IP + 2));
    let len = usize::from(word(ETHERNET + IP + 4)).checked_sub(UDP)?;
    Some((to, rest.get(..len)?))
}

#[cfg(test)]
mod tests {
    use agg_host::frame::checksum;

    use super::*;

    const FROM: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 5000);
    const TO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4601);

    #[test]
    fn what_is_wrapped_comes_out_again() {
        for len in [0, 1, 56, MAX_PACKET] {
            let packet = vec![7; len];
            let frame = wrap(FROM, TO, &packet).unwrap();
            assert_eq!(unwrap(&frame), Some((TO, packet.as_slice())));
            // The sum over a whole header is zero.
            assert_eq!(checksum(&frame[ETHERNET..ETHERNET + IP]), 0);
        }
        assert_eq!(wrap(FROM, TO, &vec![0; MAX_PACKET + 1]), None);
    }

    #[test]
    fn a_frame_that_is_cut_off_gives_nothing() {
        let frame = wrap(FROM, TO, &[1; 100]).unwrap();
        for len in 0..FRAMING + 100 {
            assert_eq!(unwrap(&frame[..len]), None, "{len}");
        }
    }
}

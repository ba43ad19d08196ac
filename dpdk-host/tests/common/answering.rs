//! How others answer when the aggregator asks for their Ethernet addresses.

use std::net::{Ipv4Addr, SocketAddrV4};

use agg_model::vectors::frame;

/// An ARP reply to the aggregator, in a frame like those of the golden traces, whose Ethernet addresses show the IPv4 addresses.
pub fn arp_reply(from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let at = |ip| SocketAddrV4::new(ip, 0);
    let ethernet = frame::write(at(from), at(to), 0, &[]);
    let (target, sender) = (&ethernet[..6], &ethernet[6..12]);
    [
        target,
        sender,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
        sender,
        &from.octets(),
        target,
        &to.octets(),
    ]
    .concat()
}

/// A frame as the host sends it: no UDP checksum, no padding.
pub fn sent(from: SocketAddrV4, to: SocketAddrV4, packet: &[u8]) -> Vec<u8> {
    let mut frame = frame::write(from, to, 0, packet);
    frame.truncate(42 + packet.len());
    frame[40..42].fill(0);
    frame
}

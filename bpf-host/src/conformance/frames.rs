//! Frames as they must be before and after the program.

use std::net::{Ipv4Addr, SocketAddrV4};

use agg_core::job::Endpoint;
use agg_model::Source;
use agg_model::vectors::frame;
use agg_model::vectors::trace::AGGREGATOR;
use bpf_layout::{FRAMING, MAX_FRAME, Route};

/// The longest frame that the kernel's test run takes without fragments: a page without what lies before and behind a frame.
pub(super) const LONGEST: usize = 4096 - 256 - 320;

/// Where the IPv4 header has its checksum.
const IP_SUM: std::ops::Range<usize> = 24..26;
/// Where the UDP header has its checksum.
const UDP_SUM: std::ops::Range<usize> = 40..42;

/// An IPv4 address in the place of any other that a test made up.
pub(super) fn v4(source: Source) -> Source {
    let (ip, port) = source;
    if ip.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]) {
        return source;
    }
    let address = Ipv4Addr::new(10, 88, ip[0], ip[15]);
    (address.to_ipv6_mapped().octets(), port)
}

/// An address of the program's kind.
pub(super) fn address((ip, port): Source) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]), port)
}

/// An endpoint as a frame has it.
pub(super) fn of_endpoint(endpoint: &Endpoint) -> SocketAddrV4 {
    address((endpoint.ip, endpoint.port))
}

/// A packet as it arrives in a frame of its own length.
pub(super) fn bare(source: SocketAddrV4, packet: &[u8]) -> Vec<u8> {
    frame::write(source, AGGREGATOR, 77, packet)
}

/// The same with room behind it for the longest answer, as the daemon's relay frames it.
pub(super) fn padded(source: SocketAddrV4, packet: &[u8]) -> Vec<u8> {
    let mut frame = bare(source, packet);
    frame.resize(frame.len().max(MAX_FRAME), 0);
    frame
}

/// How frames get to somebody: no two routes have anything in common but the interface.
pub(super) fn route(job: u32, who: u32) -> Route {
    let (job, who) = (job as u8, who as u8);
    Route {
        interface: 1,
        to: [2, 1, job, who, 0, 1],
        from: [2, 2, job, who, 0, 2],
        source: [10, 99, job, who],
        port: 6000 + u16::from(job) * 256 + u16::from(who),
        reserved: [0; 2],
    }
}

/// A frame of the program's: nothing behind the packet.
fn sent(from: SocketAddrV4, to: SocketAddrV4, packet: &[u8]) -> Vec<u8> {
    let mut frame = frame::write(from, to, 0, packet);
    frame.truncate(FRAMING + packet.len());
    frame
}

/// The answer to whom a packet came from.
pub(super) fn reply(source: SocketAddrV4, packet: &[u8]) -> Vec<u8> {
    sent(AGGREGATOR, source, packet)
}

/// What goes a route.
pub(super) fn routed(route: &Route, to: SocketAddrV4, packet: &[u8]) -> Vec<u8> {
    let from = SocketAddrV4::new(Ipv4Addr::from(route.source), route.port);
    let mut frame = sent(from, to, packet);
    frame[..6].copy_from_slice(&route.to);
    frame[6..12].copy_from_slice(&route.from);
    frame
}

/// What is to be cloned for every member, addressed as it came; the clones get the checksum.
pub(super) fn for_all(source: SocketAddrV4, packet: &[u8]) -> Vec<u8> {
    without_ip_sum(&sent(source, AGGREGATOR, packet))
}

/// For what is compared with [`for_all`].
pub(super) fn without_ip_sum(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[IP_SUM].fill(0);
    frame[UDP_SUM].fill(0);
    frame
}

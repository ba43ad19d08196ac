//! What the network says of packets on their way (ECN).
#![cfg(target_os = "linux")]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quinn_udp::{EcnCodepoint, Transmit, UdpSockRef, UdpSocketState};
use udp_io::{Port, PortConfig, RecvBatch, UdpPort};

const LEN: usize = 1000;

/// Sends a train of packets as marked as `ecn` says, and returns how each is received.
fn received(addr: &str, ecn: EcnCodepoint, packets: usize) -> Vec<bool> {
    let addr: SocketAddr = addr.parse().unwrap();
    let to = UdpPort::bind(addr, &PortConfig::default()).unwrap();
    let from = UdpSocket::bind(addr).unwrap();
    let state = UdpSocketState::new(UdpSockRef::from(&from)).unwrap();
    assert!(state.max_gso_segments() >= packets);
    let transmit = Transmit {
        destination: to.local_addr(),
        ecn: Some(ecn),
        contents: &vec![7; packets * LEN],
        segment_size: Some(LEN),
        src_ip: None,
    };
    state.try_send(UdpSockRef::from(&from), &transmit).unwrap();
    let mut batch = RecvBatch::new(&to, LEN);
    let mut marks = Vec::new();
    while marks.len() < packets && to.wait_readable(Duration::from_secs(5)).unwrap() {
        to.recv(&mut batch).unwrap();
        marks.extend(batch.arrivals().map(|arrival| arrival.congested));
    }
    marks
}

/// The kernel says much of a train: the length of its packets, where it was sent to, and its mark, which must not be what is
/// left out.
#[test]
fn ecn_1_marks_are_seen_on_trains_and_single_packets() {
    for addr in ["127.0.0.1:0", "[::1]:0"] {
        for packets in [1, 2, 40] {
            assert_eq!(
                received(addr, EcnCodepoint::Ce, packets),
                vec![true; packets],
                "{addr}"
            );
            assert_eq!(
                received(addr, EcnCodepoint::Ect0, packets),
                vec![false; packets],
                "{addr}"
            );
        }
    }
}

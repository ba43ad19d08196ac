//! One port with several queues: what goes where, who may have the port, and that queues do not fill each other.
#![cfg(any(target_os = "linux", target_os = "android"))]

use std::{
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

use udp_io::{
    Port, PortConfig, PortError, QueueConfig, QueueSet, QueuedPort, RecvBatch, SendBatch, Steering, UdpPort,
};

const STEERING: Steering = Steering {
    prefix: *b"TR",
    shortest: 56,
    at: 8,
};

fn config(queues: usize) -> QueueConfig {
    QueueConfig {
        queues,
        steering: STEERING,
        buffers: PortConfig::default(),
        foreign_buffer: 64 << 10,
    }
}

/// A packet of the protocol, whose deciding byte is `byte`.
fn packet(byte: u8, len: usize) -> Vec<u8> {
    let mut packet = vec![0xa5; len];
    packet[..2].copy_from_slice(b"TR");
    packet[8] = byte;
    packet
}

/// All that waits in a queue.
fn drain(queue: &UdpPort) -> Vec<Vec<u8>> {
    let mut batch = RecvBatch::new(queue, 2000);
    let mut all = Vec::new();
    while queue.recv(&mut batch).unwrap() > 0 {
        all.extend(batch.packets().map(|(_, packet)| packet.to_vec()));
    }
    all
}

/// The number of packets in each queue.
fn lens(port: &QueuedPort) -> Vec<usize> {
    port.queues().iter().map(|queue| drain(queue).len()).collect()
}

/// Over loopback a packet is in its queue when the call that sends it returns.
fn steers(addr: &str) {
    for queues in [2, 3, 8, 64] {
        let port = QueuedPort::bind(addr.parse().unwrap(), &config(queues)).unwrap();
        assert_eq!(port.queues().len(), queues, "the kernel steers");
        let peer = UdpSocket::bind(SocketAddr::new(port.local_addr().ip(), 0)).unwrap();
        for (byte, len) in (0..=255).flat_map(|byte| [(byte, 56), (byte, 1400)]) {
            let sent = packet(byte, len);
            peer.send_to(&sent, port.local_addr()).unwrap();
            let ready = port.wait(Duration::from_secs(5)).unwrap();
            let queue = Steering::queue_of_byte(byte, queues);
            assert!(queue > 0 && queue < queues);
            let mut only = QueueSet::default();
            only.insert(queue);
            assert_eq!(ready, only, "byte {byte} of {len} among {queues}");
            assert_eq!(drain(&port.queues()[queue]), [sent]);
        }
        let [mut magic_0, mut magic_1] = [packet(3, 200), packet(3, 200)];
        (magic_0[0], magic_1[1]) = (b'R', b'T');
        let foreign = [magic_0, magic_1, packet(3, 55), b"TR".to_vec(), b"T".to_vec()];
        for sent in &foreign {
            peer.send_to(sent, port.local_addr()).unwrap();
            assert_eq!(drain(&port.queues()[0]), std::slice::from_ref(sent));
        }
        assert!(port.wait(Duration::ZERO).unwrap().is_empty());
    }
}

#[test]
fn the_byte_decides_on_ipv4() {
    steers("127.0.0.1:0");
}

#[test]
fn the_byte_decides_on_ipv6() {
    match UdpPort::bind("[::1]:0".parse().unwrap(), &PortConfig::default()) {
        Ok(_) => steers("[::1]:0"),
        Err(PortError::NoFamily { .. } | PortError::NotLocal { .. }) => {
            eprintln!("skipped: no IPv6 on this machine");
        }
        Err(error) => panic!("{error}"),
    }
}

/// The kernel looks at a train once.
#[test]
fn the_first_packet_of_a_train_decides() {
    let port = QueuedPort::bind("127.0.0.1:0".parse().unwrap(), &config(4)).unwrap();
    let peer = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &PortConfig::default()).unwrap();
    let mut out = SendBatch::new(100, 1);
    for byte in [2, 0, 1] {
        peer.send(&mut out, port.local_addr(), &packet(byte, 100))
            .unwrap();
    }
    peer.flush(&mut out).unwrap();
    let expected = if peer.gso_segments() > 1 {
        [0, 0, 0, 3]
    } else {
        [0, 1, 1, 1]
    };
    assert_eq!(lens(&port), expected);
}

#[test]
fn every_queue_sends_from_the_same_address() {
    let port = QueuedPort::bind("127.0.0.1:0".parse().unwrap(), &config(3)).unwrap();
    let peer = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &PortConfig::default()).unwrap();
    let (mut out, mut arrived) = (SendBatch::new(10, 1), RecvBatch::new(&peer, 10));
    for queue in port.queues() {
        queue.send(&mut out, peer.local_addr(), &[1]).unwrap();
        queue.flush(&mut out).unwrap();
        assert_eq!(peer.recv(&mut arrived).unwrap(), 1);
        assert!(arrived.packets().all(|(source, _)| source == port.local_addr()));
    }
}

#[test]
fn a_port_with_queues_is_not_shared_by_accident() {
    let port = QueuedPort::bind("127.0.0.1:0".parse().unwrap(), &config(8)).unwrap();
    let plain = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &PortConfig::default()).unwrap();
    let any = |port: &QueuedPort| SocketAddr::new([0, 0, 0, 0].into(), port.local_addr().port());
    for (addr, queues) in [
        (port.local_addr(), 8),
        (port.local_addr(), 1),
        (any(&port), 8),
        (plain.local_addr(), 8),
    ] {
        let error = QueuedPort::bind(addr, &config(queues)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("address {addr} is in use: another aggregator? choose another port")
        );
    }
    // Freed, it can be had again.
    let addr = port.local_addr();
    drop(port);
    QueuedPort::bind(addr, &config(8)).unwrap();
}

#[test]
fn a_full_queue_costs_the_others_no_packet() {
    // A queue holds them even where the kernel grants little.
    const VICTIM: usize = 100;
    let small = QueueConfig {
        buffers: PortConfig {
            receive_buffer: 1 << 20,
            ..PortConfig::default()
        },
        ..config(4)
    };
    let port = QueuedPort::bind("127.0.0.1:0".parse().unwrap(), &small).unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |packet: &[u8]| peer.send_to(packet, port.local_addr()).unwrap();
    // Several times what a queue holds, to the queue of byte 0 and to that of foreign packets; byte 1 in between.
    for i in 0..40 * VICTIM {
        send(&packet(0, 1400));
        send(&[0xff; 1400]);
        if i % 40 == 0 {
            send(&packet(1, 1000));
        }
    }
    let got = lens(&port);
    assert!(
        got[0] < 40 * VICTIM && got[1] < 40 * VICTIM,
        "they overflowed: {got:?}"
    );
    assert!(got[0] < got[1], "queue 0 holds less: {got:?}");
    assert_eq!(got[2..], [VICTIM, 0]);
}

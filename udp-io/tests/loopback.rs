//! Packets over the loopback interface: order, bytes and sizes.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use udp_io::{Port, PortConfig, PortError, RecvBatch, SendBatch, UdpPort, wait_any};

const WAIT: Duration = Duration::from_secs(5);

fn port(addr: &str) -> UdpPort {
    UdpPort::bind(addr.parse().unwrap(), &PortConfig::default()).unwrap()
}

fn local() -> UdpPort {
    port("127.0.0.1:0")
}

/// Receives until `count` packets have arrived, or for `WAIT`.
fn receive(port: &UdpPort, batch: &mut RecvBatch, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut all = Vec::new();
    let start = Instant::now();
    while all.len() < count && start.elapsed() < WAIT {
        port.wait_readable(Duration::from_millis(100)).unwrap();
        let packets = port.recv(batch).unwrap();
        all.extend(batch.packets().map(|(source, packet)| (source, packet.to_vec())));
        assert_eq!(batch.packets().count(), packets);
    }
    all
}

/// A packet whose bytes tell its number.
fn numbered(i: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (i * 31 + at * 7) as u8).collect()
}

fn exchange(from: &UdpPort, to: &UdpPort, sizes: &[usize], in_flight: usize) -> SendBatch {
    let max = *sizes.iter().max().unwrap();
    let (mut out, mut arrived) = (SendBatch::new(max, 4), RecvBatch::new(to, max));
    let packets: Vec<_> = sizes
        .iter()
        .enumerate()
        .map(|(i, &len)| numbered(i, len))
        .collect();
    for group in packets.chunks(in_flight) {
        for packet in group {
            from.send(&mut out, to.local_addr(), packet).unwrap();
        }
        from.flush(&mut out).unwrap();
        assert_eq!(out.last_error().map(|e| e.to_string()), None);
        let got = receive(to, &mut arrived, group.len());
        assert!(got.iter().all(|(source, _)| *source == from.local_addr()));
        assert!(
            got.iter().map(|(_, packet)| packet).eq(group),
            "bytes and order, in a group of {in_flight}"
        );
    }
    assert_eq!(arrived.oversized(), 0);
    out
}

#[test]
fn many_equal_packets_arrive_in_order_in_trains() {
    let (a, b) = (local(), local());
    let out = exchange(&a, &b, &[1088; 6400], 64);
    let counts = out.counts();
    assert_eq!((counts.sent, counts.dropped), (6400, 0));
    if a.gso_segments() >= 64 {
        // 64 packets of 1088 bytes exceed one datagram, so each group is two trains.
        assert_eq!(counts.calls, 200);
    }
}

#[test]
fn odd_sizes_arrive_in_order() {
    let sizes: Vec<usize> = (0..2000)
        .map(|i: usize| 1 + (i / 5 * 7919) % 1400 + i % 5 / 4)
        .collect();
    exchange(&local(), &local(), &sizes, 32);
}

#[test]
fn large_packets_arrive() {
    exchange(&local(), &local(), &[33 << 10; 40], 4);
    exchange(&local(), &local(), &[udp_io::MAX_DATAGRAM; 4], 1);
}

#[test]
fn ipv6_works() {
    let any = "[::1]:0".parse().unwrap();
    let (a, b) = match UdpPort::bind(any, &PortConfig::default()) {
        Ok(a) => (a, port("[::1]:0")),
        Err(PortError::NoFamily { .. } | PortError::NotLocal { .. }) => {
            return eprintln!("skipped: no IPv6 on this machine");
        }
        Err(error) => panic!("{error}"),
    };
    exchange(&a, &b, &[1000; 640], 64);
    assert!(udp_io::path_payload(b.local_addr()).unwrap() >= 1000);
}

#[test]
fn broadcasts_reach_everyone_in_order_and_in_trains() {
    let sender = local();
    let receivers = [local(), local(), local()];
    let everyone: Vec<_> = receivers.iter().map(UdpPort::local_addr).collect();
    let mut out = SendBatch::new(1000, 4);
    for i in 0..50 {
        sender
            .send_to_all(&mut out, &everyone, &numbered(i, 1000))
            .unwrap();
    }
    assert_eq!(sender.flush(&mut out).unwrap(), 150);
    if sender.gso_segments() >= 64 {
        assert_eq!(out.counts().calls, 3);
    }
    for receiver in &receivers {
        let got = receive(receiver, &mut RecvBatch::new(receiver, 1000), 50);
        assert!(
            got.iter()
                .map(|(_, packet)| packet.clone())
                .eq((0..50).map(|i| numbered(i, 1000)))
        );
    }
}

#[test]
fn packets_that_cannot_be_sent_are_counted_and_harm_nothing() {
    let (a, b) = (local(), local());
    let segments = a.gso_segments();
    let mut out = SendBatch::new(100, 4);
    for bad in ["127.0.0.1:0", "[::1]:4000"] {
        for _ in 0..2 {
            a.send(&mut out, bad.parse().unwrap(), &[0; 100]).unwrap();
        }
    }
    a.send(&mut out, b.local_addr(), &[1; 100]).unwrap();
    assert_eq!(a.flush(&mut out).unwrap(), 1);
    assert_eq!((out.counts().sent, out.counts().dropped), (1, 4));
    assert!(out.last_error().is_some());
    assert_eq!(
        a.gso_segments(),
        segments,
        "a stranger's port 0 must not turn GSO off"
    );
    assert_eq!(receive(&b, &mut RecvBatch::new(&b, 100), 1).len(), 1);
}

#[test]
fn a_peer_that_is_not_there_is_no_error() {
    let a = local();
    let gone = local().local_addr();
    let mut out = SendBatch::new(100, 4);
    let mut arrived = RecvBatch::new(&a, 100);
    for _ in 0..20 {
        a.send(&mut out, gone, &[0; 100]).unwrap();
        a.flush(&mut out).unwrap();
        assert_eq!(a.recv(&mut arrived).unwrap(), 0);
    }
}

#[test]
fn packets_longer_than_the_batch_are_counted_and_dropped() {
    let (a, b) = (local(), local());
    let mut out = SendBatch::new(300, 4);
    a.send(&mut out, b.local_addr(), &[1; 300]).unwrap();
    a.send(&mut out, b.local_addr(), &[2; 200]).unwrap();
    a.flush(&mut out).unwrap();
    a.send(&mut out, b.local_addr(), &[3; 200]).unwrap();
    a.flush(&mut out).unwrap();
    let mut arrived = RecvBatch::new(&b, 200);
    let got = receive(&b, &mut arrived, 1);
    assert!(!got.is_empty() && got.iter().all(|(_, packet)| packet.len() == 200));
    assert!(arrived.oversized() >= 1);
    assert_eq!(got.len() as u64 + arrived.oversized(), 3);
}

#[test]
fn a_receive_takes_no_more_buffers_than_asked_and_tells_what_it_took() {
    let (a, b) = (local(), local());
    let mut out = SendBatch::new(300, 1);
    for len in [100, 300, 0, 50] {
        a.send(&mut out, b.local_addr(), &vec![1; len]).unwrap();
        a.flush(&mut out).unwrap();
    }
    let mut arrived = RecvBatch::new(&b, 200);
    let mut took = |buffers| {
        let packets = arrived.recv_some(&b, buffers).unwrap();
        (packets, arrived.buffers(), arrived.bytes(), arrived.drained())
    };
    assert_eq!(took(1), (1, 1, 100, false));
    // One is too long, one is empty.
    assert_eq!(
        took(2),
        (0, 2, if b.gro_segments() > 1 { 300 } else { 201 }, false)
    );
    assert_eq!(took(0), (1, 1, 50, false));
    assert_eq!(took(1), (0, 0, 0, true));
    a.send(&mut out, b.local_addr(), &[1; 10]).unwrap();
    a.flush(&mut out).unwrap();
    assert_eq!(took(2), (1, 1, 10, true));
}

#[test]
fn an_address_in_use_says_what_to_do() {
    let taken = local();
    let addr = taken.local_addr();
    let error = UdpPort::bind(addr, &PortConfig::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("address {addr} is in use: another aggregator? choose another port")
    );
    let elsewhere = UdpPort::bind("192.0.2.1:4000".parse().unwrap(), &PortConfig::default()).unwrap_err();
    assert_eq!(
        elsewhere.to_string(),
        "address 192.0.2.1:4000 is not one of this machine: use one that `ip address` lists, or 0.0.0.0:4000 for all"
    );
}

#[test]
fn waits_end_in_time_or_with_a_packet() {
    let (a, b, c) = (local(), local(), local());
    let start = Instant::now();
    assert!(!a.wait_readable(Duration::from_micros(300)).unwrap());
    let waited = start.elapsed();
    assert!(
        waited >= Duration::from_micros(300) && waited < Duration::from_millis(200),
        "{waited:?}"
    );
    assert!(!wait_any(&[&a, &b], Duration::ZERO).unwrap());

    let mut out = SendBatch::new(10, 1);
    c.send(&mut out, b.local_addr(), &[0; 10]).unwrap();
    c.flush(&mut out).unwrap();
    assert!(wait_any(&[&a, &b], WAIT).unwrap());
    assert!(!a.wait_readable(Duration::ZERO).unwrap());
}

#[test]
fn the_granted_buffer_is_reported() {
    let config = PortConfig {
        receive_buffer: 100_000,
        send_buffer: 50_000,
        ..PortConfig::default()
    };
    let port = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &config).unwrap();
    assert!(port.receive_buffer() >= 100_000, "{}", port.receive_buffer());
    assert!(port.send_buffer() >= 50_000, "{}", port.send_buffer());
}

/// Only root may ask for it: else it stays as it was, which is no error.
#[test]
#[cfg(target_os = "linux")]
fn busy_polling_is_asked_for_where_it_is_permitted() {
    let any = "127.0.0.1:0".parse().unwrap();
    let before = UdpPort::bind(any, &PortConfig::default()).unwrap().busy_poll();
    let asked = before + Duration::from_micros(70);
    let config = PortConfig {
        busy_poll: asked,
        ..PortConfig::default()
    };
    let port = UdpPort::bind(any, &config).unwrap();
    let probe = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    let is_permitted = probe.set_busy_poll(asked.as_micros() as u32).is_ok();
    assert_eq!(port.busy_poll(), if is_permitted { asked } else { before });
}

//! Faulty ports on loopback.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use udp_io::{FaultConfig, FaultyPort, Port, PortConfig, Probability, RecvBatch, SendBatch, UdpPort};

fn local() -> UdpPort {
    UdpPort::bind("127.0.0.1:0".parse().unwrap(), &PortConfig::default()).unwrap()
}

fn p(p: f64) -> Probability {
    Probability::new(p).unwrap()
}

/// Sends the numbers 0..count, and returns those that arrive, in order of arrival.
fn pass(from: &impl Port, to: &impl Port, count: u32) -> Vec<u32> {
    let (mut out, mut arrived) = (SendBatch::new(64, 4), RecvBatch::new(to.udp(), 64));
    let mut got = Vec::new();
    let mut drain = |wait| {
        while to.wait_readable(wait).unwrap() {
            to.recv(&mut arrived).unwrap();
            got.extend(
                arrived
                    .packets()
                    .map(|(_, packet)| u32::from_le_bytes(packet[..4].try_into().unwrap())),
            );
        }
    };
    for i in 0..count {
        let mut packet = [0; 64];
        packet[..4].copy_from_slice(&i.to_le_bytes());
        from.send(&mut out, to.local_addr(), &packet).unwrap();
        if i % 100 == 99 {
            from.flush(&mut out).unwrap();
            drain(Duration::ZERO);
        }
    }
    from.flush(&mut out).unwrap();
    assert_eq!((out.counts().sent, out.counts().dropped), (u64::from(count), 0));
    // What the sender holds back leaves while it waits.
    from.wait_readable(Duration::from_millis(5)).unwrap();
    drain(Duration::from_millis(100));
    got
}

#[test]
fn loss_when_sending_is_as_asked_and_the_same_in_each_run() {
    let config = FaultConfig {
        loss: p(0.1),
        seed: 42,
        ..Default::default()
    };
    let run = || {
        let from = FaultyPort::new(local(), config);
        let got = pass(&from, &local(), 5000);
        (got, from.faults())
    };
    let (got, faults) = run();
    assert_eq!(faults.sent.packets, 5000);
    assert_eq!(got.len() as u64, 5000 - faults.sent.lost);
    // 500 expected; five standard deviations are 106.
    assert!(faults.sent.lost.abs_diff(500) < 106, "{faults:?}");
    assert_eq!((got, faults), run());
}

#[test]
fn loss_when_receiving_is_counted_on_that_side() {
    let to = FaultyPort::new(
        local(),
        FaultConfig {
            loss: p(0.05),
            seed: 1,
            ..Default::default()
        },
    );
    let got = pass(&local(), &to, 2000);
    let faults = to.faults();
    assert_eq!(faults.sent.packets, 0);
    assert_eq!(faults.received.packets, 2000);
    assert_eq!(got.len() as u64, 2000 - faults.received.lost);
}

#[test]
fn duplicated_and_reordered_packets_all_arrive() {
    let config = FaultConfig {
        duplicate: p(0.1),
        reorder: p(0.1),
        seed: 5,
        ..Default::default()
    };
    let (from, to) = (
        FaultyPort::new(local(), config),
        Arc::new(FaultyPort::new(local(), config)),
    );
    let mut got = pass(&from, &to, 3000);
    assert!(!got.is_sorted());
    let copies = from.faults().sent.duplicated + to.faults().received.duplicated;
    assert_eq!(got.len() as u64, 3000 + copies);
    got.sort_unstable();
    got.dedup();
    assert!(got.into_iter().eq(0..3000));
}

#[test]
fn delay_is_kept_and_waiting_ends_with_it() {
    let delay = Duration::from_millis(20);
    let to = FaultyPort::new(
        local(),
        FaultConfig {
            delay: Some(delay),
            ..Default::default()
        },
    );
    let from = local();
    let mut out = SendBatch::new(10, 1);
    let mut arrived = RecvBatch::new(to.udp(), 10);
    from.send(&mut out, to.local_addr(), &[0; 10]).unwrap();
    let start = Instant::now();
    from.flush(&mut out).unwrap();
    let mut packets = 0;
    while packets == 0 && to.wait_readable(Duration::from_secs(5)).unwrap() {
        packets = to.recv(&mut arrived).unwrap();
    }
    assert_eq!(packets, 1);
    assert!(
        start.elapsed() >= delay && start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn corruption_flips_exactly_one_bit() {
    let from = FaultyPort::new(
        local(),
        FaultConfig {
            corrupt: Probability::ALWAYS,
            ..Default::default()
        },
    );
    let to = local();
    let mut out = SendBatch::new(100, 1);
    let mut arrived = RecvBatch::new(&to, 100);
    from.send(&mut out, to.local_addr(), &[0; 100]).unwrap();
    from.flush(&mut out).unwrap();
    assert!(to.wait_readable(Duration::from_secs(5)).unwrap());
    to.recv(&mut arrived).unwrap();
    let ones: u32 = arrived
        .packets()
        .flat_map(|(_, packet)| packet)
        .map(|byte| byte.count_ones())
        .sum();
    assert_eq!(ones, 1);
}

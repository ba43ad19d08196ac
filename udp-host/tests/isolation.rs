//! What one sender does to a host does not reach the packets of others.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agg_core::wire::{Flags, Header, Kind};
use agg_core::{Epoch, Exponent, MemberSet, Round};
use udp_host::{HostConfig, UdpHost, queue_of};

#[test]
fn a_second_host_on_a_port_is_refused() {
    let first = UdpHost::start(&HostConfig::loopback()).unwrap();
    let second = HostConfig {
        data_addr: first.data_addr(),
        ..HostConfig::loopback()
    };
    assert_eq!(
        UdpHost::start(&second).unwrap_err().to_string(),
        format!(
            "address {} is in use: another aggregator? choose another port",
            first.data_addr()
        )
    );
}

#[test]
fn a_number_of_queues_that_cannot_be_is_refused() {
    for queues in [0, 1, 65] {
        let config = HostConfig {
            queues,
            ..HostConfig::loopback()
        };
        assert_eq!(
            UdpHost::start(&config).unwrap_err().to_string(),
            format!("queues = {queues} is out of range: give 2 to 64")
        );
    }
}

/// A socket cuts such a datagram: the aggregator does not see it.
#[test]
fn a_datagram_longer_than_any_packet_is_counted() {
    let host = UdpHost::start(&HostConfig::loopback()).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&[0; 40_000], host.data_addr()).unwrap();
    let began = Instant::now();
    while counter(&host, "dropped_bad_length") == 0 {
        assert!(began.elapsed() < PATIENCE, "{:?}", host.counters());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(counter(&host, "dropped_bad_length"), 1);
}

/// For what should take a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(20);

fn packet(key: u64) -> Vec<u8> {
    let header = Header {
        kind: Kind::Data,
        flags: Flags::UP,
        member: 0,
        slot: 0,
        key,
        epoch: Epoch(1),
        round: Round(0),
        set: MemberSet::single(0),
        workers: 1,
        scale: Exponent::NONE,
        next: Exponent::NONE,
        op: 1 << 56,
        op_seq: 0,
    };
    let mut packet = header.emit().to_vec();
    packet.resize(1080, 0);
    packet
}

fn counter(host: &UdpHost, name: &str) -> u64 {
    let shards = host.counters();
    let values = shards.iter().flat_map(|shard| &shard.values);
    values
        .filter(|(found, _)| found == name)
        .map(|(_, value)| value)
        .sum()
}

/// The victim's packets are told from the flood by what is wrong with each: no job has the one's key, the others'
/// headers are damaged or none at all.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn a_flood_costs_another_queue_no_packet() {
    const BURSTS: u64 = 25;
    // Fewer than its queue holds even where the kernel grants little, so that it does not matter who runs when.
    const BURST: u64 = 60;
    let (victim, flooder) = (packet(0x1_00), packet(0x1_01));
    let host = UdpHost::start(&HostConfig::loopback()).unwrap();
    assert_ne!(queue_of(0x1_00, 8), queue_of(0x1_01, 8));
    let mut damaged = flooder;
    damaged[20] ^= 1;
    let to = host.data_addr();
    let over = AtomicBool::new(false);
    let flood = |packet: &[u8]| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        while !over.load(Ordering::Relaxed) {
            socket.send_to(packet, to).unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&damaged));
        scope.spawn(|| flood(&[0xff; 1080]));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let start = Instant::now();
        for burst in 1..=BURSTS {
            for _ in 0..BURST {
                socket.send_to(&victim, to).unwrap();
            }
            while counter(&host, "dropped_unknown_job") < burst * BURST && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(counter(&host, "dropped_unknown_job"), BURSTS * BURST);
    assert!(counter(&host, "dropped_bad_checksum") > 0);
    assert!(
        counter(&host, "dropped_not_tributary") > 0,
        "the foreign are still counted"
    );
}

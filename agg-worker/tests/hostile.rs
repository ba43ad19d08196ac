//! Anything at all may arrive at the aggregator's port: it changes nothing but counters (R-VALID).

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind, MAGIC, packet_len};
use agg_core::{Epoch, Exponent, MemberSet, Round};
use agg_worker::{Communicator, Config};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use udp_host::{HostConfig, UdpHost};

const LANES: usize = 352;
const RANKS: u32 = 3;

/// One hostile packet: noise, a damaged header, or a well-formed header that lies.
fn packet(random: &mut SmallRng) -> Vec<u8> {
    let mut bytes = vec![0; packet_len(LANES)];
    random.fill_bytes(&mut bytes);
    let header = Header {
        kind: [Kind::Data, Kind::Want, Kind::Refusal][random.random_range(0..3)],
        flags: Flags::UP.with(Flags::RESULT.when(random.random())),
        member: random.random_range(0..4),
        slot: random.random_range(0..300),
        key: random.random(),
        epoch: Epoch(random.random()),
        round: Round(random.random_range(0..9)),
        set: MemberSet(random.random_range(0..16)),
        workers: random.random_range(0..5),
        scale: Exponent::NONE,
        next: Exponent::NONE,
        op: random.random(),
        op_seq: random.random_range(0..3),
    };
    match random.random_range(0..5) {
        0 => bytes.truncate(random.random_range(1..HEADER_LEN)),
        1 => bytes[..2].copy_from_slice(&MAGIC),
        2 => bytes[..HEADER_LEN].copy_from_slice(&header.emit()),
        3 => {
            bytes[..HEADER_LEN].copy_from_slice(&header.emit());
            bytes[random.random_range(0..HEADER_LEN)] ^= 1 << random.random_range(0..8);
        }
        _ => {
            bytes[..HEADER_LEN].copy_from_slice(&header.emit());
            bytes.truncate(random.random_range(HEADER_LEN..packet_len(LANES)));
        }
    }
    bytes
}

fn reduce(host: &UdpHost, world: &str) -> Vec<Vec<u32>> {
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..RANKS)
            .map(|rank| {
                let config = Config::new(world, rank, RANKS).with_aggregator(host.control_addr().to_string());
                let config = Config {
                    lanes: Some(LANES as u32),
                    ..config
                };
                scope.spawn(move || {
                    let mut rank = Communicator::connect(config).unwrap();
                    let mut tensor: Vec<f32> = (0..200_000)
                        .map(|index| ((index * 7 + rank.rank()) % 1000) as f32 / 37.0)
                        .collect();
                    rank.all_reduce(&mut tensor).unwrap();
                    rank.close().unwrap();
                    tensor.iter().map(|value| value.to_bits()).collect()
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn noise_and_lies_change_nothing_but_counters() {
    let host = UdpHost::start(&HostConfig::loopback()).unwrap();
    let calm = reduce(&host, "calm");
    let stop = AtomicBool::new(false);
    let (under_fire, sent) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut random = SmallRng::seed_from_u64(1);
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) && sent < 200_000 {
                // A full buffer at the other end is not this test's concern.
                let _ = socket.send_to(&packet(&mut random), host.data_addr());
                sent += 1;
            }
            sent
        });
        let results = reduce(&host, "under fire");
        stop.store(true, Ordering::Relaxed);
        (results, flood.join().unwrap())
    });
    assert!(calm.iter().chain(&under_fire).all(|bits| *bits == calm[0]));
    let counters = agg_control::total(&host.counters());
    for name in [
        "dropped_bad_length",
        "dropped_not_tributary",
        "dropped_bad_checksum",
        "dropped_unknown_job",
    ] {
        let value = counters
            .iter()
            .find(|(known, _)| known == name)
            .map_or(0, |(_, value)| *value);
        assert!(value > 0, "{name} after {sent} hostile packets: {counters:?}");
    }
}

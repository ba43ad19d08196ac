//! Which receive queue of a shard a job has, so that none loses packets to another's load.

use agg_core::wire::{HEADER_LEN, MAGIC};
use udp_io::Steering;

/// The kernel finds a packet's queue by the low byte of its key; what is no packet at all goes to queue 0, which no
/// job has.
pub(crate) const STEERING: Steering = Steering {
    prefix: MAGIC,
    shortest: HEADER_LEN as u32,
    // The key is little-endian, at offset 8 (R-WIRE-1).
    at: 8,
};

/// The queue of the job with this key, where each shard has `queues`.
pub fn queue_of(key: u64, queues: usize) -> usize {
    Steering::queue_of_byte(key as u8, queues)
}

/// A key like `random` for a new job, whose queue is one that the fewest of the jobs with the keys `running` have. Only
/// its low byte may differ from that of `random`.
pub fn spread(random: u64, running: impl IntoIterator<Item = u64>, queues: usize) -> u64 {
    let others = queues.saturating_sub(1).clamp(1, 256);
    let mut jobs = vec![0_usize; others];
    for key in running {
        jobs[usize::from(key as u8) % others] += 1;
    }
    let low = usize::from(random as u8);
    // From the queue that it has by chance on, so that hosts which know nothing of each other differ.
    let chosen = (0..others)
        .map(|step| (low + step) % others)
        .min_by_key(|queue| jobs[*queue])
        .unwrap_or(0);
    // Of the bytes that mean this queue any will do.
    let alike = (255 - chosen) / others + 1;
    let byte = chosen + others * (low / others % alike);
    let key = random & !0xff | byte as u64;
    // No key is 0.
    if key == 0 { 1 << 8 } else { key }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agg_core::wire::{Flags, Header, Kind};
    use agg_core::{Epoch, Exponent, MemberSet, Round};
    use std::net::UdpSocket;
    use std::time::Duration;
    use udp_io::{Port, PortConfig, QueueConfig, QueueSet, QueuedPort, RecvBatch};

    /// Any generator will do: these need only differ (Knuth's MMIX constants).
    fn keys() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(1_u64), |key| {
            Some(
                key.wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407),
            )
        })
        .map(|state| state.rotate_left(23))
    }

    #[test]
    fn jobs_are_spread_evenly_over_all_queues_but_the_first() {
        for queues in [2, 3, 8, 13, 64] {
            let mut running = Vec::new();
            for random in keys().take(200) {
                let key = spread(random, running.iter().copied(), queues);
                assert!(key != 0 && key >> 8 == random >> 8);
                running.push(key);
                let mut jobs = vec![0; queues];
                for key in &running {
                    jobs[queue_of(*key, queues)] += 1;
                }
                assert_eq!(jobs[0], 0);
                let (least, most) = (jobs[1..].iter().min(), jobs[1..].iter().max());
                assert!(most.zip(least).is_some_and(|(m, l)| m - l <= 1), "{jobs:?}");
            }
        }
    }

    /// It would be a pity if a host's keys could be told from each other's queues alone.
    #[test]
    fn the_low_byte_of_a_key_stays_random() {
        let mut bytes = [false; 256];
        for random in keys().take(8000) {
            bytes[usize::from(spread(random, [], 8) as u8)] = true;
        }
        assert!(bytes.iter().all(|seen| *seen));
        assert_ne!(spread(0, [], 8), 0);
    }

    /// What the kernel does with the packets that the core makes.
    #[test]
    fn a_packet_comes_to_the_queue_of_its_key() {
        const QUEUES: usize = 8;
        let config = QueueConfig {
            queues: QUEUES,
            steering: STEERING,
            buffers: PortConfig::default(),
            foreign_buffer: 64 << 10,
        };
        let port = QueuedPort::bind("127.0.0.1:0".parse().unwrap(), &config).unwrap();
        if port.queues().len() < QUEUES {
            return eprintln!("skipped: this system does not sort packets");
        }
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut batch = RecvBatch::new(&port.queues()[0], 2000);
        for key in keys().take(300) {
            let header = Header {
                kind: Kind::Data,
                flags: Flags::UP,
                member: 0,
                slot: 1,
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
            peer.send_to(&header.emit(), port.local_addr()).unwrap();
            let mut only = QueueSet::default();
            only.insert(queue_of(key, QUEUES));
            assert_eq!(port.wait(Duration::from_secs(5)).unwrap(), only, "key {key:#x}");
            let queue = &port.queues()[queue_of(key, QUEUES)];
            assert_eq!(queue.recv(&mut batch).unwrap(), 1);
        }
    }
}

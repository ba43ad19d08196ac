//! What the network does to packets.

use crate::Source;
use crate::harness::random::Random;
use crate::packet::HEADER;

/// What the network does. Chances are in a thousand.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named by what happens")]
pub struct Weather {
    pub loss: u64,
    pub duplicate: u64,
    pub damage: u64,
    /// Packets take 10 µs and up to this much more, in ns.
    pub jitter: u64,
    /// A copy may come up to this much later still, in ns: long after its operation.
    pub straggle: u64,
    /// An aggregator starts anew, with empty memory, before so many of a thousand packets that reach one.
    pub restart: u64,
    /// How often that happens at most.
    pub restarts: u32,
}

impl Weather {
    /// Nothing happens.
    pub const FAIR: Self = Self {
        loss: 0,
        duplicate: 0,
        damage: 0,
        jitter: 1,
        straggle: 1,
        restart: 0,
        restarts: 0,
    };
    /// Everything but restarts.
    pub const FOUL: Self = Self {
        loss: 100,
        duplicate: 100,
        damage: 50,
        jitter: 300_000,
        straggle: 50_000_000,
        restart: 0,
        restarts: 0,
    };
}

/// What comes besides a packet: a copy with bits flipped in its header, shorter, longer or from a stranger. Values are not
/// damaged: UDP's checksum sees to those (R-WIRE-3).
pub(super) fn damage(random: &mut Random, source: Source, bytes: &[u8]) -> (Source, Vec<u8>) {
    let mut bytes = bytes.to_vec();
    match random.below(4) {
        0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
        1 => bytes.push(0),
        2 => return ((source.0, source.1 + 1000), bytes),
        _ => {
            for _ in 0..=random.below(3) {
                bytes[random.below(HEADER as u64) as usize] ^= 1 << random.below(8);
            }
        }
    }
    (source, bytes)
}

//! One direction of a faulty port.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    time::{Duration, Instant},
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::{FaultConfig, Probability};
use crate::Arrival;

/// A reordered packet waits for at most this many later ones...
const MAX_OVERTAKERS: u64 = 4;
/// ...and no longer than this, as there may be no later ones.
const MAX_HOLD: Duration = Duration::from_millis(1);
/// Most packets held back, as the queue of a real link is finite. `tc-netem(8)` has such a limit too.
const LIMIT: usize = 1 << 16;

/// What fault injection did to the packets of one direction. A packet can meet several faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Packets that came in.
    pub packets: u64,
    /// Lost on purpose.
    pub lost: u64,
    /// Sent on twice.
    pub duplicated: u64,
    /// Copies held back for later ones to overtake.
    pub reordered: u64,
    /// Copies with a flipped bit.
    pub corrupted: u64,
    /// Copies lost because too many were held back already (by `delay`, for a reader that does not keep up).
    pub overflowed: u64,
}

/// A packet on its way, and where it comes from or goes to: what is an [`Arrival`] at both ends.
struct Packet {
    peer: SocketAddr,
    congested: bool,
    bytes: Vec<u8>,
}

/// What happens to one copy of a packet.
struct Fate {
    /// A random number that chooses the bit to flip, if any.
    flip: Option<u64>,
    /// How many later packets go first, if it is held back.
    overtakers: Option<u64>,
}

/// Takes packets in, and gives out what is left of them when its time has come.
pub(super) struct Line {
    config: FaultConfig,
    rng: ChaCha8Rng,
    /// On their way, by due time: the delay is the same for all, so this is the order of entering.
    queue: VecDeque<(Instant, Packet)>,
    /// Held back until that many have passed, or that time.
    held: Vec<(u64, Instant, Packet)>,
    passed: u64,
    /// Buffers of packets that have left.
    spare: Vec<Vec<u8>>,
    counts: FaultCounts,
}

impl Line {
    /// A line with the random numbers of `stream`, so that both directions of one seed differ.
    pub(super) fn new(config: FaultConfig, stream: u64) -> Line {
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
        rng.set_stream(stream);
        Line {
            config,
            rng,
            queue: VecDeque::new(),
            held: Vec::new(),
            passed: 0,
            spare: Vec::new(),
            counts: FaultCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Takes a packet in.
    pub(super) fn enter(&mut self, arrival: Arrival<'_>, now: Instant) {
        // All draws are made for every packet, so that neither the probability of one fault nor the clock moves
        // where the others strike.
        let lost = self.strikes(self.config.loss);
        let duplicated = self.strikes(self.config.duplicate);
        let fates = [self.draw_fate(), self.draw_fate()];
        self.counts.packets += 1;
        if lost {
            self.counts.lost += 1;
            return;
        }
        self.counts.duplicated += u64::from(duplicated);
        for fate in &fates[..1 + usize::from(duplicated)] {
            self.enter_copy(arrival, fate, now);
        }
    }

    fn draw_fate(&mut self) -> Fate {
        let (corrupt, bit) = (self.strikes(self.config.corrupt), self.rng.next_u64());
        let (reorder, overtakers) = (
            self.strikes(self.config.reorder),
            1 + self.rng.next_u64() % MAX_OVERTAKERS,
        );
        Fate {
            flip: corrupt.then_some(bit),
            overtakers: reorder.then_some(overtakers),
        }
    }

    fn enter_copy(&mut self, arrival: Arrival<'_>, fate: &Fate, now: Instant) {
        let bytes = arrival.bytes;
        if self.queue.len() + self.held.len() >= LIMIT {
            self.counts.overflowed += 1;
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        if let Some(random) = fate.flip.filter(|_| !bytes.is_empty()) {
            self.counts.corrupted += 1;
            let bit = (random % (8 * copy.len() as u64)) as usize;
            copy[bit / 8] ^= 1 << (bit % 8);
        }
        let packet = Packet {
            peer: arrival.source,
            congested: arrival.congested,
            bytes: copy,
        };
        match fate.overtakers {
            Some(overtakers) => {
                self.counts.reordered += 1;
                self.held.push((self.passed + overtakers, now + MAX_HOLD, packet));
            }
            None => {
                self.queue.push_back((self.due(now), packet));
                self.passed += 1;
                self.release_held(now);
            }
        }
    }

    /// Sends those held back on their way whose time has come.
    fn release_held(&mut self, now: Instant) {
        let (passed, due) = (self.passed, self.due(now));
        let queue = &mut self.queue;
        let released = self
            .held
            .extract_if(.., |(until, deadline, _)| *until <= passed || *deadline <= now);
        queue.extend(released.map(|(_, _, packet)| (due, packet)));
    }

    fn due(&self, now: Instant) -> Instant {
        now + self.config.delay.unwrap_or_default()
    }

    /// Gives what is due to `deliver`, in order, until it answers `false` to mean it has no room.
    pub(super) fn leave(&mut self, now: Instant, mut deliver: impl FnMut(Arrival<'_>) -> bool) {
        self.release_held(now);
        while let Some((due, packet)) = self.queue.front() {
            let arrival = Arrival {
                source: packet.peer,
                congested: packet.congested,
                bytes: &packet.bytes,
            };
            if *due > now || !deliver(arrival) {
                break;
            }
            self.spare
                .extend(self.queue.pop_front().map(|(_, packet)| packet.bytes));
        }
    }

    /// When the next packet is due: in the past if it is overdue, `None` if there is none.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let queued = self.queue.front().map(|(due, _)| *due);
        // One held back travels on when its time has come; only then does its delay begin.
        let held = self.held.iter().map(|(_, deadline, _)| *deadline).min();
        queued.into_iter().chain(held).min()
    }

    /// Whether the first packet of the queue is due.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.release_held(now);
        self.queue.front().is_some_and(|(due, _)| *due <= now)
    }

    /// Draws whether an event of probability `p` happens.
    fn strikes(&mut self, p: Probability) -> bool {
        // 53 random bits as a number in 0..1: 0 never strikes, 1 always.
        let uniform = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        uniform < p.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    fn arrival(bytes: &[u8]) -> Arrival<'_> {
        Arrival {
            source: PEER,
            congested: false,
            bytes,
        }
    }

    fn p(p: f64) -> Probability {
        Probability::new(p).unwrap()
    }

    /// Passes the numbers 0..count through a line, then waits until all are out.
    fn pass(config: FaultConfig, count: u32) -> (Vec<Vec<u8>>, FaultCounts) {
        let mut line = Line::new(config, 0);
        let mut out = Vec::new();
        let mut now = Instant::now();
        for i in 0..count {
            line.enter(arrival(&i.to_le_bytes()), now);
        }
        while let Some(due) = line.next_due() {
            now = now.max(due);
            line.leave(now, |left| {
                out.push(left.bytes.to_vec());
                true
            });
        }
        (out, line.counts())
    }

    #[test]
    fn without_faults_everything_passes_in_order() {
        let (out, counts) = pass(FaultConfig::default(), 1000);
        assert_eq!(
            out,
            (0..1000u32).map(|i| i.to_le_bytes().to_vec()).collect::<Vec<_>>()
        );
        assert_eq!(
            counts,
            FaultCounts {
                packets: 1000,
                ..FaultCounts::default()
            }
        );
    }

    #[test]
    fn rates_are_as_asked() {
        let config = FaultConfig {
            loss: p(0.01),
            duplicate: p(0.02),
            reorder: p(0.03),
            corrupt: p(0.04),
            seed: 7,
            delay: None,
        };
        let n = 50_000;
        let (out, counts) = pass(config, n);
        // Five standard deviations of a binomial count.
        let near = |count: u64, p: f64| {
            let mean = f64::from(n) * p;
            assert!(
                (count as f64 - mean).abs() < 5.0 * (mean * (1.0 - p)).sqrt() + 0.02 * mean,
                "{count} of {p}"
            );
        };
        near(counts.lost, 0.01);
        near(counts.duplicated, 0.02);
        near(counts.reordered, 0.03);
        near(counts.corrupted, 0.04);
        assert_eq!(counts.overflowed, 0);
        assert_eq!(out.len() as u64, u64::from(n) - counts.lost + counts.duplicated);
    }

    #[test]
    fn the_same_seed_strikes_the_same_packets_and_another_others() {
        let config = FaultConfig {
            loss: p(0.1),
            duplicate: p(0.1),
            reorder: p(0.1),
            seed: 1,
            ..Default::default()
        };
        assert_eq!(pass(config, 1000), pass(config, 1000));
        assert_ne!(pass(config, 1000), pass(FaultConfig { seed: 2, ..config }, 1000));
        // Another fault in addition leaves those as they were.
        let (_, counts) = pass(config, 1000);
        let (_, with_corruption) = pass(
            FaultConfig {
                corrupt: p(0.5),
                ..config
            },
            1000,
        );
        assert!(with_corruption.corrupted > 0);
        assert_eq!(
            counts,
            FaultCounts {
                corrupted: 0,
                ..with_corruption
            }
        );
    }

    #[test]
    fn a_reordered_packet_arrives_after_the_following_few() {
        let config = FaultConfig {
            reorder: p(0.05),
            seed: 3,
            ..Default::default()
        };
        let (out, counts) = pass(config, 10_000);
        let order: Vec<u64> = out
            .iter()
            .map(|b| u64::from(u32::from_le_bytes(b[..].try_into().unwrap())))
            .collect();
        assert!(counts.reordered > 100);
        assert_ne!(order, (0..10_000).collect::<Vec<_>>());
        // Packets held meanwhile do not count as having passed, hence some slack.
        assert!(
            order
                .iter()
                .enumerate()
                .all(|(at, &i)| i.abs_diff(at as u64) <= 4 * MAX_OVERTAKERS)
        );
    }

    #[test]
    fn the_last_packet_is_not_held_for_ever_and_delay_is_kept() {
        let delay = Duration::from_millis(5);
        let config = FaultConfig {
            reorder: Probability::ALWAYS,
            delay: Some(delay),
            ..Default::default()
        };
        let mut line = Line::new(config, 0);
        let start = Instant::now();
        line.enter(arrival(&[1]), start);
        assert_eq!(line.next_due(), Some(start + MAX_HOLD));
        assert!(!line.is_due(start + MAX_HOLD));
        assert!(line.is_due(start + MAX_HOLD + delay));
    }
}

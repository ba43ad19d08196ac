//! The first window of an operation leaves in bursts, not all at once (R-CC-7). Afterwards results are the clock.

use crate::Nanos;

/// A burst is as long as a train that hosts hand to the kernel or a NIC at once: 64 packets ...
const PACKETS: u32 = 64;
/// ... or so many bytes, if these are fewer.
const BYTES: u32 = 1 << 16;

/// Less time between two bursts is not worth a timer.
const SHORTEST: Nanos = 100_000;

/// Bursts follow each other so much faster than results would let them: pacing at just their rate would never find that
/// the way has become faster (BBR has up to 2.77, Linux TCP 1.2 to 2).
const GAIN: u64 = 2;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Pacing {
    /// Chunks of a burst.
    burst: u32,
    /// Time from one burst to the next; 0 where all may go.
    gap: Nanos,
    /// Chunks that may still leave with this burst.
    left: u32,
    /// Chunks that are left to be paced.
    paced: u32,
    next_at: Nanos,
    /// Something waits for the next burst.
    waits: bool,
}

impl Pacing {
    /// Without pacing, for packets of so many bytes.
    pub(super) fn new(packet: usize) -> Self {
        let fit = BYTES.checked_div(packet as u32).unwrap_or(PACKETS);
        Self {
            burst: fit.clamp(1, PACKETS),
            gap: 0,
            left: 0,
            paced: 0,
            next_at: 0,
            waits: false,
        }
    }

    /// A window of chunks can be sent at once, on a way that takes `delay` without a queue, if that is known. (With one it
    /// would be the hosts' schedulers, too, which no burst of ours makes worse.)
    pub(super) fn begin(&mut self, now: Nanos, window: u32, delay: Option<Nanos>) {
        let chunks = u64::from(window.max(1)) * GAIN;
        let gap = delay.unwrap_or(0).saturating_mul(u64::from(self.burst));
        self.gap = gap
            .checked_div(chunks)
            .filter(|gap| *gap >= SHORTEST)
            .unwrap_or(0);
        self.paced = if self.gap == 0 { 0 } else { window };
        self.left = 0;
        self.next_at = now;
        self.waits = false;
    }

    /// Whether a chunk may be sent now; if so it counts as sent.
    #[inline(always)]
    pub(super) fn admits(&mut self, now: Nanos) -> bool {
        self.waits = false;
        self.paced == 0 || self.admits_paced(now)
    }

    fn admits_paced(&mut self, now: Nanos) -> bool {
        if self.left == 0 {
            if now < self.next_at {
                self.waits = true;
                return false;
            }
            self.left = self.burst;
            self.next_at = now.saturating_add(self.gap);
        }
        self.left -= 1;
        self.paced -= 1;
        true
    }

    /// Its time has come: [`Self::admits`] says what follows.
    pub(super) fn woken(&mut self, now: Nanos) {
        self.waits &= now < self.next_at;
    }

    /// When what waits may be sent; `None` where nothing does.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.waits.then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    const MS: Nanos = 1_000_000;

    /// When each chunk leaves, of so many, if the host comes back when it is told.
    fn departures(pacing: &mut Pacing, chunks: u32) -> Vec<Nanos> {
        let mut now = 0;
        let mut left = Vec::new();
        while (left.len() as u32) < chunks {
            if pacing.admits(now) {
                left.push(now);
            } else {
                now = pacing.due().unwrap();
            }
        }
        assert_eq!(pacing.due(), None);
        left
    }

    #[test]
    fn cc_7_the_first_window_leaves_in_bursts_twice_as_fast_as_results_come() {
        let mut pacing = Pacing::new(1464);
        pacing.begin(0, 256, Some(4 * MS));
        let left = departures(&mut pacing, 1000);
        assert!(left[43] == 0 && left[44] > MS / 4, "{left:?}");
        assert!((3 * MS / 2..2 * MS).contains(&left[255]), "{left:?}");
        assert_eq!(left[255], left[999], "later ones follow results");
    }

    #[test]
    fn cc_7_what_is_over_at_once_is_not_paced() {
        for (packet, window, delay) in [
            (1464, 256, Some(MS / 10)),
            (1464, 256, None),
            (1464, 40, Some(50 * MS)),
        ] {
            let mut pacing = Pacing::new(packet);
            pacing.begin(0, window, delay);
            let left = departures(&mut pacing, window);
            assert_eq!(left[window as usize - 1], 0, "{packet} {window} {delay:?}");
        }
    }
}

//! How many chunks may be in flight (R-CC): a congestion window below the job's.
//!
//! It doubles each round trip until the network says that it is too large, then grows by steps. Three things say so, each
//! weighed once a round trip, over the results that it brought: marks (ECN; DCTCP, RFC 8257), a queue that does not drain
//! (Swift; Kumar et al., SIGCOMM 2020), and loss above what random loss is (the 2 % a direction of BBRv2,
//! draft-cardwell-iccrg-bbr-congestion-control-02). A result waits for the slowest member, which is no congestion: so
//! delay is measured on results only that waited for nobody else, and loss counted only where it was this member's.

use crate::Nanos;

/// The first window: the ten packets of RFC 6928, as a power of two.
const INITIAL: u32 = 16;

/// The smallest window. Of two chunks one would always wait for the other's results to be handled.
pub(super) const SMALLEST: u32 = 4;

/// Parts of a chunk that the window is counted in.
const ONE: u32 = 256;

/// A queue is too long when even the quickest result of a round trip took this much longer than the quickest ever did (or
/// twice as long, where that is more). Below that it is the schedulers of the hosts: the resend timer has the same bound.
const QUEUE: Nanos = 4_000_000;

/// So many delays of a round trip are needed to call the least of them its queue.
const SAMPLES: u32 = 4;

/// Delay alone does not take the window below this part of the job's, nor below the first: what the quickest way takes is
/// a guess, since it may have been another way, and hosts without time for their packets have long queues, too.
const DELAY_FLOOR: u32 = 8;

/// How long the quickest round trip is remembered, at least; what was is forgotten between operations only, when no queue
/// is our own.
const MEMORY: Nanos = 10_000_000_000;

/// Loss is weighed over so many results at least: of fewer, two lost by chance look like congestion ...
const WEIGHED: u32 = 64;

/// ... or when so many were lost (as BBRv2 has it), which of a few results none can be by chance.
pub(super) const MANY: u32 = 8;

/// One in so many results that had to be repaired is congestion: 5 %. Random loss of 1 % each way makes 2 % of them.
const LOSSY: u32 = 20;

/// What a result tells of its chunk's way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answered {
    /// The order of the send that was answered among all, where that is known.
    pub(super) order: Option<u64>,
    /// How long the way took, where nobody else was waited for.
    pub(super) delay: Option<Nanos>,
    /// The contribution or the result was lost on its way before.
    pub(super) lost: bool,
    /// The result was marked, or a contribution that it holds.
    pub(super) marked: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Congestion {
    /// In parts ([`ONE`]).
    window: u32,
    /// The job's window, in parts.
    largest: u32,
    /// Nothing has said yet that the window is too large.
    slow_start: bool,
    /// Something waits for the window now.
    waits: bool,
    /// Something waited for it since the last round trip ended.
    was_full: bool,
    /// The round trip ends with the result of this send, or a later one.
    round_ends: u64,
    /// It is the first one on this way: what was sent before, and comes to be repaired on it, was not lost here.
    is_first: bool,
    results: u32,
    marked: u32,
    delays: u32,
    least_delay: Nanos,
    /// Since loss was last weighed.
    weighed: u32,
    lost: u32,
    /// DCTCP's estimate of the part that is marked, in 1/1024.
    alpha: u32,
    /// The quickest way, of the current memory and the one before, and since when.
    quickest: [Nanos; 2],
    remembered_from: Nanos,
    decreases: u64,
}

impl Congestion {
    /// Of a worker that has just come, in a job with this window.
    pub(super) fn new(largest: u16) -> Self {
        let largest = u32::from(largest.max(1)) * ONE;
        Self {
            window: largest.min(INITIAL * ONE),
            largest,
            slow_start: true,
            waits: false,
            was_full: false,
            round_ends: 0,
            is_first: true,
            results: 0,
            marked: 0,
            delays: 0,
            least_delay: Nanos::MAX,
            weighed: 0,
            lost: 0,
            // RFC 8257, section 3.3: the first mark halves.
            alpha: 1024,
            quickest: [Nanos::MAX; 2],
            remembered_from: 0,
            decreases: 0,
        }
    }

    /// As large as the job lets it be.
    #[cfg(test)]
    pub(super) fn opened(window: u16) -> Self {
        Self {
            window: u32::from(window) * ONE,
            ..Self::new(window)
        }
    }

    /// Another way: what was learnt holds no more.
    pub(super) fn restart(&mut self, sends: u64) {
        *self = Self {
            round_ends: sends,
            decreases: self.decreases,
            ..Self::new((self.largest / ONE) as u16)
        };
    }

    /// An operation starts: nothing of ours is on the way.
    pub(super) fn rested(&mut self, now: Nanos) {
        if now.saturating_sub(self.remembered_from) > MEMORY {
            self.quickest = [Nanos::MAX, self.quickest[0]];
            self.remembered_from = now;
        }
    }

    /// Chunks that may be in flight.
    pub(super) fn window(&self) -> u32 {
        self.window / ONE
    }

    /// How often the window was made smaller.
    pub(super) fn decreases(&self) -> u64 {
        self.decreases
    }

    /// How long the way takes without a queue, where that has been seen.
    pub(super) fn quickest(&self) -> Option<Nanos> {
        Some(self.quickest[0].min(self.quickest[1])).filter(|quickest| *quickest != Nanos::MAX)
    }

    /// Whether one chunk more may be in flight than so many. If not, it is remembered that one would have been.
    #[inline(always)]
    pub(super) fn admits(&mut self, in_flight: u16) -> bool {
        let admitted = u32::from(in_flight) < self.window / ONE;
        // All that a host has received is handled before it sends again: a round trip may end within that.
        self.waits = !admitted;
        self.was_full |= self.waits;
        admitted
    }

    /// Whether something waits for the window.
    pub(super) fn is_full(&self) -> bool {
        self.waits
    }

    /// A result came; `sends` is how many chunks were sent so far.
    #[inline(always)]
    pub(super) fn answered(&mut self, result: Answered, sends: u64) {
        self.results += 1;
        self.weighed += 1;
        self.marked += u32::from(result.marked);
        self.lost += u32::from(result.lost);
        if let Some(delay) = result.delay {
            self.measured(delay);
        }
        if self.slow_start && self.waits {
            self.grow(ONE);
        }
        if result.order.is_some_and(|order| order >= self.round_ends) {
            self.end_round();
            self.round_ends = sends;
        }
    }

    /// Chunks that were sent again and again have brought neither results nor word of them: the network takes nearly all. RFC
    /// 5681, section 3.1, but for a window that may never have been too large: it grows as at first.
    pub(super) fn silenced(&mut self) {
        let smallest = self.largest.min(SMALLEST * ONE);
        self.decreases += u64::from(self.window > smallest);
        self.window = smallest;
        self.slow_start = true;
    }

    fn measured(&mut self, delay: Nanos) {
        self.delays += 1;
        self.least_delay = self.least_delay.min(delay);
        self.quickest[0] = self.quickest[0].min(delay);
    }

    /// A round trip is over: what it has brought is weighed, once.
    fn end_round(&mut self) {
        if self.is_first {
            self.is_first = false;
            (self.lost, self.weighed) = (0, 0);
        }
        let before = self.window;
        let after = [self.after_marks(), self.after_queueing(), self.after_loss()];
        let smaller = after.into_iter().flatten().min();
        if let Some(smaller) = smaller {
            self.window = smaller.max(self.largest.min(SMALLEST * ONE)).min(before);
            // Where it may not become smaller for what was seen, nothing has been learnt of how large it can be.
            self.slow_start &= self.window == before;
            self.decreases += u64::from(self.window < before);
        } else if self.was_full && !self.slow_start {
            self.grow(ONE);
        }
        self.was_full = false;
        (self.results, self.marked) = (0, 0);
        (self.delays, self.least_delay) = (0, Nanos::MAX);
    }

    fn grow(&mut self, parts: u32) {
        self.window = (self.window + parts).min(self.largest);
    }

    /// RFC 8257, section 3.3: α follows the part that is marked by a sixteenth of the difference, and the window shrinks by
    /// half of α.
    fn after_marks(&mut self) -> Option<u32> {
        let part = (1024 * self.marked).checked_div(self.results)?;
        self.alpha = (15 * self.alpha + part).div_ceil(16);
        (self.marked > 0).then(|| self.window - scaled(self.window, self.alpha.min(1024), 2048))
    }

    /// Swift, section 3.1: by 0.8 of the part of the delay that is too much, by half at most. That of the quickest result: a
    /// queue holds up each of them, a scheduler only some.
    fn after_queueing(&self) -> Option<u32> {
        let quickest = self.quickest()?;
        let most = quickest.saturating_add(quickest.max(QUEUE));
        if self.delays < SAMPLES || self.least_delay <= most {
            return None;
        }
        let too_much = self.least_delay - most;
        // In 1/1024 of the delay: above 8 ms, where `most` is at least.
        let part = (1024 * (too_much / 1000))
            .checked_div(self.least_delay / 1000)?
            .min(1024) as u32;
        let cut = scaled(self.window, (part * 4 / 5).min(512), 1024);
        let floor = (self.largest / DELAY_FLOOR).max(INITIAL * ONE);
        Some((self.window - cut).max(floor))
    }

    /// By the part that is lost, by 0.7 at least (CUBIC, RFC 9438, section 4.6) and half at most.
    fn after_loss(&mut self) -> Option<u32> {
        if self.weighed < WEIGHED && self.lost < MANY {
            return None;
        }
        let (lost, of) = (self.lost, self.weighed);
        (self.lost, self.weighed) = (0, 0);
        let part = (1024 * lost).checked_div(of)?;
        (lost * LOSSY > of).then(|| self.window - scaled(self.window, part.clamp(307, 512), 1024))
    }
}

/// `of` · `part` / `whole`; none of these is above 2^24.
fn scaled(of: u32, part: u32, whole: u32) -> u32 {
    (u64::from(of) * u64::from(part))
        .checked_div(u64::from(whole))
        .unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    const MS: Nanos = 1_000_000;

    /// A path that delivers a chunk each `gap`, with a queue for `room` of them beyond what `base` holds; each round trip sends
    /// a window. Returns the windows and the part that was lost.
    struct Path {
        base: Nanos,
        gap: Nanos,
        room: u32,
        marks_at: u32,
        congestion: Congestion,
        sends: u64,
        lost: u32,
    }

    impl Path {
        fn new(window: u16, base: Nanos, gap: Nanos, room: u32) -> Self {
            Self {
                base,
                gap,
                room,
                marks_at: u32::MAX,
                congestion: Congestion::new(window),
                sends: 0,
                lost: 0,
            }
        }

        /// A round trip of a window that is always full; `random` says which of its chunks are lost by chance.
        fn round(&mut self, random: impl Fn(u64) -> bool) -> u32 {
            let window = self.congestion.window();
            let held = (self.base / self.gap) as u32;
            let first = self.sends;
            self.sends += u64::from(window);
            for chunk in 0..window {
                let queue = chunk.saturating_sub(held);
                // There is more to send than fits.
                assert!(!self.congestion.admits(u16::MAX));
                let lost = queue > self.room || random(first + u64::from(chunk));
                self.lost += u32::from(lost);
                let standing = window.saturating_sub(held);
                let delay = self.base + u64::from(standing.min(self.room)) * self.gap;
                self.congestion.answered(
                    Answered {
                        order: (!lost).then_some(first + u64::from(chunk)),
                        delay: (!lost).then_some(delay),
                        lost,
                        marked: standing.min(self.room) > self.marks_at,
                    },
                    self.sends,
                );
            }
            self.congestion.window()
        }
    }

    const NEVER: fn(u64) -> bool = |_| false;

    #[test]
    fn cc_2_a_free_way_has_the_whole_window_within_a_few_round_trips() {
        for window in [1, 2, 4, 64, 256, 1024] {
            let mut path = Path::new(window, MS / 10, 10, 10_000);
            for _ in 0..8 {
                path.round(NEVER);
            }
            assert_eq!(path.congestion.window(), u32::from(window));
            assert_eq!(path.congestion.decreases(), 0);
        }
    }

    /// A host takes in all that has come before it sends again.
    #[test]
    fn cc_2_results_that_come_together_double_the_window() {
        let (mut congestion, mut sends) = (Congestion::new(256), 0);
        for doubled in [32, 64, 128, 256] {
            let (first, window) = (sends, congestion.window());
            for in_flight in 0..window {
                assert!(congestion.admits(in_flight as u16));
                sends += 1;
            }
            assert!(!congestion.admits(window as u16));
            for order in first..sends {
                let order = Some(order);
                congestion.answered(
                    Answered {
                        order,
                        ..Answered::default()
                    },
                    sends,
                );
            }
            assert_eq!(congestion.window(), doubled);
        }
    }

    #[test]
    fn cc_4_delay_does_not_keep_a_window_below_its_part_small() {
        let mut path = Path::new(1024, MS / 10, 1000, 10_000);
        path.round(NEVER);
        path.base = 50 * MS;
        for window in [64, 128] {
            assert_eq!(path.round(NEVER), window);
        }
        for _ in 0..10 {
            path.round(NEVER);
        }
        assert_eq!(path.congestion.window(), 1024 / DELAY_FLOOR);
    }

    #[test]
    fn cc_2_a_window_that_nobody_fills_does_not_grow() {
        let mut congestion = Congestion::new(256);
        for order in 0..1000 {
            assert!(congestion.admits(3));
            let order = Some(order);
            congestion.answered(
                Answered {
                    order,
                    ..Answered::default()
                },
                1000,
            );
        }
        assert_eq!(congestion.window(), INITIAL);
    }

    /// A shallow queue: 50 packets, as a cheap switch has for each port.
    #[test]
    fn cc_5_a_window_that_overflows_a_queue_shrinks_to_what_fits() {
        let mut path = Path::new(256, MS / 10, 12_000, 50);
        for _ in 0..20 {
            path.round(NEVER);
        }
        path.lost = 0;
        let sent = path.sends;
        for _ in 0..200 {
            let window = path.round(NEVER);
            assert!((28..100).contains(&window), "{window}");
        }
        let part = f64::from(path.lost) / (path.sends - sent) as f64;
        assert!(part < 0.05, "{part}");
    }

    #[test]
    fn cc_5_random_loss_is_no_congestion() {
        let mut path = Path::new(256, MS / 10, 10, 10_000);
        let mut seen = 0;
        for _ in 0..400 {
            // Each chunk crosses twice: 1 % each way, scattered by a multiplicative hash (Knuth).
            let window = path.round(|chunk| chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xffff < 1311);
            seen += window;
        }
        assert!(path.lost > 1000, "{}", path.lost);
        assert!(seen > 380 * 256, "{seen}");
    }

    #[test]
    fn cc_4_a_queue_that_stays_is_made_shorter() {
        // 100 Mbit/s: a chunk takes 0.12 ms, the whole window 30 ms.
        let mut path = Path::new(256, MS / 10, 120_000, 10_000);
        for _ in 0..30 {
            path.round(NEVER);
        }
        for _ in 0..100 {
            let window = path.round(NEVER);
            // The quickest round trip of all holds the first window.
            assert!((32..64).contains(&window), "{window}");
        }
    }

    #[test]
    fn cc_4_a_way_that_has_become_longer_keeps_a_part_of_the_window() {
        let mut path = Path::new(256, MS / 10, 1000, 10_000);
        path.round(NEVER);
        path.base = 50 * MS;
        for _ in 0..100 {
            path.round(NEVER);
        }
        assert_eq!(path.congestion.window(), 256 / DELAY_FLOOR);
        // It is believed when the old way has not been seen for so long.
        for pause in 1..=2 {
            path.congestion.rested(pause * (MEMORY + 1));
            path.round(NEVER);
        }
        for _ in 0..300 {
            path.round(NEVER);
        }
        assert_eq!(path.congestion.window(), 256);
    }

    #[test]
    fn cc_3_marks_keep_the_queue_near_where_they_begin() {
        let mut path = Path::new(256, MS / 10, 12_000, 10_000);
        path.marks_at = 20;
        for _ in 0..100 {
            path.round(NEVER);
        }
        let mut least = u32::MAX;
        for _ in 0..100 {
            let window = path.round(NEVER);
            least = least.min(window);
            assert!((8..40).contains(&window), "{window}");
        }
        assert!(path.congestion.decreases() > 10);
    }

    /// All chunks of a round trip are marked: one decrease, not one a mark.
    #[test]
    fn cc_1_the_window_shrinks_once_a_round_trip() {
        let mut path = Path::new(256, MS / 10, 10_000, 10_000);
        for _ in 0..8 {
            path.round(NEVER);
        }
        path.marks_at = 0;
        for marked in 1..=3 {
            let before = path.congestion.window();
            let after = path.round(NEVER);
            assert!((before / 2..before).contains(&after), "{before} {after}");
            // A round trip ends with the first result of the next.
            assert!(path.congestion.decreases() <= marked);
        }
        assert!(path.congestion.decreases() >= 2);
    }

    #[test]
    fn cc_6_another_way_is_learnt_anew() {
        let mut path = Path::new(256, MS / 10, 10, 10_000);
        for _ in 0..8 {
            path.round(NEVER);
        }
        path.congestion.restart(path.sends);
        assert_eq!(path.congestion.window(), INITIAL);
        assert_eq!(path.congestion.quickest(), None);
        for _ in 0..8 {
            path.round(NEVER);
        }
        assert_eq!(path.congestion.window(), 256);
    }
}

//! Round-trip estimate and resend timer, as RFC 6298 has them.

use crate::Nanos;

/// The resend timer before anything was measured.
const INITIAL_RTO: Nanos = 50_000_000;
/// Below this the timer would fire on the jitter of a scheduler. RFC 6298 has 1 s, for the Internet; a resend
/// here costs one packet.
const MIN_RTO: Nanos = 4_000_000;
/// Backing off ends here: a member that is merely late is noticed within this time of its return.
const MAX_RTO: Nanos = 500_000_000;
/// The least time to a probe: it costs one packet, and repairs what else would keep a whole operation for [`MIN_RTO`].
const MIN_PROBE: Nanos = 2_000_000;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Rtt {
    smoothed: Option<Nanos>,
    variation: Nanos,
    /// How often the timer has fired since something was heard.
    backoff: u32,
    /// A probe has gone out since a result came.
    probed: bool,
}

impl Rtt {
    /// Takes in one measurement, of a chunk that was sent once only (Karn's rule).
    ///
    /// A slot waits for every member: a measurement may hold the time that another one's loss took to repair. Such a
    /// one must not make this member's own repairs slower, or the timers of all drive each other up. So it counts as
    /// little more than usual; a round trip that has really grown still takes over, tenfold within some seventy chunks.
    pub(super) fn measured(&mut self, rtt: Nanos) {
        let rtt = self.smoothed.map_or(rtt, |smoothed| {
            rtt.min(smoothed + self.variation.max(smoothed / 4))
        });
        match &mut self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                self.variation = (3 * self.variation + smoothed.abs_diff(rtt)) / 4;
                *smoothed = (7 * *smoothed + rtt) / 8;
            }
        }
    }

    /// The smoothed round trip; 0 before the first measurement.
    pub(super) fn smoothed(&self) -> Nanos {
        self.smoothed.unwrap_or(0)
    }

    /// How long after a send an answer is late: the round trip and twice its variation.
    pub(super) fn overdue(&self) -> Nanos {
        self.smoothed() + 2 * self.variation
    }

    /// How long after a send the oldest chunk in flight is sent again.
    pub(super) fn resend_after(&self) -> Nanos {
        let base = self
            .smoothed
            .map_or(INITIAL_RTO, |smoothed| smoothed + 4 * self.variation);
        (base.clamp(MIN_RTO, MAX_RTO) << self.backoff.min(16)).min(MAX_RTO)
    }

    /// The same, where somebody asks after the oldest chunk at least so long after its send: under a quorum resends are the
    /// clock that lets a slot go (R-QUORUM-1), and a round trip that was waited for the late would put it off as long.
    pub(super) fn resend_within(&self, grace: Nanos) -> Nanos {
        self.resend_after()
            .min((grace.max(MIN_RTO) << self.backoff.min(16)).min(MAX_RTO))
    }

    /// How long after a send the oldest of the last chunks in flight is sent again, once: the tail loss probe of RFC 8985,
    /// section 7.2. After that it is the timer's turn.
    pub(super) fn probe_after(&self) -> Nanos {
        match self.smoothed {
            Some(_) if self.backoff == 0 && !self.probed => (2 * self.overdue()).max(MIN_PROBE),
            _ => Nanos::MAX,
        }
    }

    /// The timer fired; returns how many chunks to send again: one more doubling each time, so that a probe stays
    /// cheap while a member is late and a lost window is still repaired in a few steps.
    pub(super) fn back_off(&mut self) -> u32 {
        self.backoff = (self.backoff + 1).min(16);
        1 << (self.backoff - 1)
    }

    /// The probe was sent.
    pub(super) fn probe(&mut self) {
        self.probed = true;
    }

    /// A result came.
    pub(super) fn heard(&mut self) {
        self.backoff = 0;
        self.probed = false;
    }

    /// The aggregator has another part of a chunk than when it last said so: resends reach it.
    pub(super) fn told(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resend_1_the_repairs_of_others_do_not_slow_ours() {
        let mut rtt = Rtt::default();
        for sample in 0..1000 {
            // A third of the chunks wait for somebody's resend.
            rtt.measured(if sample % 3 == 0 { 50_000_000 } else { 1_000_000 });
        }
        assert!(rtt.resend_after() < 5_000_000, "{}", rtt.resend_after());
        for _ in 0..120 {
            rtt.measured(50_000_000);
        }
        assert!(
            rtt.smoothed() > 30_000_000,
            "a round trip that has grown is believed: {}",
            rtt.smoothed()
        );
    }

    #[test]
    fn quorum_1_a_late_member_does_not_slow_the_clock() {
        let mut rtt = Rtt::default();
        for _ in 0..100 {
            rtt.measured(20_000_000);
        }
        assert!(rtt.resend_after() >= 20_000_000);
        assert_eq!(rtt.resend_within(0), MIN_RTO);
        assert_eq!(rtt.resend_within(6_000_000), 6_000_000);
        rtt.back_off();
        assert_eq!(rtt.resend_within(6_000_000), 12_000_000);
    }

    #[test]
    fn resend_5_a_probe_comes_once_and_before_the_timer() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.probe_after(), Nanos::MAX, "nothing is known");
        for _ in 0..100 {
            rtt.measured(200_000);
        }
        assert_eq!(rtt.probe_after(), MIN_PROBE);
        rtt.back_off();
        assert_eq!(rtt.probe_after(), Nanos::MAX);
        let mut rtt = Rtt::default();
        for _ in 0..100 {
            rtt.measured(20_000_000);
        }
        assert!(rtt.probe_after() > 30_000_000);
    }

    #[test]
    fn the_timer_follows_the_round_trip_and_backs_off_within_bounds() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.resend_after(), INITIAL_RTO);
        for _ in 0..100 {
            rtt.measured(10_000_000);
        }
        assert!(
            (10_000_000..11_000_000).contains(&rtt.resend_after()),
            "{}",
            rtt.resend_after()
        );
        let sizes: [u32; 4] = core::array::from_fn(|_| rtt.back_off());
        assert_eq!(sizes, [1, 2, 4, 8]);
        assert!(rtt.resend_after() > 100_000_000);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.resend_after(), MAX_RTO);
        rtt.heard();
        assert!(rtt.resend_after() < 11_000_000);
    }
}

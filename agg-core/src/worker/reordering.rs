//! How much disorder among results is normal (R-RESEND-2).
//!
//! Results come in the order in which the *last* member's contributions arrive, which is not the order of our sends.
//! How far it differs depends on the host, the batching and the schedulers, so it is learnt: a result that comes
//! twice for a chunk that was sent twice shows that the second send was needless, as a DSACK does for TCP's RACK
//! (RFC 8985).

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Reordering {
    /// Sends that a chunk may be overtaken by.
    window: u64,
    smallest: u64,
    /// A whole window of sends: what is overtaken by that was lost.
    largest: u64,
    /// Results since the window last changed.
    answered: u64,
}

/// Windows full of results without a needless resend after which the disorder is taken to be smaller again.
const CALM: u64 = 64;

impl Reordering {
    pub(super) fn new(window: u64) -> Self {
        let smallest = (window / 8).clamp(2, 16);
        Self {
            window: smallest,
            smallest,
            largest: window.max(smallest),
            answered: 0,
        }
    }

    /// How many sends later a result must be to count as overtaking.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// A resend was needless.
    pub(super) fn spurious(&mut self) {
        self.window = (self.window * 2).min(self.largest);
        self.answered = 0;
    }

    /// A result came.
    pub(super) fn answered(&mut self) {
        self.answered += 1;
        if self.answered >= CALM * self.largest {
            self.window = (self.window / 2).max(self.smallest);
            self.answered = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resend_2_the_window_grows_with_needless_resends_and_shrinks_in_calm() {
        let mut reordering = Reordering::new(64);
        assert_eq!(reordering.window(), 8);
        for _ in 0..10 {
            reordering.spurious();
        }
        assert_eq!(reordering.window(), 64);
        for _ in 0..CALM * 64 {
            reordering.answered();
        }
        assert_eq!(reordering.window(), 32);
    }
}

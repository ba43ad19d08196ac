//! What a core does while no frames come.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What a core does while no frames come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// It looks again at once: the lowest latency, for a core that nobody else needs.
    Spin,
    /// It lets others run first: where cores are shared.
    #[default]
    Yield,
    /// It sleeps for a while after some time without frames: saves power, and costs up to a tenth of a millisecond.
    Sleep,
}

/// Polls without a frame after which [`Idle::Sleep`] sleeps.
const PATIENCE: u32 = 256;

/// How long. The kernel adds some 50 µs.
const NAP: Duration = Duration::from_micros(50);

impl Idle {
    /// Waits, after so many polls without a frame.
    pub fn wait(self, polls: u32) {
        match self {
            Self::Spin => std::hint::spin_loop(),
            Self::Sleep if polls > PATIENCE => std::thread::sleep(NAP),
            Self::Yield | Self::Sleep => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn only_sleep_sleeps_and_not_at_once() {
        for (idle, polls, sleeps) in [(Idle::Sleep, PATIENCE + 1, true), (Idle::Sleep, 1, false)] {
            let begin = Instant::now();
            (0..20).for_each(|_| idle.wait(polls));
            if sleeps {
                assert!(begin.elapsed() >= 20 * NAP);
            }
        }
        Idle::Spin.wait(u32::MAX);
    }
}

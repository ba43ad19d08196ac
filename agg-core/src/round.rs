//! Rounds and epochs: the two counters that order packets in time, and where a chunk lives.

/// How often a slot has been used before: chunk `c` is in round `c / W` (R-CHUNK-1). Wraps around.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Round(pub u32);

impl Round {
    /// Whether this round comes after `other` in wrap-around order (R-CHUNK-4): the shorter way round is forward.
    #[inline(always)]
    pub const fn is_after(self, other: Self) -> bool {
        let ahead = self.0.wrapping_sub(other.0);
        ahead != 0 && ahead < 1 << 31
    }

    /// The generation of a slot that this round lives in, of `generations`, a power of two (R-CHUNK-2).
    #[inline(always)]
    pub const fn generation(self, generations: u16) -> usize {
        self.0 as usize & (generations as usize).wrapping_sub(1)
    }
}

/// Generations a slot keeps without a quorum: with 2, under the policy All, a contribution for round `r + 2` proves that every
/// member has had the result of round `r` (R-CHUNK-3; SwitchML's shadow copy).
pub const GENERATIONS: u16 = 2;

/// Most generations that a slot keeps under a quorum: how many rounds the fastest member can be ahead of the slowest.
pub const MAX_GENERATIONS: u16 = 64;

/// The incarnation of an aggregator (R-EPOCH-1): raised at each start and by fail-over. Does not wrap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_compare_across_the_wrap() {
        assert!(Round(0).is_after(Round(u32::MAX)));
        assert!(Round(5).is_after(Round(u32::MAX - 3)));
        assert!(!Round(u32::MAX).is_after(Round(0)));
        assert!(!Round(7).is_after(Round(7)));
    }

    #[test]
    fn the_wrap_alternates_generations() {
        for generations in [2, 4, MAX_GENERATIONS] {
            let place = |round: u32| Round(round).generation(generations);
            assert_eq!((place(u32::MAX) + 1) % usize::from(generations), place(0));
        }
    }
}

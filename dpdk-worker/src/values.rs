//! What ranks contribute.

use agg_worker::Element;

/// A type with values for each rank and sum.
pub(crate) trait Values: Element + Default {
    /// What `rank` contributes; it changes with the round, so that an old result cannot pass for a new one.
    fn value(rank: u32, round: u32, index: usize) -> Self;

    /// Whether it is the sum of what these ranks contribute, as far as that is known without them.
    fn is_sum(self, ranks: &[u32], round: u32, index: usize) -> bool;

    fn bits(self) -> u32;
}

/// Spreads ranks, rounds and indices over all bits.
fn mix(rank: u32, round: u32, index: usize) -> u32 {
    let seed = rank.wrapping_mul(0x85eb_ca6b) ^ round.wrapping_mul(0xc2b2_ae35);
    let mixed = (index as u32 ^ seed).wrapping_mul(0x9e37_79b1);
    (mixed ^ mixed >> 15).wrapping_mul(0x2c1b_3c6d)
}

impl Values for i32 {
    fn value(rank: u32, round: u32, index: usize) -> Self {
        mix(rank, round, index).cast_signed()
    }

    fn is_sum(self, ranks: &[u32], round: u32, index: usize) -> bool {
        let values = ranks.iter().map(|rank| Self::value(*rank, round, index));
        self == values.fold(0, Self::wrapping_add)
    }

    fn bits(self) -> u32 {
        self.cast_unsigned()
    }
}

impl Values for f32 {
    /// Of several magnitudes, so that every bit of a sum depends on how it is made.
    fn value(rank: u32, round: u32, index: usize) -> Self {
        let mixed = mix(rank, round, index);
        mixed.cast_signed() as Self * 2_f32.powi(-((mixed & 15) as i32) - 31)
    }

    /// Rounding is a matter of the whole chunk: it is near.
    fn is_sum(self, ranks: &[u32], round: u32, index: usize) -> bool {
        let values = ranks.iter().map(|rank| Self::value(*rank, round, index));
        (self - values.sum::<Self>()).abs() < 1e-4 * ranks.len() as Self
    }

    fn bits(self) -> u32 {
        self.to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_other_rounds_or_ranks_are_none() {
        let sum = |round, index| {
            [0, 1, 2]
                .map(|rank| i32::value(rank, round, index))
                .into_iter()
                .fold(0, i32::wrapping_add)
        };
        for index in 0..100 {
            assert!(sum(1, index).is_sum(&[0, 1, 2], 1, index));
            assert!(!sum(1, index).is_sum(&[0, 1, 2], 2, index));
            assert!(!sum(1, index).is_sum(&[0, 1], 1, index));
        }
        let near = (0..1000)
            .filter(|index| f32::value(0, 1, *index).is_sum(&[0], 2, *index))
            .count();
        assert!(near < 100, "{near} of 1000 do not change");
    }
}

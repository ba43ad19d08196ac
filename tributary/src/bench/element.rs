//! Values whose sums are known without any communication.

use std::fmt::Display;

use agg_worker::{Element, ReduceOp, ReduceOptions, Width};
use half::{bf16, f16};

/// An element type with values for a benchmark.
pub trait BenchElement: Element + Default + PartialEq + Display {
    /// Half a unit in the last place, against the number; 0 where all results are exact.
    const ROUNDING: f64;

    /// What `rank` contributes; it changes with the iteration, so that an old result cannot pass for a new one.
    fn value(rank: u32, iteration: u32, index: usize) -> Self;

    /// Exactly the same number.
    fn wide(self) -> f64;

    /// The nearest, by way of `f32`.
    fn nearest(number: f64) -> Self;

    /// The sum of some, as it is in this type.
    fn sum(values: impl Iterator<Item = f64>) -> f64 {
        values.sum()
    }
}

/// Spreads ranks, iterations and indices over all bits; made of what vectorises.
fn mix(rank: u32, iteration: u32, index: usize) -> u32 {
    let seed = rank.wrapping_mul(0x85eb_ca6b) ^ iteration.wrapping_mul(0xc2b2_ae35);
    (index as u32 ^ seed).wrapping_mul(0x9e37_79b1)
}

/// Multiples of 1/64 from -8 to 8, in 64ths: their sums, up to 4096 of them, are exact in f32 and in 32 bits on the wire.
pub(super) fn small(rank: u32, iteration: u32, index: usize) -> i32 {
    (mix(rank, iteration, index) >> 22) as i32 - 512
}

impl BenchElement for f32 {
    const ROUNDING: f64 = 1.0 / (1 << 24) as f64;

    fn value(rank: u32, iteration: u32, index: usize) -> Self {
        small(rank, iteration, index) as f32 / 64.0
    }

    fn wide(self) -> f64 {
        self.into()
    }

    fn nearest(number: f64) -> Self {
        number as Self
    }
}

impl BenchElement for f16 {
    const ROUNDING: f64 = 1.0 / (1 << 11) as f64;

    fn value(rank: u32, iteration: u32, index: usize) -> Self {
        Self::from_f32(f32::value(rank, iteration, index))
    }

    fn wide(self) -> f64 {
        self.into()
    }

    fn nearest(number: f64) -> Self {
        Self::from_f32(number as f32)
    }
}

impl BenchElement for bf16 {
    const ROUNDING: f64 = 1.0 / (1 << 8) as f64;

    fn value(rank: u32, iteration: u32, index: usize) -> Self {
        Self::from_f32(f32::value(rank, iteration, index))
    }

    fn wide(self) -> f64 {
        self.into()
    }

    fn nearest(number: f64) -> Self {
        Self::from_f32(number as f32)
    }
}

impl BenchElement for i32 {
    const ROUNDING: f64 = 0.0;

    fn value(rank: u32, iteration: u32, index: usize) -> Self {
        mix(rank, iteration, index) as i32
    }

    fn wide(self) -> f64 {
        self.into()
    }

    fn nearest(number: f64) -> Self {
        number as Self
    }

    fn sum(values: impl Iterator<Item = f64>) -> f64 {
        values
            .fold(0_i32, |sum, value| sum.wrapping_add(value as i32))
            .into()
    }
}

/// What a result must be.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// How the elements were reduced.
    pub options: ReduceOptions,
    /// Whose they were.
    pub ranks: &'a [u32],
    /// In which iteration.
    pub iteration: u32,
}

impl Expected<'_> {
    /// The exact result of an element, and how far from it what came may be (R-NUM-7, R-NUM-9, R-NUM-10).
    fn of<E: BenchElement>(self, index: usize) -> (f64, f64) {
        let values = || {
            let value = |rank: &u32| E::value(*rank, self.iteration, index).wide();
            self.ranks.iter().map(value)
        };
        let ranks = self.ranks.len() as f64;
        let exact = match self.options.op {
            ReduceOp::Min => values().fold(f64::INFINITY, f64::min),
            ReduceOp::Max => values().fold(f64::NEG_INFINITY, f64::max),
            ReduceOp::Avg => E::sum(values()) / ranks,
            _ => E::sum(values()),
        };
        let average = self.options.op == ReduceOp::Avg;
        if self.options.width == Width::Bits32 && !average {
            return (E::nearest(exact).wide(), 0.0);
        }
        // Magnitudes are below 2^4.
        let unit = (ranks.log2().ceil() + 4.0 - f64::from(self.options.width.bits() - 1)).exp2();
        let before = if average { unit } else { ranks * unit };
        (exact, before + 1.001 * E::ROUNDING * (exact.abs() + before))
    }
}

/// Which elements of a result are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// All.
    Full,
    /// A thousand, spread evenly, and the last.
    Sampled,
}

/// An element that is not the sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Wrong<E> {
    /// Which element.
    pub index: usize,
    /// What it is.
    pub found: E,
    /// What it should be.
    pub expected: f64,
    /// And how far from that it may be.
    pub within: f64,
}

/// Writes what `rank` contributes.
pub fn fill<E: BenchElement>(tensor: &mut [E], rank: u32, iteration: u32) {
    for (index, element) in tensor.iter_mut().enumerate() {
        *element = E::value(rank, iteration, index);
    }
}

/// The first element looked at that is not what it must be.
pub fn check<E: BenchElement>(tensor: &[E], expected: Expected<'_>, look: Look) -> Result<(), Wrong<E>> {
    const SAMPLES: usize = 1000;
    let step = match look {
        Look::Full => 1,
        Look::Sampled => (tensor.len() / SAMPLES).max(1),
    };
    let last = tensor.len().checked_sub(1);
    for index in (0..tensor.len()).step_by(step).chain(last) {
        let found = tensor[index];
        let (exact, within) = expected.of::<E>(index);
        // So that no number is wrong, too.
        let right = (found.wide() - exact).abs() <= within;
        if !right {
            return Err(Wrong {
                index,
                found,
                expected: exact,
                within,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summed<E: BenchElement>(len: usize, ranks: u32, add: impl Fn(E, E) -> E) -> Vec<E> {
        let mut sum = vec![E::default(); len];
        for rank in 0..ranks {
            let mut tensor = vec![E::default(); len];
            fill(&mut tensor, rank, 3);
            for (sum, value) in sum.iter_mut().zip(tensor) {
                *sum = add(*sum, value);
            }
        }
        sum
    }

    fn first(ranks: u32) -> Vec<u32> {
        (0..ranks).collect()
    }

    fn sum_of(ranks: &[u32], iteration: u32) -> Expected<'_> {
        let options = ReduceOptions::default();
        Expected {
            options,
            ranks,
            iteration,
        }
    }

    #[test]
    fn sums_are_what_the_ranks_contribute() {
        for look in [Look::Full, Look::Sampled] {
            for len in [0, 1, 5000] {
                let floats = summed::<f32>(len, 64, |a, b| a + b);
                assert_eq!(check(&floats, sum_of(&first(64), 3), look), Ok(()));
                let integers = summed::<i32>(len, 5, i32::wrapping_add);
                assert_eq!(check(&integers, sum_of(&first(5), 3), look), Ok(()));
                let halves = summed::<f16>(len, 4, |a, b| a + b);
                assert_eq!(check(&halves, sum_of(&first(4), 3), look), Ok(()));
            }
        }
    }

    #[test]
    fn a_wrong_element_is_found_and_named() {
        let mut sum = summed::<f32>(5000, 2, |a, b| a + b);
        assert!(
            check(&sum, sum_of(&[0, 1], 4), Look::Sampled).is_err(),
            "an older iteration passes"
        );
        sum[4999] += 1.0;
        let wrong = check(&sum, sum_of(&[0, 1], 3), Look::Sampled).unwrap_err();
        assert_eq!((wrong.index, wrong.found.wide()), (4999, wrong.expected + 1.0));
        sum[4999] = f32::NAN;
        assert!(check(&sum, sum_of(&[0, 1], 3), Look::Sampled).is_err());
    }

    /// Narrow results may be off by what they round, and no more.
    #[test]
    fn the_bound_of_narrow_sums_is_a_bound() {
        let ranks = first(4);
        let expected = Expected {
            options: ReduceOptions::new(ReduceOp::Sum).with_width(Width::Bits8),
            ..sum_of(&ranks, 3)
        };
        let sum = summed::<f32>(100, 4, |a, b| a + b);
        let off = |by: f32| sum.iter().map(|value| value + by).collect::<Vec<_>>();
        // Four units of 2^(4 - 7 + 2).
        assert!(check(&off(1.9), expected, Look::Full).is_ok());
        assert!(check(&off(2.1), expected, Look::Full).is_err());
    }
}

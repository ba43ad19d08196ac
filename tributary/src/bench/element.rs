//! Values whose sums are known without any communication.

use std::fmt::Display;

use agg_worker::Element;

/// An element type with values for a benchmark.
pub trait BenchElement: Element + Default + PartialEq + Display {
    /// What `rank` contributes; it changes with the iteration, so that an old result cannot pass for a new one.
    fn value(rank: u32, iteration: u32, index: usize) -> Self;

    /// The exact sum of what `ranks` contribute.
    fn sum(ranks: &[u32], iteration: u32, index: usize) -> Self;
}

/// Spreads ranks, iterations and indices over all bits; made of what vectorises.
fn mix(rank: u32, iteration: u32, index: usize) -> u32 {
    let seed = rank.wrapping_mul(0x85eb_ca6b) ^ iteration.wrapping_mul(0xc2b2_ae35);
    (index as u32 ^ seed).wrapping_mul(0x9e37_79b1)
}

/// Multiples of 1/64 from -8 to 8, in 64ths: their sums, up to 4096 of them, are exact in f32 and on the wire.
pub(super) fn small(rank: u32, iteration: u32, index: usize) -> i32 {
    (mix(rank, iteration, index) >> 22) as i32 - 512
}

impl BenchElement for f32 {
    fn value(rank: u32, iteration: u32, index: usize) -> Self {
        small(rank, iteration, index) as f32 / 64.0
    }

    fn sum(ranks: &[u32], iteration: u32, index: usize) -> Self {
        ranks
            .iter()
            .map(|&rank| small(rank, iteration, index))
            .sum::<i32>() as f32
            / 64.0
    }
}

impl BenchElement for i32 {
    fn value(rank: u32, iteration: u32, index: usize) -> Self {
        mix(rank, iteration, index) as i32
    }

    fn sum(ranks: &[u32], iteration: u32, index: usize) -> Self {
        ranks.iter().fold(0, |sum: i32, &rank| {
            sum.wrapping_add(mix(rank, iteration, index) as i32)
        })
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
    pub expected: E,
}

/// Writes what `rank` contributes.
pub fn fill<E: BenchElement>(tensor: &mut [E], rank: u32, iteration: u32) {
    for (index, element) in tensor.iter_mut().enumerate() {
        *element = E::value(rank, iteration, index);
    }
}

/// The first element looked at that is not the sum over `ranks`.
pub fn check<E: BenchElement>(
    tensor: &[E],
    ranks: &[u32],
    iteration: u32,
    look: Look,
) -> Result<(), Wrong<E>> {
    const SAMPLES: usize = 1000;
    let step = match look {
        Look::Full => 1,
        Look::Sampled => (tensor.len() / SAMPLES).max(1),
    };
    let last = tensor.len().checked_sub(1);
    for index in (0..tensor.len()).step_by(step).chain(last) {
        let (found, expected) = (tensor[index], E::sum(ranks, iteration, index));
        if found != expected {
            return Err(Wrong {
                index,
                found,
                expected,
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

    #[test]
    fn sums_are_what_the_ranks_contribute() {
        for look in [Look::Full, Look::Sampled] {
            for len in [0, 1, 5000] {
                assert_eq!(
                    check(&summed::<f32>(len, 64, |a, b| a + b), &first(64), 3, look),
                    Ok(())
                );
                assert_eq!(
                    check(&summed::<i32>(len, 5, i32::wrapping_add), &first(5), 3, look),
                    Ok(())
                );
            }
        }
    }

    #[test]
    fn a_wrong_element_is_found_and_named() {
        let mut sum = summed::<f32>(5000, 2, |a, b| a + b);
        assert!(
            check(&sum, &[0, 1], 4, Look::Sampled).is_err(),
            "an older iteration passes"
        );
        sum[4999] += 1.0;
        let wrong = check(&sum, &[0, 1], 3, Look::Sampled).unwrap_err();
        assert_eq!((wrong.index, wrong.found), (4999, wrong.expected + 1.0));
    }
}

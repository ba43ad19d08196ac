//! Gradients that a sum under a quorum can be told by: whose it holds, and that each is in one sum, once.
//!
//! In each chunk the first elements are marks, one a rank: 1 in its own, 0 in others'. Whatever a rank carries over as error
//! feedback carries its marks along, so that a sum says how many gradients of each rank it holds. They are the next ones of
//! that rank: a [`Ledger`] knows which those are, and so what the sum must be. All these numbers are exact in f32.

use super::element::{Look, small};

/// The element after the marks. It makes the chunk's exponent so large that values carried over are not clamped where this
/// rank was late for agreeing on it.
const GUARD: f32 = 4096.0;

/// Values of a chunk that are looked at when it is sampled. Fewer could not tell apart what has the same marks: twice one
/// gradient, of half of the ranks, and that gradient and the rank's next one, of all. One value is the same in a thousandth of
/// all pairs.
const SAMPLES: usize = 8;

/// How a tensor is cut.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Ranks in the world.
    pub ranks: u32,
    /// Values in a chunk.
    pub lanes: usize,
}

impl Layout {
    /// Marks and guard: shorter chunks cannot be told.
    fn head(self) -> usize {
        self.ranks as usize + 1
    }

    /// Writes gradient `number` of `rank`.
    pub fn fill(self, tensor: &mut [f32], rank: u32, number: u32) {
        for (chunk, values) in tensor.chunks_mut(self.lanes).enumerate() {
            let first = chunk * self.lanes;
            for (lane, value) in values.iter_mut().enumerate() {
                *value = small(rank, number, first + lane) as f32 / 64.0;
            }
            if values.len() > self.head() {
                let (marks, rest) = values.split_at_mut(self.ranks as usize);
                marks.fill(0.0);
                marks[rank as usize] = 1.0;
                rest[0] = GUARD;
            }
        }
    }
}

/// What the sums so far held.
#[derive(Debug)]
pub struct Ledger {
    layout: Layout,
    /// Ranks that a sum must hold.
    least: u32,
    /// How many of each rank's gradients are in sums of a chunk: `[chunk][rank]`.
    seen: Vec<u32>,
    looks: usize,
}

/// A chunk that is no sum of enough ranks' next gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSum {
    /// Its first element.
    pub first: usize,
    /// Its last.
    pub last: usize,
}

impl Ledger {
    /// For a tensor of `elements` elements.
    pub fn new(layout: Layout, least: u32, elements: usize) -> Self {
        Self {
            seen: vec![0; elements.div_ceil(layout.lanes) * layout.ranks as usize],
            layout,
            least,
            looks: 0,
        }
    }

    /// Checks a result, and remembers what it holds.
    pub fn check(&mut self, tensor: &[f32], look: Look) -> Result<(), NoSum> {
        let Layout { ranks, lanes } = self.layout;
        self.looks += 1;
        let chunks = tensor.chunks(lanes).zip(self.seen.chunks_mut(ranks as usize));
        for (chunk, (values, seen)) in chunks.enumerate() {
            if values.len() <= self.layout.head() {
                continue;
            }
            let first = chunk * lanes;
            let sum = Sum {
                layout: self.layout,
                values,
                first,
                seen,
            };
            // Sampled: other lanes each time.
            let room = values.len() - self.layout.head();
            let lanes = match look {
                Look::Full => 0..room,
                Look::Sampled => self.looks + chunk..self.looks + chunk + SAMPLES.min(room),
            };
            let lanes = lanes.map(|lane| lane % room);
            let held = (self.least..=ranks)
                .rev()
                .find_map(|summed| sum.of(summed, lanes.clone()));
            let Some(held) = held else {
                let last = first + values.len() - 1;
                return Err(NoSum { first, last });
            };
            for (seen, held) in seen.iter_mut().zip(held) {
                *seen += held;
            }
        }
        Ok(())
    }
}

/// One chunk of a result, and what sums of it held before.
struct Sum<'a> {
    layout: Layout,
    values: &'a [f32],
    first: usize,
    seen: &'a [u32],
}

impl Sum<'_> {
    /// How many gradients of each rank it holds, if it is the sum over `summed` ranks; looks at these of its values.
    fn of(&self, summed: u32, lanes: impl IntoIterator<Item = usize>) -> Option<Vec<u32>> {
        // As R-QUORUM-4 has it, for exactly the same bits.
        let factor = self.layout.ranks as f32 / summed as f32;
        let held: Option<Vec<u32>> = self.values[..self.layout.ranks as usize]
            .iter()
            .map(|mark| {
                let gradients = (mark / factor).round();
                (gradients * factor == *mark && (0.0..65536.0).contains(&gradients))
                    .then_some(gradients as u32)
            })
            .collect();
        let held = held?;
        let some = held.iter().filter(|gradients| **gradients > 0).count();
        let fits = some <= summed as usize
            && lanes.into_iter().all(|lane| {
                let lane = lane + self.layout.head();
                self.exact(&held, self.first + lane) * factor == self.values[lane]
            });
        fits.then_some(held)
    }

    /// The sum of the next `held` gradients of each rank.
    fn exact(&self, held: &[u32], index: usize) -> f32 {
        let ranks = (0..).zip(self.seen.iter().zip(held));
        let sum = ranks.flat_map(|(rank, (&seen, &held))| {
            (seen..seen + held).map(move |number| i64::from(small(rank, number, index)))
        });
        sum.sum::<i64>() as f32 / 64.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { ranks: 4, lanes: 16 };
    const ELEMENTS: usize = 40;

    fn gradient(rank: u32, number: u32) -> Vec<f32> {
        let mut tensor = vec![0.0; ELEMENTS];
        LAYOUT.fill(&mut tensor, rank, number);
        tensor
    }

    /// The sum of these gradients, scaled from so many ranks.
    fn scaled(gradients: &[(u32, u32)], summed: u32) -> Vec<f32> {
        let mut sum = [0.0; ELEMENTS];
        for &(rank, number) in gradients {
            for (sum, value) in sum.iter_mut().zip(gradient(rank, number)) {
                *sum += value;
            }
        }
        sum.iter().map(|value| value * (4.0 / summed as f32)).collect()
    }

    /// How many of a rank's gradients are in sums of the first chunk.
    fn summed(ledger: &Ledger, rank: u32) -> u32 {
        ledger.seen[rank as usize]
    }

    fn ledger() -> Ledger {
        Ledger::new(LAYOUT, 3, ELEMENTS)
    }

    #[test]
    fn what_a_late_rank_carries_over_is_found() {
        let mut ledger = ledger();
        for look in [Look::Full, Look::Sampled] {
            let numbers = |rank| summed(&ledger, rank);
            let [a, b, c, d] = [0, 1, 2, 3].map(numbers);
            // Without rank 3; with its zeros; with what it carried over.
            for sum in [
                scaled(&[(0, a), (1, b), (2, c)], 3),
                scaled(&[(0, a + 1), (1, b + 1), (2, c + 1)], 4),
                scaled(&[(0, a + 2), (1, b + 2), (3, d), (3, d + 1)], 3),
            ] {
                assert_eq!(ledger.check(&sum, look), Ok(()));
            }
        }
        assert_eq!([0, 1, 2, 3].map(|rank| summed(&ledger, rank)), [6, 6, 4, 4]);
    }

    #[test]
    fn twice_a_gradient_is_not_taken_for_two() {
        let layout = Layout { ranks: 2, lanes: 32 };
        let mut ledger = Ledger::new(layout, 1, layout.lanes);
        for number in 0..20_000 {
            let mut tensor = vec![0.0; layout.lanes];
            layout.fill(&mut tensor, 0, number);
            // Of one rank of two.
            tensor.iter_mut().for_each(|value| *value *= 2.0);
            assert_eq!(ledger.check(&tensor, Look::Sampled), Ok(()), "{number}");
            assert_eq!(summed(&ledger, 0), number + 1);
        }
    }

    #[test]
    fn what_is_no_such_sum_is_found() {
        let good = scaled(&[(0, 0), (1, 0), (2, 0)], 3);
        let mut damaged = good.clone();
        damaged[20 + 5] += 0.5;
        for (wrong, why) in [
            (scaled(&[(0, 0), (1, 0)], 2), "too few ranks"),
            (scaled(&[(0, 0), (1, 0), (2, 0)], 2), "another scale"),
            (scaled(&[(0, 1), (1, 0), (2, 0)], 3), "a gradient out of turn"),
            (damaged, "a damaged value"),
            (vec![f32::NAN; ELEMENTS], "no number"),
        ] {
            assert!(ledger().check(&wrong, Look::Full).is_err(), "{why}");
        }
        let mut twice = ledger();
        assert_eq!(twice.check(&good, Look::Full), Ok(()));
        assert_eq!(twice.check(&good, Look::Full), Err(NoSum { first: 0, last: 15 }));
    }
}

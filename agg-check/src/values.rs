//! What the members contribute, and what must come back.
//!
//! Each contribution is one digit in a place of its own, so that a sum shows exactly what it is made of: a member
//! that is missing leaves a zero, one that is counted twice doubles its digit, and another chunk has another digit.

use std::hash::{Hash, Hasher};

use agg_core::kind::Combine;
use agg_core::{ElementType, MemberSet, OpKind, Operation, ReduceOp, Tensor, Width};

/// Lanes of a chunk: the smallest size that exists.
pub const LANES: usize = 16;

/// Bits of a digit: room for any digit below 32 twice.
const DIGIT: usize = 6;

/// One operation of the script that all members follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Step {
    /// What it does.
    pub kind: OpKind,
    /// Blocks of values; chunks with values, but for a barrier.
    pub blocks: usize,
}

impl Step {
    /// Integers.
    pub const fn i32(blocks: usize) -> Self {
        let kind = OpKind::SUM_I32;
        Self { kind, blocks }
    }

    /// Floats: as many header-only chunks as fit the window go ahead.
    pub const fn f32(blocks: usize) -> Self {
        let kind = OpKind::SUM_F32;
        Self { kind, blocks }
    }

    /// The smallest integers: each block's is another member's, and shows whether that one is in.
    pub const fn min(blocks: usize) -> Self {
        let kind = OpKind::reduce(ReduceOp::Min, ElementType::I32, Width::Bits32).unwrap();
        Self { kind, blocks }
    }

    /// The operation as a worker starts it. The last block has one element only: padding is part of the check.
    pub fn operation(self) -> Operation {
        let elements = match self.kind {
            OpKind::Barrier => 1,
            _ => (self.blocks - 1) * LANES + 1,
        };
        Operation {
            kind: self.kind,
            elements: elements as u64,
        }
    }

    fn fill(self, value: impl Fn(usize) -> i32) -> Data {
        let values = (0..self.operation().elements as usize).map(|element| value(element / LANES));
        match self.kind {
            OpKind::Barrier => Data::Empty,
            kind if kind.is_scaled() => Data::F32(values.map(|value| value as f32).collect()),
            OpKind::Reduce(_) => Data::I32(values.collect()),
        }
    }

    /// Chunks that go ahead of those with values.
    pub fn headers(self, window: u16) -> usize {
        match self.kind {
            kind if kind.is_scaled() => self.blocks.min(usize::from(window)),
            _ => 0,
        }
    }

    /// All its chunks.
    pub fn chunks(self, window: u16) -> usize {
        self.headers(window) + self.blocks
    }

    /// What `member` of `members` contributes to the operation number `seq`.
    ///
    /// Its place changes with the block, so that the largest exponent of a block is not always the same member's;
    /// but where results may leave some out, who then would be clamped, all have the same.
    pub fn contribution(self, seq: usize, member: usize, members: usize, leaves_out: bool) -> Data {
        let level = if leaves_out && self.kind.is_scaled() {
            LEVEL
        } else {
            0
        };
        self.fill(|block| level + (digit(seq, block) << (DIGIT * ((member + block) % members))))
    }

    /// The exact sum of all, or the smallest.
    pub fn sum(self, seq: usize, members: usize) -> Data {
        self.sum_of(seq, MemberSet::first(members as u8), members)
    }

    /// The exact sum of some, or the smallest.
    pub fn sum_of(self, seq: usize, of: MemberSet, members: usize) -> Data {
        let place = |member: u8, block: usize| DIGIT * ((usize::from(member) + block) % members);
        let combine = Combine::of(self.kind.to_wire());
        self.fill(|block| {
            let parts = of.iter().map(|member| digit(seq, block) << place(member, block));
            parts.fold(combine.identity(), |one, other| combine.lanes(one, other))
        })
    }

    /// What a worker makes of the sum of those that the result of each block holds: an estimate of the sum of all
    /// (R-QUORUM-4). The numbers are small enough for it to be exact.
    pub fn estimate(self, seq: usize, of: impl Fn(usize) -> MemberSet, members: usize) -> Data {
        let place = |member: u8, block: usize| DIGIT * ((usize::from(member) + block) % members);
        let block_of = |block: usize| {
            let of = of(block);
            let sum: i32 = of
                .iter()
                .map(|member| LEVEL + (digit(seq, block) << place(member, block)))
                .sum();
            sum as f32 * (members as f32 / of.len() as f32)
        };
        let values = (0..self.operation().elements as usize).map(|element| block_of(element / LANES));
        Data::F32(values.collect())
    }
}

/// Above every digit, so that it alone makes the exponent.
const LEVEL: i32 = 1 << 20;

/// The order of operations by magnitude: exponents grow too much to be predicted, stay, and become a little smaller.
const MAGNITUDES: [usize; 4] = [0, 2, 3, 1];

/// Below 32 for the small operations that can be explored, and no two blocks have the same.
fn digit(seq: usize, block: usize) -> i32 {
    let digit = 1 + 8 * MAGNITUDES[seq] + block;
    assert!(block < 8 && digit < 32, "too long to tell its blocks apart");
    digit as i32
}

/// A tensor of one operation, in the memory of its user. Equal when all bits are.
#[derive(Clone, Debug)]
pub enum Data {
    /// No elements.
    Empty,
    /// Integers.
    I32(Vec<i32>),
    /// Floats.
    F32(Vec<f32>),
}

impl Data {
    /// As the worker takes it.
    pub fn tensor(&mut self) -> Tensor<'_> {
        match self {
            Self::Empty => Tensor::Empty,
            Self::I32(values) => Tensor::I32(values),
            Self::F32(values) => Tensor::F32(values),
        }
    }

    fn bits(&self) -> Vec<u32> {
        match self {
            Self::Empty => Vec::new(),
            Self::I32(values) => values.iter().map(|value| *value as u32).collect(),
            Self::F32(values) => values.iter().map(|value| value.to_bits()).collect(),
        }
    }

    /// Whether each block is either still this member's contribution or the whole sum already.
    pub fn is_between(&self, contribution: &Self, sum: &Self) -> bool {
        let (bits, before, after) = (self.bits(), contribution.bits(), sum.bits());
        let blocks = bits
            .chunks(LANES)
            .zip(before.chunks(LANES).zip(after.chunks(LANES)));
        bits.len() == after.len()
            && blocks
                .into_iter()
                .all(|(is, (before, after))| is == before || is == after)
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.bits() == other.bits()
    }
}

impl Eq for Data {}

impl Hash for Data {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omissions_and_double_counts_show() {
        let step = Step::i32(3);
        let parts: Vec<_> = (0..3)
            .map(|member| step.contribution(1, member, 3, false))
            .collect();
        let sum = |members: &[usize]| {
            let mut total = vec![0; 33];
            for member in members {
                let Data::I32(values) = &parts[*member] else {
                    panic!("integers")
                };
                total
                    .iter_mut()
                    .zip(values)
                    .for_each(|(total, value)| *total += value);
            }
            Data::I32(total)
        };
        let exact = step.sum(1, 3);
        assert_eq!(sum(&[0, 1, 2]), exact);
        for other in [&[0, 1][..], &[1, 2], &[0, 1, 2, 2], &[0, 0, 1], &[1, 1, 1]] {
            assert!(!sum(other).is_between(&parts[0], &exact), "{other:?}");
        }
        assert!(parts[0].is_between(&parts[0], &exact) && !parts[1].is_between(&parts[0], &exact));
        assert_ne!(step.sum(0, 3), exact);
        assert_eq!(sum(&[0, 2]), step.sum_of(1, MemberSet(0b101), 3));

        // Each block's smallest is another member's: whoever is missing shows in one of them.
        let least = Step::min(3);
        for members in [0b011, 0b101, 0b110] {
            assert_ne!(least.sum_of(1, MemberSet(members), 3), least.sum(1, 3));
        }
    }
}

//! What is reduced, in place: the caller's elements, cut into blocks of one chunk each.

use fixed::FixedI32;
use fixed::types::extra::{LeEqU32, Unsigned};
use half::{bf16, f16};

use crate::fixed_point::{self, Meaning, Scale};
use crate::ordered::{from_ordered, to_ordered};
use crate::{ElementType, Exponent, Float, OpKind, ReduceOp};

/// The elements of an operation that one stream carries. The same slice must be passed to a worker from the start
/// of an operation to its end.
#[derive(Debug)]
pub enum Tensor<'t> {
    /// No elements: a barrier, or a stream that has no part in an operation.
    Empty,
    /// Summed as they are, wrapping.
    I32(&'t mut [i32]),
    /// Summed in block fixed point.
    F32(&'t mut [f32]),
    /// As [`Tensor::F32`], each result rounded to the type.
    F16(&'t mut [f16]),
    /// The same.
    Bf16(&'t mut [bf16]),
    /// As [`Tensor::F32`], and what a result does not hold of each value is left in `residual`, of the same length: error
    /// feedback, which the caller adds to the next values (R-QUORUM-4).
    F32Feedback {
        /// What is summed; the result replaces it.
        values: &'t mut [f32],
        /// Value minus contribution.
        residual: &'t mut [f32],
    },
}

/// For whom a result stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// The workers whose values it holds.
    pub summed: u32,
    /// The workers of the job.
    pub workers: u32,
    /// This worker is one of them.
    pub mine: bool,
}

impl Count {
    /// What a sum is multiplied with to estimate that of all workers; `None` where it is whole.
    fn factor(self) -> Option<f32> {
        (self.summed != self.workers && self.summed > 0).then(|| self.workers as f32 / self.summed as f32)
    }
}

impl<'t> Tensor<'t> {
    /// Values with a static binary point (of the `fixed` crate, such as `I16F16`): their sum is that of their bits,
    /// exact and wrapping, with no exponents to agree on.
    pub fn fixed<F: Unsigned + LeEqU32 + 'static>(values: &'t mut [FixedI32<F>]) -> Self {
        Self::I32(bytemuck::must_cast_slice_mut(values))
    }

    /// How many elements there are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::I32(values) => values.len() as u64,
            Self::F32(values) | Self::F32Feedback { values, .. } => values.len() as u64,
            Self::F16(values) => values.len() as u64,
            Self::Bf16(values) => values.len() as u64,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an operation of this kind reduces such elements.
    pub(super) fn suits(&self, kind: OpKind) -> bool {
        let OpKind::Reduce(reduction) = kind else {
            return matches!(self, Self::Empty);
        };
        match self {
            Self::Empty => true,
            Self::I32(_) => reduction.element() == ElementType::I32,
            Self::F32(_) => reduction.element() == ElementType::F32,
            Self::F16(_) => reduction.element() == ElementType::F16,
            Self::Bf16(_) => reduction.element() == ElementType::Bf16,
            Self::F32Feedback { .. } => reduction.element() == ElementType::F32 && reduction.is_scaled(),
        }
    }

    /// The exponent that block `index` of so many elements needs (R-NUM-3); none past the end, and for integers.
    #[inline(always)]
    pub fn exponent(&self, index: u64, elements: usize) -> Exponent {
        match self {
            Self::F32(values) | Self::F32Feedback { values, .. } => exponent(values, index, elements),
            Self::F16(values) => exponent(values, index, elements),
            Self::Bf16(values) => exponent(values, index, elements),
            Self::Empty | Self::I32(_) => Exponent::NONE,
        }
    }

    /// Writes block `index` as wire values; returns whether a value was not finite.
    #[inline(always)]
    pub(super) fn read(
        &self,
        index: u64,
        kind: OpKind,
        scale: Option<&Scale>,
        lanes: &mut [[u8; 4]],
    ) -> bool {
        let elements = kind.elements_of(lanes.len());
        match self {
            Self::Empty => {
                lanes.fill([0; 4]);
                false
            }
            Self::I32(values) => {
                let values = block(values, index, elements).unwrap_or_default();
                let (filled, padding) = lanes.split_at_mut(values.len().min(lanes.len()));
                padding.fill([0; 4]);
                for (lane, value) in filled.iter_mut().zip(values) {
                    *lane = value.to_le_bytes();
                }
                false
            }
            Self::F32(values) | Self::F32Feedback { values, .. } => {
                read_floats(block(values, index, elements), kind, scale, lanes)
            }
            Self::F16(values) => read_floats(block(values, index, elements), kind, scale, lanes),
            Self::Bf16(values) => read_floats(block(values, index, elements), kind, scale, lanes),
        }
    }

    /// Overwrites block `index` with what came back; with NaN where a sum is not finite (R-NUM-6).
    #[inline(always)]
    pub(super) fn write(&mut self, index: u64, sums: &Sums<'_>) {
        let elements = sums.kind.elements_of(sums.lanes.len());
        match self {
            Self::Empty => {}
            Self::I32(values) => {
                if let Some(values) = block_mut(values, index, elements) {
                    let len = values.len();
                    values.copy_from_slice(&sums.lanes[..len]);
                }
            }
            Self::F32(values) => sums.write(block_mut(values, index, elements)),
            Self::F16(values) => sums.write(block_mut(values, index, elements)),
            Self::Bf16(values) => sums.write(block_mut(values, index, elements)),
            Self::F32Feedback { values, residual } => {
                let residual = block_mut(residual, index, elements);
                if let (Some(values), Some(residual)) = (block_mut(values, index, elements), residual) {
                    let scale = sums.scale.as_ref().filter(|_| sums.count.mine);
                    fixed_point::residual(values, scale, sums.nonfinite, residual);
                    sums.write(Some(values));
                }
            }
        }
    }
}

/// Which of the smallest and the largest a kind is for, if either.
fn ordered(kind: OpKind) -> Option<ReduceOp> {
    match kind {
        OpKind::Reduce(reduction) => {
            Some(reduction.op()).filter(|op| matches!(op, ReduceOp::Min | ReduceOp::Max))
        }
        OpKind::Barrier => None,
    }
}

/// What came back for a block.
#[derive(Debug)]
pub(super) struct Sums<'r> {
    pub(super) kind: OpKind,
    pub(super) scale: Option<Scale>,
    pub(super) nonfinite: bool,
    pub(super) lanes: &'r [i32],
    pub(super) count: Count,
}

impl Sums<'_> {
    /// R-NUM-2, R-NUM-6, R-NUM-8, R-NUM-9 and R-QUORUM-4: a sum of some workers is scaled up to all.
    #[inline(always)]
    fn write<F: Float>(&self, values: Option<&mut [F]>) {
        let values = values.unwrap_or_default();
        if self.nonfinite {
            F::write(values, |_, piece: &mut [f32]| piece.fill(f32::NAN));
            return;
        }
        if ordered(self.kind).is_some() {
            F::write(values, |at, piece: &mut [f32]| {
                for (value, lane) in piece.iter_mut().zip(&self.lanes[at..]) {
                    *value = from_ordered(*lane);
                }
            });
            return;
        }
        let average = matches!(self.kind, OpKind::Reduce(reduction) if reduction.op() == ReduceOp::Avg);
        let meaning = match self.count.factor() {
            _ if average => Meaning::Average(self.count.summed.max(1)),
            Some(factor) => Meaning::Estimate(factor),
            None => Meaning::Sum,
        };
        fixed_point::dequantize(self.lanes, self.scale.as_ref(), meaning, values);
    }
}

#[inline(always)]
fn exponent<F: Float>(values: &[F], index: u64, elements: usize) -> Exponent {
    match block(values, index, elements) {
        Some(block) => Exponent::of(block),
        None => Exponent::NONE,
    }
}

#[inline(always)]
fn read_floats<F: Float>(
    values: Option<&[F]>,
    kind: OpKind,
    scale: Option<&Scale>,
    lanes: &mut [[u8; 4]],
) -> bool {
    let values = values.unwrap_or_default();
    let Some(op) = ordered(kind) else {
        return fixed_point::quantize(values, scale, lanes);
    };
    let filled = values.len().min(lanes.len());
    lanes[filled..].fill([0; 4]);
    F::read(values, |at, piece: &[f32]| {
        for (lane, value) in lanes[at..].iter_mut().zip(piece) {
            *lane = to_ordered(*value, op).to_le_bytes();
        }
    });
    false
}

fn block<T>(values: &[T], index: u64, elements: usize) -> Option<&[T]> {
    let start = usize::try_from(index).ok()?.checked_mul(elements)?;
    let rest = values.get(start..)?;
    rest.get(..elements.min(rest.len()))
}

fn block_mut<T>(values: &mut [T], index: u64, elements: usize) -> Option<&mut [T]> {
    let start = usize::try_from(index).ok()?.checked_mul(elements)?;
    let rest = values.get_mut(start..)?;
    let len = elements.min(rest.len());
    rest.get_mut(..len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Width;
    use fixed::types::I16F16;

    const MAX_F32: OpKind = OpKind::reduce(ReduceOp::Max, ElementType::F32, Width::Bits32).unwrap();

    fn sums(kind: OpKind, lanes: &[i32]) -> Sums<'_> {
        Sums {
            kind,
            scale: None,
            nonfinite: false,
            lanes,
            count: ALL,
        }
    }

    const ALL: Count = Count {
        summed: 4,
        workers: 4,
        mine: true,
    };

    #[test]
    fn fixed_values_are_summed_by_their_bits() {
        let mut values = [I16F16::from_num(1.5), I16F16::from_num(-0.25)];
        let mut tensor = Tensor::fixed(&mut values);
        let mut lanes = [[1; 4]; 3];
        assert!(!tensor.read(0, OpKind::SUM_I32, None, &mut lanes));
        assert_eq!(lanes.map(i32::from_le_bytes), [0x1_8000, -0x4000, 0]);
        tensor.write(0, &sums(OpKind::SUM_I32, &[0x3_0000, -0x8000, 9]));
        assert_eq!(values, [I16F16::from_num(3), I16F16::from_num(-0.5)]);
    }

    #[test]
    fn the_last_block_is_short_and_blocks_past_the_end_are_empty() {
        let mut values = [1, 2, 3, 4, 5];
        let mut tensor = Tensor::I32(&mut values);
        let mut lanes = [[9; 4]; 4];
        tensor.read(1, OpKind::SUM_I32, None, &mut lanes);
        assert_eq!(lanes.map(i32::from_le_bytes), [5, 0, 0, 0]);
        tensor.read(u64::MAX, OpKind::SUM_I32, None, &mut lanes);
        assert_eq!(lanes.map(i32::from_le_bytes), [0; 4]);
        tensor.write(1, &sums(OpKind::SUM_I32, &[50, 60, 70, 80]));
        tensor.write(2, &sums(OpKind::SUM_I32, &[7; 4]));
        assert_eq!(values, [1, 2, 3, 4, 50]);
    }

    #[test]
    fn num_6_not_finite_is_nan_everywhere_in_the_block() {
        let mut values = [1.0, 2.0, 3.0];
        let nonfinite = Sums {
            nonfinite: true,
            ..sums(OpKind::SUM_F32, &[0, 0])
        };
        Tensor::F32(&mut values).write(0, &nonfinite);
        assert!(values[0].is_nan() && values[1].is_nan() && values[2] == 3.0);
    }

    #[test]
    fn quorum_4_what_a_result_does_not_hold_is_left_as_residual() {
        let scale = Scale::new(Exponent(1), 4, Width::Bits32);
        let (mut values, mut residual) = ([1.0, 5.0, 1e-9], [9.0; 3]);
        let mut tensor = Tensor::F32Feedback {
            values: &mut values,
            residual: &mut residual,
        };
        let mut lanes = [[0; 4]; 3];
        tensor.read(0, OpKind::SUM_F32, scale.as_ref(), &mut lanes);
        let three = Count {
            summed: 3,
            workers: 4,
            mine: true,
        };
        let lanes = lanes.map(i32::from_le_bytes);
        let held = Sums {
            scale,
            count: three,
            ..sums(OpKind::SUM_F32, &lanes)
        };
        tensor.write(0, &held);
        // 5 is above what the exponent lets through, 1e-9 below a unit's half.
        assert_eq!(residual[0], 0.0);
        assert!((residual[1] - 3.0).abs() < 1e-6, "{residual:?}");
        assert!(residual[2] == 1e-9 && values[2] == 0.0, "{residual:?} {values:?}");
        assert!((values[0] - 4.0 / 3.0).abs() < 1e-6, "{values:?}");

        let (mut values, mut residual) = ([1.0], [9.0]);
        let late = Count { mine: false, ..three };
        Tensor::F32Feedback {
            values: &mut values,
            residual: &mut residual,
        }
        .write(
            0,
            &Sums {
                scale,
                count: late,
                ..sums(OpKind::SUM_F32, &[0])
            },
        );
        assert_eq!((values, residual), ([0.0], [1.0]));
    }

    #[test]
    fn num_8_the_largest_float_comes_back_exactly() {
        let mut values = [-1.5, f32::NAN, f32::NEG_INFINITY];
        let mut lanes = [[0; 4]; 4];
        assert!(!Tensor::F32(&mut values).read(0, MAX_F32, None, &mut lanes));
        let lanes = lanes.map(i32::from_le_bytes);
        Tensor::F32(&mut values).write(0, &sums(MAX_F32, &lanes));
        assert!(values[0] == -1.5 && values[1].is_nan() && values[2] == f32::NEG_INFINITY);
    }

    #[test]
    fn num_9_an_average_is_divided_by_those_it_holds() {
        let kind = OpKind::reduce(ReduceOp::Avg, ElementType::F32, Width::Bits32).unwrap();
        let scale = Scale::new(Exponent(0), 3, Width::Bits32);
        let lanes = [1 << 29, -(1 << 28)];
        for (summed, expected) in [(3, [1.0 / 3.0, -0.5 / 3.0]), (2, [0.5, -0.25])] {
            let mut values = [0.0; 2];
            let count = Count {
                summed,
                workers: 3,
                mine: true,
            };
            Tensor::F32(&mut values).write(
                0,
                &Sums {
                    scale,
                    count,
                    ..sums(kind, &lanes)
                },
            );
            assert_eq!(values, expected, "{summed} of 3");
        }
    }
}

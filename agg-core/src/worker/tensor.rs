//! What is reduced, in place: the caller's elements, cut into blocks of one chunk each.

use fixed::FixedI32;
use fixed::types::extra::{LeEqU32, Unsigned};

use crate::fixed_point::{self, Scale};
use crate::{Exponent, OpKind};

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
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an operation of this kind reduces such elements.
    pub(super) fn suits(&self, kind: OpKind) -> bool {
        matches!(
            (self, kind),
            (Self::Empty, _)
                | (Self::I32(_), OpKind::SumI32)
                | (Self::F32(_) | Self::F32Feedback { .. }, OpKind::SumF32)
        )
    }

    /// The exponent that block `index` needs.
    pub(super) fn exponent(&self, index: u64, lanes: usize) -> Exponent {
        match self {
            Self::F32(values) | Self::F32Feedback { values, .. } => {
                block(values, index, lanes).map_or(Exponent::NONE, Exponent::of)
            }
            Self::Empty | Self::I32(_) => Exponent::NONE,
        }
    }

    /// Writes block `index` as wire values; returns whether a value was not finite.
    #[inline(always)]
    pub(super) fn read(&self, index: u64, scale: Option<&Scale>, lanes: &mut [[u8; 4]]) -> bool {
        match self {
            Self::Empty => {
                lanes.fill([0; 4]);
                false
            }
            Self::I32(values) => {
                let values = block(values, index, lanes.len()).unwrap_or_default();
                let (filled, padding) = lanes.split_at_mut(values.len().min(lanes.len()));
                padding.fill([0; 4]);
                for (lane, value) in filled.iter_mut().zip(values) {
                    *lane = value.to_le_bytes();
                }
                false
            }
            Self::F32(values) | Self::F32Feedback { values, .. } => {
                let values = block(values, index, lanes.len()).unwrap_or_default();
                fixed_point::quantize(values, scale, lanes)
            }
        }
    }

    /// Overwrites block `index` with the sums; with NaN where they are not finite (R-NUM-6).
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        index: u64,
        scale: Option<&Scale>,
        nonfinite: bool,
        sums: &[i32],
        count: Count,
    ) {
        match self {
            Self::Empty => {}
            Self::I32(values) => {
                if let Some(values) = block_mut(values, index, sums.len()) {
                    let len = values.len();
                    values.copy_from_slice(&sums[..len]);
                }
            }
            Self::F32(values) => {
                if let Some(values) = block_mut(values, index, sums.len()) {
                    write_f32(values, scale, nonfinite, sums, count);
                }
            }
            Self::F32Feedback { values, residual } => {
                let residual = block_mut(residual, index, sums.len());
                if let (Some(values), Some(residual)) = (block_mut(values, index, sums.len()), residual) {
                    fixed_point::residual(values, scale.filter(|_| count.mine), nonfinite, residual);
                    write_f32(values, scale, nonfinite, sums, count);
                }
            }
        }
    }
}

/// R-NUM-2, R-NUM-6 and R-QUORUM-4: a sum of some workers is scaled up to all.
fn write_f32(values: &mut [f32], scale: Option<&Scale>, nonfinite: bool, sums: &[i32], count: Count) {
    if nonfinite {
        values.fill(f32::NAN);
        return;
    }
    fixed_point::dequantize(sums, scale, values);
    if let Some(factor) = count.factor() {
        for value in values {
            *value *= factor;
        }
    }
}

fn block<T>(values: &[T], index: u64, lanes: usize) -> Option<&[T]> {
    let start = usize::try_from(index).ok()?.checked_mul(lanes)?;
    let rest = values.get(start..)?;
    rest.get(..lanes.min(rest.len()))
}

fn block_mut<T>(values: &mut [T], index: u64, lanes: usize) -> Option<&mut [T]> {
    let start = usize::try_from(index).ok()?.checked_mul(lanes)?;
    let rest = values.get_mut(start..)?;
    let len = lanes.min(rest.len());
    rest.get_mut(..len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixed::types::I16F16;

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
        assert!(!tensor.read(0, None, &mut lanes));
        assert_eq!(lanes.map(i32::from_le_bytes), [0x1_8000, -0x4000, 0]);
        tensor.write(0, None, false, &[0x3_0000, -0x8000, 9], ALL);
        assert_eq!(values, [I16F16::from_num(3), I16F16::from_num(-0.5)]);
    }

    #[test]
    fn the_last_block_is_short_and_blocks_past_the_end_are_empty() {
        let mut values = [1, 2, 3, 4, 5];
        let mut tensor = Tensor::I32(&mut values);
        let mut lanes = [[9; 4]; 4];
        tensor.read(1, None, &mut lanes);
        assert_eq!(lanes.map(i32::from_le_bytes), [5, 0, 0, 0]);
        tensor.read(u64::MAX, None, &mut lanes);
        assert_eq!(lanes.map(i32::from_le_bytes), [0; 4]);
        tensor.write(1, None, false, &[50, 60, 70, 80], ALL);
        tensor.write(2, None, false, &[7; 4], ALL);
        assert_eq!(values, [1, 2, 3, 4, 50]);
    }

    #[test]
    fn num_6_not_finite_is_nan_everywhere_in_the_block() {
        let mut values = [1.0, 2.0, 3.0];
        Tensor::F32(&mut values).write(0, None, true, &[0, 0], ALL);
        assert!(values[0].is_nan() && values[1].is_nan() && values[2] == 3.0);
    }

    #[test]
    fn quorum_4_what_a_result_does_not_hold_is_left_as_residual() {
        let scale = Scale::new(Exponent(1), 4);
        let (mut values, mut residual) = ([1.0, 5.0, 1e-9], [9.0; 3]);
        let mut tensor = Tensor::F32Feedback {
            values: &mut values,
            residual: &mut residual,
        };
        let mut lanes = [[0; 4]; 3];
        tensor.read(0, scale.as_ref(), &mut lanes);
        let three = Count {
            summed: 3,
            workers: 4,
            mine: true,
        };
        tensor.write(0, scale.as_ref(), false, &lanes.map(i32::from_le_bytes), three);
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
        .write(0, scale.as_ref(), false, &[0], late);
        assert_eq!((values, residual), ([0.0], [1.0]));
    }
}

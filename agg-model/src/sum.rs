//! What an operation must give, bit for bit (docs/protocol.md, "Numbers").

use crate::kind::{ElementKind, ModelKind, Op, combine};
use crate::predictions::Exponents;

/// The results of operations, from their definitions.
#[derive(Clone, Copy, Debug)]
pub struct ModelSum;

/// How the values of a chunk are scaled (R-NUM-2, R-NUM-7).
#[derive(Clone, Copy, Debug)]
pub struct ModelScale {
    /// The agreed exponent; without one all values are 0.
    pub exponent: Option<i16>,
    /// Workers of the job.
    pub workers: u32,
    /// Bits of an element on the wire.
    pub bits: u32,
}

impl ModelSum {
    /// R-NUM-1: element by element.
    pub fn of_i32(kind: ModelKind, inputs: &[Vec<i32>]) -> Vec<i32> {
        let op = u64::from(kind.number()) << 56;
        let elements = inputs[0].len();
        (0..elements)
            .map(|at| {
                let values = inputs.iter().map(|values| values[at]);
                values
                    .reduce(|one, other| combine(op, one, other))
                    .expect("of somebody")
            })
            .collect()
    }

    /// R-NUM-2, R-NUM-3, R-NUM-6 and R-NUM-7: block by block, each with the largest exponent that a worker needs; or R-NUM-8.
    pub fn of_floats(kind: ModelKind, inputs: &[Vec<f32>], lanes: usize) -> Vec<f32> {
        Self::of_floats_scaled(kind, inputs, lanes, &Self::agreed(kind, inputs, lanes))
    }

    /// R-NUM-3: the exponent that each block needs.
    pub fn agreed(kind: ModelKind, inputs: &[Vec<f32>], lanes: usize) -> Exponents {
        let of_block = |values: &Vec<f32>, index: usize| {
            let block = values.chunks(kind.elements_of(lanes)).nth(index);
            Self::exponent(block.unwrap_or_default())
        };
        let blocks = inputs[0].len().div_ceil(kind.elements_of(lanes));
        let agreed = |index| inputs.iter().filter_map(|values| of_block(values, index)).max();
        (0..blocks).map(agreed).collect()
    }

    /// [`Self::of_floats`] where the blocks are scaled with these exponents.
    pub fn of_floats_scaled(
        kind: ModelKind,
        inputs: &[Vec<f32>],
        lanes: usize,
        scales: &[Option<i16>],
    ) -> Vec<f32> {
        let (workers, elements) = (inputs.len() as u32, inputs[0].len());
        let mut results = Vec::new();
        for (index, start) in (0..elements).step_by(kind.elements_of(lanes)).enumerate() {
            let block = start..elements.min(start + kind.elements_of(lanes));
            let parts: Vec<&[f32]> = inputs.iter().map(|values| &values[block.clone()]).collect();
            let scale = ModelScale {
                exponent: scales[index],
                workers,
                bits: kind.bits(),
            };
            let nonfinite = parts.iter().any(|part| part.iter().any(|x| !x.is_finite()));
            for at in 0..block.len() {
                let numbers = parts.iter().map(|part| Self::number(kind, part[at], scale));
                let sum = if kind.is_scaled() {
                    let sum: i64 = numbers.map(i64::from).sum();
                    let most = 1_i64 << (kind.bits() - 1);
                    assert!(
                        (-most..most).contains(&sum),
                        "R-NUM-2, R-NUM-7: a sum of n cannot overflow"
                    );
                    sum as i32
                } else {
                    let op = u64::from(kind.number()) << 56;
                    numbers
                        .reduce(|one, other| combine(op, one, other))
                        .expect("of somebody")
                };
                results.push(match nonfinite && kind.is_scaled() {
                    true => f32::NAN,
                    false => Self::result(kind, sum, scale, workers),
                });
            }
        }
        results
    }

    /// The number that an element becomes.
    pub fn number(kind: ModelKind, x: f32, scale: ModelScale) -> i32 {
        match kind {
            ModelKind::Reduce { op: Op::Min, .. } => Self::ordered(x, i32::MIN),
            ModelKind::Reduce { op: Op::Max, .. } => Self::ordered(x, i32::MAX),
            _ => scale.quantize(x),
        }
    }

    /// What a worker makes of the number that stands for `summed` workers, as f32: R-NUM-2, R-NUM-8, R-NUM-9 and R-QUORUM-4.
    pub fn result(kind: ModelKind, number: i32, scale: ModelScale, summed: u32) -> f32 {
        match kind {
            ModelKind::Reduce {
                op: Op::Min | Op::Max,
                ..
            } => Self::of_ordered(number),
            ModelKind::Reduce { op: Op::Avg, .. } => scale.average(number, summed),
            _ => Self::estimate(scale.dequantize(number), summed, scale.workers),
        }
    }

    /// R-NUM-10: a result in the type of the elements.
    pub fn rounded(kind: ModelKind, x: f32) -> f32 {
        match kind {
            ModelKind::Reduce {
                element: ElementKind::F16,
                ..
            } => half::f16::from_f32(x).to_f32(),
            ModelKind::Reduce {
                element: ElementKind::Bf16,
                ..
            } => half::bf16::from_f32(x).to_f32(),
            _ => x,
        }
    }

    /// R-NUM-8: the place of a float among the integers; `nan` is that of NaN.
    fn ordered(x: f32, nan: i32) -> i32 {
        let magnitude = (x.to_bits() & 0x7fff_ffff) as i32;
        if x.is_nan() {
            nan
        } else if x.is_sign_positive() {
            magnitude
        } else {
            -1 - magnitude
        }
    }

    /// R-NUM-8: and back.
    fn of_ordered(number: i32) -> f32 {
        let x = if number >= 0 {
            f32::from_bits(number as u32)
        } else {
            -f32::from_bits((-1 - number) as u32)
        };
        if x.is_nan() { f32::NAN } else { x }
    }

    /// R-NUM-7: the lanes of a block of integers that have so many bits each.
    pub fn pack(values: &[i32], lanes: usize, bits: u32) -> Vec<i32> {
        let lane = |at: usize| {
            let planes = values.iter().skip(at).step_by(lanes).enumerate();
            let sum: i64 = planes
                .map(|(plane, value)| i64::from(*value) << (bits * plane as u32))
                .sum();
            sum as i32
        };
        (0..lanes).map(lane).collect()
    }

    /// R-NUM-7: and back, digit by digit.
    pub fn unpack(lanes: &[i32], bits: u32) -> Vec<i32> {
        let mut left: Vec<i64> = lanes.iter().map(|lane| i64::from(*lane)).collect();
        let mut values = Vec::new();
        for _ in 0..32 / bits {
            for rest in &mut left {
                let most = 1_i64 << (bits - 1);
                let digit = (*rest + most).rem_euclid(2 * most) - most;
                values.push(digit as i32);
                *rest = (*rest - digit) / (2 * most);
            }
        }
        values
    }

    /// R-NUM-3: the least e with every finite |x| < 2^e; none for zeros.
    pub fn exponent(block: &[f32]) -> Option<i16> {
        let finite = || {
            block
                .iter()
                .filter(|x| x.is_finite() && **x != 0.0)
                .map(|x| f64::from(x.abs()))
        };
        finite().next()?;
        (-149..=128).find(|e| finite().all(|x| x < power_of_two(i32::from(*e))))
    }

    /// R-QUORUM-4: a sum of `summed` workers as an estimate of that of all.
    pub fn estimate(sum: f32, summed: u32, workers: u32) -> f32 {
        if summed == workers {
            return sum;
        }
        let factor = (f64::from(workers) / f64::from(summed)) as f32;
        // Exact before it is rounded: f64 has room for the product of two f32.
        (f64::from(sum) * f64::from(factor)) as f32
    }
}

impl ModelScale {
    /// Bits of a magnitude: all but the sign's and the headroom's.
    fn magnitude_bits(self) -> i32 {
        (self.bits as i32 - 1 - log2_ceil(self.workers)).max(1)
    }

    /// What one stands for in a number of the chunk; none where all are 0.
    fn unit(self) -> Option<f64> {
        let exponent = self.exponent?;
        Some(power_of_two(in_range(exponent) - self.magnitude_bits()))
    }

    /// R-NUM-2: x · 2^(31−⌈log2 n⌉−e), to nearest, ties to even, clamped. R-NUM-6: NaN is 0. With no exponent, 0.
    pub fn quantize(self, x: f32) -> i32 {
        let Some(unit) = self.unit() else { return 0 };
        if x.is_nan() {
            return 0;
        }
        // Exact: f64 has room for every f32 times every such power.
        let scaled = f64::from(x) / unit;
        let limit = power_of_two(self.magnitude_bits()) - 1.0;
        to_nearest_even(scaled).clamp(-limit, limit) as i32
    }

    /// R-NUM-2: the sum as a float, rounded once, times 2^(e−31+⌈log2 n⌉). With no exponent, 0.
    pub fn dequantize(self, sum: i32) -> f32 {
        let Some(unit) = self.unit() else { return 0.0 };
        (f64::from(sum as f32) * unit) as f32
    }

    /// R-NUM-9: the average of so many.
    pub fn average(self, sum: i32, of: u32) -> f32 {
        let Some(unit) = self.unit() else { return 0.0 };
        (f64::from(sum) * (unit / f64::from(of))) as f32
    }

    /// What a sum stands for, not rounded.
    pub fn exact(self, sum: i32) -> f64 {
        self.unit().map_or(0.0, |unit| f64::from(sum) * unit)
    }

    /// R-QUORUM-4: what a result does not hold of a value; `held` says whether the worker is in its set.
    pub fn residual(self, x: f32, held: bool) -> f32 {
        if !x.is_finite() {
            0.0
        } else if held {
            x - self.dequantize(self.quantize(x))
        } else {
            x
        }
    }

    /// R-NUM-2's and R-NUM-7's bound on the error of one element whose exact sum is `sum`.
    pub fn bound(self, sum: f64) -> f64 {
        let Some(unit) = self.unit() else { return 0.0 };
        f64::from(self.workers) * unit + power_of_two(-24) * sum.abs()
    }

    /// R-NUM-9's bound on the error of the average of all.
    pub fn bound_of_average(self, average: f64) -> f64 {
        let Some(unit) = self.unit() else { return 0.0 };
        unit + 1.001 * power_of_two(-24) * average.abs() + power_of_two(-150)
    }
}

/// No block of f32 needs an exponent outside this range; a wrong one that is received counts as the nearest in it.
fn in_range(exponent: i16) -> i32 {
    i32::from(exponent).clamp(-149, 128)
}

/// ⌈log2 n⌉: the least power of two that is not below n.
fn log2_ceil(n: u32) -> i32 {
    (0..).find(|power| 1_u64 << power >= u64::from(n)).unwrap_or(0)
}

/// 2^power in steps of one, exact.
fn power_of_two(power: i32) -> f64 {
    let step = if power < 0 { 0.5 } else { 2.0 };
    (0..power.abs()).fold(1.0, |product, _| product * step)
}

/// The nearest integer; of two equally near, the even one.
fn to_nearest_even(x: f64) -> f64 {
    let (below, above) = (x.floor(), x.ceil());
    let (down, up) = (x - below, above - x);
    if down < up || (down == up && below % 2.0 == 0.0) {
        below
    } else {
        above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn num_2_by_hand() {
        // n = 3: headroom 2, so 1.0 below 2^1 becomes 2^(31 - 2 - 1).
        let scale = |workers, bits| ModelScale {
            exponent: Some(1),
            workers,
            bits,
        };
        assert_eq!(scale(3, 32).quantize(1.0), 1 << 28);
        assert_eq!(scale(3, 32).quantize(f32::INFINITY), (1 << 29) - 1);
        assert_eq!(scale(1, 32).quantize(f32::NEG_INFINITY), -i32::MAX);
        assert_eq!(scale(3, 16).quantize(1.0), 1 << 12);
        assert_eq!(scale(4, 8).quantize(-1.0), -16);
        assert_eq!(scale(4, 8).average(-16, 4), -0.25);
        for (x, rounded) in [
            (0.5, 0.0),
            (1.5, 2.0),
            (2.5, 2.0),
            (-0.5, 0.0),
            (-1.5, -2.0),
            (0.6, 1.0),
            (7.0, 7.0),
        ] {
            assert_eq!(to_nearest_even(x), rounded, "{x}");
        }
        assert_eq!(
            ModelSum::of_floats(
                ModelKind::SUM_F32,
                &[vec![1.0, 0.25], vec![2.0, -0.5], vec![0.0, 0.0]],
                16
            ),
            [3.0, -0.25]
        );
    }

    #[test]
    fn num_7_by_hand() {
        // -1 borrows from the 3 above it.
        assert_eq!(ModelSum::pack(&[-1, 5, 3], 2, 16), [0x0002_ffff, 5]);
        assert_eq!(ModelSum::unpack(&[0x0002_ffff, 5], 16), [-1, 5, 3, 0]);
        assert_eq!(ModelSum::unpack(&[-1], 8), [-1, 0, 0, 0]);
        assert_eq!(
            ModelSum::pack(&[-128, -128, 127, -128], 1, 8),
            [0x807e_7f80_u32 as i32]
        );
        assert_eq!(
            ModelSum::unpack(&[0x807e_7f80_u32 as i32], 8),
            [-128, -128, 127, -128]
        );
    }

    #[test]
    fn num_8_by_hand() {
        let numbers = [0.0, -0.0, 1.0, -1.0].map(|x| ModelSum::ordered(x, 7));
        assert_eq!(numbers, [0, -1, 0x3f80_0000, -0x3f80_0001]);
        assert_eq!(numbers.map(ModelSum::of_ordered), [0.0, -0.0, 1.0, -1.0]);
        assert_eq!(ModelSum::ordered(-f32::NAN, i32::MIN), i32::MIN);
        assert!(ModelSum::of_ordered(i32::MIN).is_nan() && ModelSum::of_ordered(i32::MAX).is_nan());
    }

    #[test]
    fn num_3_by_hand() {
        assert_eq!(ModelSum::exponent(&[0.0, -0.0]), None);
        assert_eq!(ModelSum::exponent(&[1.0]), Some(1));
        assert_eq!(ModelSum::exponent(&[0.0, f32::from_bits(1)]), Some(-148));
        assert_eq!(ModelSum::exponent(&[f32::NAN, f32::INFINITY, 0.25]), Some(-1));
        assert_eq!(ModelSum::exponent(&[f32::MAX]), Some(128));
    }
}

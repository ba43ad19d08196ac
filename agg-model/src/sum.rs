//! What an operation must give, bit for bit (docs/protocol.md, "Numbers").

/// The sums of operations, from their definitions.
#[derive(Clone, Copy, Debug)]
pub struct ModelSum;

impl ModelSum {
    /// R-NUM-1: element by element, wrapping.
    pub fn of_i32(inputs: &[Vec<i32>]) -> Vec<i32> {
        let elements = inputs[0].len();
        (0..elements)
            .map(|at| {
                inputs
                    .iter()
                    .fold(0_i32, |sum, values| sum.wrapping_add(values[at]))
            })
            .collect()
    }

    /// R-NUM-2, R-NUM-3 and R-NUM-6: block by block of `lanes` elements, each with the largest exponent that a
    /// worker needs.
    pub fn of_f32(inputs: &[Vec<f32>], lanes: usize) -> Vec<f32> {
        let (workers, elements) = (inputs.len() as u32, inputs[0].len());
        let mut sums = Vec::new();
        for start in (0..elements).step_by(lanes) {
            let block = start..elements.min(start + lanes);
            let exponent = inputs
                .iter()
                .filter_map(|values| Self::exponent(&values[block.clone()]))
                .max();
            let nonfinite = inputs
                .iter()
                .any(|values| values[block.clone()].iter().any(|x| !x.is_finite()));
            for at in block {
                let sum: i64 = inputs
                    .iter()
                    .map(|values| i64::from(Self::quantize(values[at], exponent, workers)))
                    .sum();
                let sum = i32::try_from(sum).expect("R-NUM-2: a sum of n cannot overflow");
                sums.push(if nonfinite {
                    f32::NAN
                } else {
                    Self::dequantize(sum, exponent, workers)
                });
            }
        }
        sums
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

    /// R-NUM-2: x · 2^(31−⌈log2 n⌉−e), to nearest, ties to even, clamped. R-NUM-6: NaN is 0. With no exponent, 0.
    pub fn quantize(x: f32, exponent: Option<i16>, workers: u32) -> i32 {
        let Some(exponent) = exponent else { return 0 };
        if x.is_nan() {
            return 0;
        }
        let power = 31 - log2_ceil(workers) - in_range(exponent);
        // Exact: f64 has room for every f32 times every such power.
        let scaled = f64::from(x) * power_of_two(power);
        let limit = power_of_two(31 - log2_ceil(workers)) - 1.0;
        to_nearest_even(scaled).clamp(-limit, limit) as i32
    }

    /// R-NUM-2: the sum as a float, rounded once, times 2^(e−31+⌈log2 n⌉). With no exponent, 0.
    pub fn dequantize(sum: i32, exponent: Option<i16>, workers: u32) -> f32 {
        let Some(exponent) = exponent else { return 0.0 };
        let power = in_range(exponent) - 31 + log2_ceil(workers);
        (f64::from(sum as f32) * power_of_two(power)) as f32
    }

    /// What a sum stands for, not rounded.
    pub fn exact(sum: i32, exponent: Option<i16>, workers: u32) -> f64 {
        let Some(exponent) = exponent else { return 0.0 };
        f64::from(sum) * power_of_two(in_range(exponent) - 31 + log2_ceil(workers))
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

    /// R-QUORUM-4: what a result does not hold of a value; `held` says whether the worker is in its set.
    pub fn residual(x: f32, exponent: Option<i16>, workers: u32, held: bool) -> f32 {
        if !x.is_finite() {
            0.0
        } else if held {
            x - Self::dequantize(Self::quantize(x, exponent, workers), exponent, workers)
        } else {
            x
        }
    }

    /// R-NUM-2's bound on the error of one element whose exact sum is `sum`.
    pub fn bound(exponent: Option<i16>, workers: u32, sum: f64) -> f64 {
        let Some(exponent) = exponent else { return 0.0 };
        let unit = power_of_two(i32::from(exponent) - 31 + log2_ceil(workers));
        f64::from(workers) * unit + power_of_two(-24) * sum.abs()
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
        assert_eq!(ModelSum::quantize(1.0, Some(1), 3), 1 << 28);
        assert_eq!(ModelSum::quantize(f32::INFINITY, Some(1), 3), (1 << 29) - 1);
        assert_eq!(ModelSum::quantize(f32::NEG_INFINITY, Some(1), 1), -i32::MAX);
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
            ModelSum::of_f32(&[vec![1.0, 0.25], vec![2.0, -0.5], vec![0.0, 0.0]], 16),
            [3.0, -0.25]
        );
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

//! Block fixed point: floats as 32-bit integers with one exponent a chunk (docs/protocol.md, "Numbers"; the block
//! exponents are SwitchML's, NSDI 2021 §3.7).
//!
//! A block whose largest magnitude lies below `2^e` is scaled so that a sum over `n` members cannot overflow an
//! `i32`, rounded to nearest with ties to even, and summed exactly. Only workers run this module; an aggregator
//! sees integers and takes maxima of exponents.

use crate::float::{Reader, Writer};
use crate::{Float, Width};

/// A power of two above every magnitude of a block: `|x| < 2^e`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Exponent(pub i16);

impl Exponent {
    /// No magnitude to cover: a block of zeros, or no block at all. The identity of the maximum (R-NUM-3).
    pub const NONE: Self = Self(i16::MIN);

    /// The exponent of the largest *finite* magnitude in `block`; NaN and infinities are flagged, not scaled.
    #[inline(always)]
    pub fn of<F: Float>(block: &[F]) -> Self {
        let mut largest = 0_i32;
        F::read(block, LargestFinite(&mut largest));
        if largest == 0 {
            return Self::NONE;
        }
        let biased = (largest >> 23) as i16;
        if biased > 0 {
            Self(biased - 126)
        } else {
            Self((32 - largest.leading_zeros()) as i16 - 149)
        }
    }
}

// The bits of magnitudes order as the magnitudes do. Signed, since SSE2 compares only such.
const INFINITY_BITS: i32 = 0x7f80_0000;
const MAGNITUDE_BITS: i32 = 0x7fff_ffff;

/// How the values of one chunk are scaled: the agreed exponent and the headroom for the sum (R-NUM-2).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    /// Multiplying by both in turn gives `2^(width - 1 - headroom - e)`: one factor alone can be out of range.
    up: [f32; 2],
    down: [f32; 2],
    /// Bits of the magnitude of an integer, `width - 1 - headroom`: the limit is `2^bits - 1`.
    bits: u32,
    /// `2^bits` as the bits of a float.
    above_limit: i32,
    width: Width,
}

impl Scale {
    /// The scale for an agreed exponent and `workers` summands, at least 1, of which each sum has `width` bits. `None` for
    /// [`Exponent::NONE`]: every value is zero. An exponent outside what `f32` has is clamped into it. More workers than
    /// [`Width::most_workers`] can overflow.
    pub fn new(exponent: Exponent, workers: u32, width: Width) -> Option<Self> {
        if exponent == Exponent::NONE {
            return None;
        }
        // The base-2 logarithm, rounded up.
        let headroom = 32 - (workers.max(1) - 1).leading_zeros();
        let bits = (width.bits() - 1).saturating_sub(headroom).max(1);
        let power = bits as i32 - i32::from(exponent.0.clamp(-149, 128));
        Some(Self {
            width,
            ..Self::with_factors(halves(power), halves(-power), bits)
        })
    }

    /// The scale for magnitudes below `2^bits`.
    fn with_factors(up: [f32; 2], down: [f32; 2], bits: u32) -> Self {
        Self {
            up,
            down,
            bits,
            above_limit: (bits as i32 + 127) << 23,
            width: Width::Bits32,
        }
    }

    /// One value as an integer: rounded to nearest, ties to even, NaN to 0, clamped to the limit.
    ///
    /// `as i32` would do, but compilers turn it into scalar code, which takes two to five times as long. So the
    /// magnitude, at most 2^31, is split into two halves that rounding by addition can convert: next to 2^23 an `f32`
    /// holds just integers, in its low bits, and an addition rounds to them as IEEE 754 does.
    #[inline(always)]
    fn quantize_one(&self, value: f32) -> i32 {
        const INTEGERS: f32 = 8_388_608.0; // 2^23
        const SIGNED_INTEGERS: f32 = 1.5 * INTEGERS;
        const HALF: f32 = 65_536.0; // 2^16

        let bits = (value * self.up[0] * self.up[1]).to_bits() as i32;
        let (sign, bits) = (bits >> 31, bits & MAGNITUDE_BITS);
        let bits = if bits > INFINITY_BITS {
            0
        } else {
            bits.min(self.above_limit)
        };
        let magnitude = f32::from_bits(bits as u32);
        let high = magnitude * (1.0 / HALF) + INTEGERS;
        // Exact, and from -2^15 to 2^15; so only the last addition rounds.
        let low = magnitude - (high - INTEGERS) * HALF;
        let low = (low + SIGNED_INTEGERS)
            .to_bits()
            .wrapping_sub(SIGNED_INTEGERS.to_bits());
        let integer = (high.to_bits() << 16).wrapping_add(low);
        // At most 2^bits, which is one too much.
        let integer = integer.wrapping_sub(integer >> self.bits);
        (integer as i32 ^ sign).wrapping_sub(sign)
    }

    /// One summed value as a float.
    #[inline(always)]
    fn dequantize_one(&self, sum: i32) -> f32 {
        sum as f32 * self.down[0] * self.down[1]
    }
}

/// Two normal powers of two whose product is `2^power`, for `|power| <= 252`.
fn halves(power: i32) -> [f32; 2] {
    let first = power / 2;
    [first, power - first].map(|power| f32::from_bits(((power + 127) as u32) << 23))
}

/// Writes `block` scaled to integers, little-endian, and returns whether any value was NaN or infinite. Lanes past
/// the block's end are zero. Narrow values lie in planes: with two a lane, the second half of a chunk's values lies above the
/// first (R-NUM-7).
#[inline(always)]
pub fn quantize<F: Float>(block: &[F], scale: Option<&Scale>, lanes: &mut [[u8; 4]]) -> bool {
    let Some(scale) = scale.copied() else {
        lanes.fill([0; 4]);
        return has_nonfinite(block);
    };
    let filled = block.len().min(lanes.len());
    lanes[filled..].fill([0; 4]);
    let mut largest = 0_i32;
    for (plane, values) in block.chunks(lanes.len().max(1)).enumerate() {
        let (lanes, largest) = (&mut *lanes, &mut largest);
        F::read(
            values,
            Plane {
                plane,
                scale,
                lanes,
                largest,
            },
        );
    }
    largest >= INFINITY_BITS
}

/// One plane of a block, which it writes.
struct Plane<'a> {
    plane: usize,
    scale: Scale,
    lanes: &'a mut [[u8; 4]],
    /// The bits of the largest magnitude.
    largest: &'a mut i32,
}

impl Reader for Plane<'_> {
    #[inline(always)]
    fn piece(&mut self, at: usize, values: &[f32]) {
        let lanes = &mut self.lanes[at..];
        let largest = if self.plane == 0 {
            write_lowest(values, self.scale, lanes)
        } else {
            let shift = self.scale.width.bits() * self.plane as u32;
            add_above(values, self.scale, shift, lanes)
        };
        *self.largest = largest.max(*self.largest);
    }
}

/// Finds the bits of the largest magnitude that is finite.
struct LargestFinite<'a>(&'a mut i32);

impl Reader for LargestFinite<'_> {
    #[inline(always)]
    fn piece(&mut self, _: usize, values: &[f32]) {
        let mut largest = *self.0;
        for value in values {
            let magnitude = value.to_bits() as i32 & MAGNITUDE_BITS;
            largest = largest.max(if magnitude < INFINITY_BITS { magnitude } else { 0 });
        }
        *self.0 = largest;
    }
}

fn has_nonfinite<F: Float>(block: &[F]) -> bool {
    let mut largest = 0_i32;
    F::read(block, |_, piece: &[f32]| {
        let magnitudes = piece.iter().map(|value| value.to_bits() as i32 & MAGNITUDE_BITS);
        largest = magnitudes.fold(largest, i32::max);
    });
    largest >= INFINITY_BITS
}

/// The lowest plane, or the only one. Returns the bits of the largest magnitude. The scale is a copy: the values written could
/// not be told from the fields of a reference.
#[inline(always)]
fn write_lowest(values: &[f32], scale: Scale, lanes: &mut [[u8; 4]]) -> i32 {
    let mut largest = 0_i32;
    for (lane, value) in lanes.iter_mut().zip(values) {
        largest = largest.max(value.to_bits() as i32 & MAGNITUDE_BITS);
        *lane = scale.quantize_one(*value).to_le_bytes();
    }
    largest
}

/// A plane above: added, so that lanes of several members add up in each of their planes.
#[inline(always)]
fn add_above(values: &[f32], scale: Scale, shift: u32, lanes: &mut [[u8; 4]]) -> i32 {
    let mut largest = 0_i32;
    for (lane, value) in lanes.iter_mut().zip(values) {
        largest = largest.max(value.to_bits() as i32 & MAGNITUDE_BITS);
        let above = scale.quantize_one(*value) << shift;
        *lane = i32::from_le_bytes(*lane).wrapping_add(above).to_le_bytes();
    }
    largest
}

/// What summed integers become.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Meaning {
    /// Sums.
    Sum,
    /// Sums of some as an estimate of the sum of all: times their number over that of those (R-QUORUM-4).
    Estimate(f32),
    /// Averages of so many, at least 1: in `f64`, and rounded to `f32` once (R-NUM-9).
    Average(u32),
}

/// Writes summed integers back as floats; zeros where there is no scale.
#[inline(always)]
pub fn dequantize<F: Float>(sums: &[i32], scale: Option<&Scale>, meaning: Meaning, block: &mut [F]) {
    let Some(scale) = scale.copied() else {
        F::write(block, |_, piece: &mut [f32]| piece.fill(0.0));
        return;
    };
    match meaning {
        Meaning::Sum => {
            let [first, second] = scale.down;
            unpack(sums, scale.width, block, |sum| sum as f32 * first * second);
        }
        Meaning::Estimate(factor) => {
            let [first, second] = scale.down;
            unpack(sums, scale.width, block, |sum| {
                sum as f32 * first * second * factor
            });
        }
        Meaning::Average(of) => {
            let factor = f64::from(scale.down[0]) * f64::from(scale.down[1]) / f64::from(of);
            unpack(sums, scale.width, block, |sum| (f64::from(sum) * factor) as f32);
        }
    }
}

/// A lane is `v0 + v1·2^width + …` with signed values. With half of `2^width` added to each value below one, none of those is
/// negative, and none borrows from it: its bits are what it is.
#[inline(always)]
fn unpack<F: Float>(sums: &[i32], width: Width, block: &mut [F], value_of: impl Fn(i32) -> f32) {
    let (bits, mut halves) = (width.bits(), 0_i32);
    for (plane, values) in block.chunks_mut(sums.len().max(1)).enumerate() {
        let shift = bits * plane as u32;
        F::write(
            values,
            Unpacked {
                sums,
                bits,
                shift,
                halves,
                value_of: &value_of,
            },
        );
        halves = halves.wrapping_add(1_i32.wrapping_shl(bits - 1 + shift));
    }
}

/// One plane of a result, as values.
struct Unpacked<'a, V> {
    sums: &'a [i32],
    bits: u32,
    shift: u32,
    halves: i32,
    value_of: &'a V,
}

impl<V: Fn(i32) -> f32> Writer for Unpacked<'_, V> {
    #[inline(always)]
    fn piece(&mut self, at: usize, values: &mut [f32]) {
        let Self {
            bits, shift, halves, ..
        } = *self;
        let sums = values.iter_mut().zip(&self.sums[at..]);
        if bits == 32 {
            for (value, sum) in sums {
                *value = (self.value_of)(*sum);
            }
        } else {
            for (value, lane) in sums {
                let above = lane.wrapping_add(halves) >> shift;
                *value = (self.value_of)(above << (32 - bits) >> (32 - bits));
            }
        }
    }
}

/// Writes what a contribution of `values` does not hold of each: rounding, clamping, and everything where there is no
/// scale. Zeros where a value of the chunk is not finite: feeding that back would spread it.
pub fn residual(values: &[f32], scale: Option<&Scale>, nonfinite: bool, residual: &mut [f32]) {
    if nonfinite {
        residual.fill(0.0);
        return;
    }
    for (residual, value) in residual.iter_mut().zip(values) {
        let contributed = scale.map_or(0.0, |scale| scale.dequantize_one(scale.quantize_one(*value)));
        *residual = if value.is_finite() {
            value - contributed
        } else {
            0.0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(values: &[f32]) -> [f32; 4] {
        let scale = Scale::new(Exponent::of(values), 1, Width::Bits32);
        let mut lanes = [[0; 4]; 4];
        assert!(!quantize(values, scale.as_ref(), &mut lanes));
        let mut back = [0.0; 4];
        let sums = lanes.map(i32::from_le_bytes);
        dequantize(&sums, scale.as_ref(), Meaning::Sum, &mut back);
        back
    }

    #[test]
    fn exponent_is_the_next_power_of_two() {
        for (value, exponent) in [(1.0, 1), (0.99, 0), (-1.5, 1), (2.0, 2), (f32::MAX, 128)] {
            assert_eq!(Exponent::of(&[0.0, value]), Exponent(exponent), "{value}");
        }
        assert_eq!(Exponent::of(&[f32::from_bits(1)]), Exponent(-148));
        assert_eq!(Exponent::of(&[f32::MIN_POSITIVE]), Exponent(-125));
        assert_eq!(Exponent::of(&[0.0, -0.0]), Exponent::NONE);
        assert_eq!(Exponent::of(&[f32::NAN, f32::INFINITY, 0.25]), Exponent(-1));
    }

    #[test]
    fn powers_of_two_and_denormals_survive_exactly() {
        for values in [
            [1.0, 0.5, -0.25, 0.0],
            [f32::from_bits(1), f32::from_bits(77), 0.0, -f32::MIN_POSITIVE],
        ] {
            assert_eq!(round_trip(&values), values);
        }
        assert_eq!(
            round_trip(&[f32::MAX, f32::MIN, 0.0, 0.0])[..2],
            [f32::MAX, f32::MIN]
        );
    }

    #[test]
    fn num_2_ties_round_to_even() {
        let scale = Scale::with_factors([1.0, 1.0], [1.0, 1.0], 31);
        for (value, rounded) in [
            (0.5, 0),
            (1.5, 2),
            (2.5, 2),
            (-0.5, 0),
            (-1.5, -2),
            (8_388_607.5, 8_388_608),
        ] {
            assert_eq!(scale.quantize_one(value), rounded, "{value}");
        }
    }

    /// The arithmetic of [`Scale::quantize_one`] against the words of the rule, over the bits of all kinds of floats.
    #[test]
    fn num_2_num_6_every_value_is_rounded_and_clamped_as_the_rule_says() {
        for bits in [1, 2, 23, 24, 25, 30, 31] {
            let (scale, limit) = (
                Scale::with_factors([1.0, 1.0], [1.0, 1.0], bits),
                (1_i64 << bits) - 1,
            );
            let strided = (0..=u32::MAX).step_by(7919);
            // Where integers, halves and the limit are: around each power of two.
            let edges = (0..=255_u32).flat_map(|power| (power << 23).saturating_sub(40)..(power << 23) + 40);
            for value in strided
                .chain(edges.clone())
                .chain(edges.map(|edge| edge ^ 1 << 31))
                .map(f32::from_bits)
            {
                // Exact in f64, whose ties are the same; NaN becomes 0.
                let rule = (f64::from(value).round_ties_even() as i64).clamp(-limit, limit);
                assert_eq!(
                    i64::from(scale.quantize_one(value)),
                    rule,
                    "{value} within 2^{bits}"
                );
            }
        }
    }

    #[test]
    fn num_2_a_sum_of_the_largest_values_does_not_overflow() {
        for width in Width::ALL {
            for workers in 1..=width.most_workers().min(4096) {
                let scale = Scale::new(Exponent(0), workers, width).unwrap();
                let largest = i64::from(scale.quantize_one(1.0_f32.next_down()));
                let most = (1_i64 << (width.bits() - 1)) - 1;
                assert!(
                    largest >= 3 && largest * i64::from(workers) <= most,
                    "{workers} workers, {width:?}"
                );
            }
        }
    }

    #[test]
    fn any_number_of_workers_has_a_scale() {
        for (workers, bits) in [(0, 31), (1, 31), (2, 30), (3, 29), (u32::MAX, 1)] {
            assert_eq!(
                Scale::new(Exponent(0), workers, Width::Bits32).unwrap().bits,
                bits,
                "{workers} workers"
            );
        }
    }

    #[test]
    fn num_6_nonfinite_values_are_noticed() {
        for width in Width::ALL {
            let scale = Scale::new(Exponent(1), 2, width);
            let mut lanes = [[0; 4]; 2];
            assert!(quantize(&[1.0, f32::NAN], scale.as_ref(), &mut lanes));
            assert!(quantize(&[f32::NEG_INFINITY], None, &mut lanes));
            assert!(!quantize(&[1.0], scale.as_ref(), &mut lanes));
            assert_eq!(lanes[1], [0; 4], "padding is zero");
        }
    }
}

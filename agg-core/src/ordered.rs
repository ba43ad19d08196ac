//! Floats as integers of the same order, so that an aggregator finds the smallest or largest without knowing floats
//! (R-NUM-8).
//!
//! The bits of a positive float order as it does; those of a negative one the other way round, and are turned. So every
//! float has a place of its own, -0 just below 0. NaN has none: whichever end of the integers wins stands for it.

use crate::kind::ReduceOp;

/// Turns the bits of negative numbers.
const TURN: i32 = i32::MAX;

/// What stands for NaN: it wins, so that one NaN makes the result NaN.
#[inline(always)]
const fn nan(op: ReduceOp) -> i32 {
    match op {
        ReduceOp::Min => i32::MIN,
        _ => i32::MAX,
    }
}

/// A float as an integer, for the smallest or the largest.
#[inline(always)]
pub fn to_ordered(value: f32, op: ReduceOp) -> i32 {
    let bits = value.to_bits() as i32;
    let ordered = bits ^ (bits >> 31 & TURN);
    if value.is_nan() { nan(op) } else { ordered }
}

/// The float of an integer. Integers that no float has become NaN, as those that stand for it.
#[inline(always)]
pub fn from_ordered(ordered: i32) -> f32 {
    let value = f32::from_bits((ordered ^ (ordered >> 31 & TURN)) as u32);
    if value.is_nan() { f32::NAN } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASCENDING: [f32; 11] = [
        f32::NEG_INFINITY,
        f32::MIN,
        -1.5,
        -f32::MIN_POSITIVE,
        -0.0,
        0.0,
        f32::MIN_POSITIVE,
        1.0,
        1.5,
        f32::MAX,
        f32::INFINITY,
    ];

    #[test]
    fn num_8_integers_order_as_floats_do() {
        for op in [ReduceOp::Min, ReduceOp::Max] {
            for pair in ASCENDING.windows(2) {
                assert!(to_ordered(pair[0], op) < to_ordered(pair[1], op), "{pair:?}");
            }
            for value in ASCENDING {
                assert_eq!(from_ordered(to_ordered(value, op)).to_bits(), value.to_bits());
            }
        }
    }

    #[test]
    fn num_8_nan_of_any_sign_and_payload_wins() {
        for bits in [
            0x7fc0_0000,
            0x7f80_0001,
            0xffc0_0000,
            0xff80_0001,
            0x7fff_ffff,
            u32::MAX,
        ] {
            let value = f32::from_bits(bits);
            for other in ASCENDING {
                let smallest = to_ordered(value, ReduceOp::Min).min(to_ordered(other, ReduceOp::Min));
                let largest = to_ordered(value, ReduceOp::Max).max(to_ordered(other, ReduceOp::Max));
                for ordered in [smallest, largest] {
                    assert_eq!(from_ordered(ordered).to_bits(), f32::NAN.to_bits(), "{bits:x}");
                }
            }
        }
    }
}

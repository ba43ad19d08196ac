//! The core's fixed point against the definition, bit for bit, and against R-NUM-2's bound over a float64 sum.

mod common;

use agg_core::fixed_point::{Meaning, Scale, dequantize, quantize};
use agg_core::{Exponent, Width};
use agg_model::ModelSum;
use proptest::collection::vec;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/fixed_point.txt";

/// Floats of all kinds: any bits, denormals, zeros, ties of the rounding, the largest.
fn float() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => any::<u32>().prop_map(f32::from_bits),
        4 => -1.0_f32..1.0,
        2 => (0_u32..0x80_0000, any::<bool>()).prop_map(|(bits, sign)| f32::from_bits(bits | u32::from(sign) << 31)),
        2 => (-1000_i32..1000).prop_map(|halves| halves as f32 / 2.0),
        1 => Just(0.0),
        1 => Just(-0.0),
        1 => prop_oneof![Just(f32::MAX), Just(f32::MIN), Just(f32::MIN_POSITIVE), Just(f32::from_bits(1))],
    ]
}

fn finite() -> impl Strategy<Value = f32> {
    float().prop_map(|x| if x.is_finite() { x } else { 1.0 })
}

/// As the wire has it.
fn wire(exponent: Option<i16>) -> Exponent {
    exponent.map_or(Exponent::NONE, Exponent)
}

fn core_quantize(block: &[f32], exponent: Option<i16>, workers: u32) -> (Vec<i32>, bool) {
    let mut lanes = vec![[0xff; 4]; block.len()];
    let scale = Scale::new(wire(exponent), workers, Width::Bits32);
    let nonfinite = quantize(block, scale.as_ref(), &mut lanes);
    (lanes.into_iter().map(i32::from_le_bytes).collect(), nonfinite)
}

fn core_dequantize(sums: &[i32], exponent: Option<i16>, workers: u32) -> Vec<f32> {
    let mut block = vec![f32::NAN; sums.len()];
    let scale = Scale::new(wire(exponent), workers, Width::Bits32);
    dequantize(sums, scale.as_ref(), Meaning::Sum, &mut block);
    block
}

fn exponent() -> impl Strategy<Value = Option<i16>> {
    prop_oneof![1 => Just(None), 9 => (-149_i16..129).prop_map(Some)]
}

fn workers() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 1_u32..65, 1 => 65_u32..100_000]
}

#[test]
fn num_2_quantize_is_the_definition() {
    let strategy = (vec(float(), 1..40), exponent(), workers());
    common::check(20_000, REGRESSIONS, strategy, |(block, exponent, workers)| {
        let (lanes, nonfinite) = core_quantize(&block, exponent, workers);
        let expected: Vec<_> = block
            .iter()
            .map(|x| ModelSum::quantize(*x, exponent, workers))
            .collect();
        assert_eq!(lanes, expected);
        assert_eq!(nonfinite, block.iter().any(|x| !x.is_finite()));
    });
}

/// With the exponent that the block itself needs, where rounding meets the headroom's edge.
#[test]
fn num_2_quantize_is_the_definition_at_its_own_exponent() {
    common::check(
        20_000,
        REGRESSIONS,
        (vec(float(), 1..8), workers()),
        |(block, workers)| {
            let exponent = ModelSum::exponent(&block);
            let expected: Vec<_> = block
                .iter()
                .map(|x| ModelSum::quantize(*x, exponent, workers))
                .collect();
            assert_eq!(core_quantize(&block, exponent, workers).0, expected);
        },
    );
}

#[test]
fn num_2_dequantize_is_the_definition() {
    let sum = prop_oneof![any::<i32>(), -300_i32..300];
    common::check(
        20_000,
        REGRESSIONS,
        (vec(sum, 1..40), exponent(), workers()),
        |(sums, exponent, workers)| {
            let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let expected = sums
                .iter()
                .map(|sum| ModelSum::dequantize(*sum, exponent, workers))
                .collect();
            assert_eq!(bits(core_dequantize(&sums, exponent, workers)), bits(expected));
        },
    );
}

#[test]
fn num_3_the_exponent_is_the_least_that_covers_the_block() {
    common::check(20_000, REGRESSIONS, vec(float(), 0..40), |block| {
        assert_eq!(Exponent::of(&block), wire(ModelSum::exponent(&block)));
    });
}

/// Sums of n workers that share an exponent: never an overflow, and within the bound of the exact sum. A sum above
/// what f32 has is infinite, as it is in f32 itself.
fn check_bound(inputs: &[Vec<f32>]) {
    let (workers, elements) = (inputs.len() as u32, inputs[0].len());
    let exponent = inputs.iter().filter_map(|block| ModelSum::exponent(block)).max();
    let mut totals = vec![0_i64; elements];
    for block in inputs {
        for (total, lane) in totals.iter_mut().zip(core_quantize(block, exponent, workers).0) {
            *total += i64::from(lane);
        }
    }
    let sums: Vec<_> = totals
        .iter()
        .map(|total| i32::try_from(*total).expect("a sum of n fits"))
        .collect();
    for (at, result) in core_dequantize(&sums, exponent, workers).into_iter().enumerate() {
        let exact: f64 = inputs.iter().map(|block| f64::from(block[at])).sum();
        let bound = ModelSum::bound(exponent, workers, exact);
        if result.is_finite() {
            let error = (f64::from(result) - exact).abs();
            assert!(
                error <= bound,
                "{result:e} for {exact:e}: error {error:e}, bound {bound:e}"
            );
        } else {
            assert!(
                exact.abs() + bound > f64::from(f32::MAX),
                "{result} for {exact:e}"
            );
        }
    }
}

#[test]
fn num_2_any_magnitudes_keep_the_bound() {
    let inputs = (1_usize..65, 1_usize..6).prop_flat_map(|(n, elements)| vec(vec(finite(), elements), n));
    common::check(8_000, REGRESSIONS, inputs, |inputs| check_bound(&inputs));
}

/// Magnitudes close to each other, where neither the exponent nor one large value hides the rounding of the others.
#[test]
fn num_2_like_magnitudes_keep_the_bound() {
    let inputs = (1_usize..65, 1_usize..6, -149_i32..126).prop_flat_map(|(n, elements, power)| {
        let scale = 2_f64.powi(power);
        let near = (-4.0_f64..4.0).prop_map(move |x| (x * scale) as f32);
        vec(vec(prop_oneof![8 => near, 1 => Just(0.0)], elements), n)
    });
    common::check(8_000, REGRESSIONS, inputs, |inputs| check_bound(&inputs));
}

/// The largest values there are, of every number of workers: clamped to the headroom's edge, not over it.
#[test]
fn num_2_the_largest_values_keep_the_bound() {
    for n in 1..=64 {
        for power in [-149, -126, -100, -1, 0, 1, 100, 127] {
            let edge = ((2.0 - 2_f64.powi(-23)) * 2_f64.powi(power)) as f32;
            check_bound(&vec![vec![edge, -edge, edge.next_down()]; n]);
        }
    }
}

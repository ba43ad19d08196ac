//! The core's fixed point against the definition, bit for bit, and against R-NUM-2's bound over a float64 sum.

mod common;

use agg_core::fixed_point::{Meaning, Scale, dequantize, quantize};
use agg_core::ordered::{from_ordered, to_ordered};
use agg_core::{Exponent, ReduceOp, Width};
use agg_model::kind::{ElementKind, Op};
use agg_model::{ModelKind, ModelScale, ModelSum};
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

/// The core's form of a scale.
fn core(scale: ModelScale) -> Option<Scale> {
    let width = Width::from_bits(scale.bits).expect("a width");
    Scale::new(wire(scale.exponent), scale.workers, width)
}

fn core_quantize(block: &[f32], scale: ModelScale, lanes: usize) -> (Vec<i32>, bool) {
    let mut wire = vec![[0xff; 4]; lanes];
    let nonfinite = quantize(block, core(scale).as_ref(), &mut wire);
    (wire.into_iter().map(i32::from_le_bytes).collect(), nonfinite)
}

fn core_dequantize(lanes: &[i32], scale: ModelScale, meaning: Meaning, elements: usize) -> Vec<f32> {
    let mut block = vec![f32::NAN; elements];
    dequantize(lanes, core(scale).as_ref(), meaning, &mut block);
    block
}

/// Any scale, of no more workers than the width has room for.
fn scale() -> impl Strategy<Value = ModelScale> {
    let width = prop_oneof![
        2 => (Just(32_u32), workers()),
        1 => (Just(16_u32), workers().prop_map(|n| n.min(8192))),
        1 => (Just(8_u32), workers().prop_map(|n| n.min(32))),
    ];
    (exponent(), width).prop_map(|(exponent, (bits, workers))| ModelScale {
        exponent,
        workers,
        bits,
    })
}

/// Lanes enough for so many elements, and for some more.
fn lanes_for(elements: usize, bits: u32, more: usize) -> usize {
    (elements * bits as usize).div_ceil(32) + more
}

fn exponent() -> impl Strategy<Value = Option<i16>> {
    prop_oneof![1 => Just(None), 9 => (-149_i16..129).prop_map(Some)]
}

fn workers() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 1_u32..65, 1 => 65_u32..100_000]
}

fn check_quantize(block: &[f32], scale: ModelScale, more: usize) {
    let lanes = lanes_for(block.len(), scale.bits, more);
    let (packed, nonfinite) = core_quantize(block, scale, lanes);
    let numbers: Vec<_> = block.iter().map(|x| scale.quantize(*x)).collect();
    assert_eq!(packed, ModelSum::pack(&numbers, lanes, scale.bits));
    assert_eq!(nonfinite, block.iter().any(|x| !x.is_finite()));
}

#[test]
fn num_2_num_7_quantize_is_the_definition() {
    let strategy = (vec(float(), 1..40), scale(), 0_usize..3);
    common::check(20_000, REGRESSIONS, strategy, |(block, scale, more)| {
        check_quantize(&block, scale, more);
    });
}

/// With the exponent that the block itself needs, where rounding meets the headroom's edge.
#[test]
fn num_2_num_7_quantize_is_the_definition_at_its_own_exponent() {
    common::check(
        20_000,
        REGRESSIONS,
        (vec(float(), 1..8), scale()),
        |(block, scale)| {
            let exponent = ModelSum::exponent(&block);
            check_quantize(&block, ModelScale { exponent, ..scale }, 0);
        },
    );
}

#[test]
fn num_2_num_7_num_9_dequantize_is_the_definition() {
    let lane = prop_oneof![any::<i32>(), -300_i32..300];
    let strategy = (vec(lane, 1..40), scale(), 1_u32..65, 0_usize..4);
    common::check(20_000, REGRESSIONS, strategy, |(lanes, scale, of, fewer)| {
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let numbers = ModelSum::unpack(&lanes, scale.bits);
        let elements = numbers.len().saturating_sub(fewer);
        let numbers = || numbers[..elements].iter();
        let expected = numbers().map(|number| scale.dequantize(*number)).collect();
        let got = core_dequantize(&lanes, scale, Meaning::Sum, elements);
        assert_eq!(bits(got), bits(expected));
        let expected = numbers().map(|number| scale.average(*number, of)).collect();
        let got = core_dequantize(&lanes, scale, Meaning::Average(of), elements);
        assert_eq!(bits(got), bits(expected));
    });
}

#[test]
fn num_8_the_order_of_floats_is_the_definition() {
    let ops = [(ReduceOp::Min, Op::Min), (ReduceOp::Max, Op::Max)];
    common::check(
        20_000,
        REGRESSIONS,
        (any::<u32>(), any::<i32>()),
        |(bits, number)| {
            for (core, model) in ops {
                let kind = ModelKind::Reduce {
                    op: model,
                    element: ElementKind::F32,
                    bits: 32,
                };
                let none = ModelScale {
                    exponent: None,
                    workers: 1,
                    bits: 32,
                };
                let x = f32::from_bits(bits);
                assert_eq!(to_ordered(x, core), ModelSum::number(kind, x, none), "{bits:x}");
                let back = ModelSum::result(kind, number, none, 1);
                assert_eq!(from_ordered(number).to_bits(), back.to_bits(), "{number:x}");
            }
        },
    );
}

#[test]
fn num_3_the_exponent_is_the_least_that_covers_the_block() {
    common::check(20_000, REGRESSIONS, vec(float(), 0..40), |block| {
        assert_eq!(Exponent::of(&block), wire(ModelSum::exponent(&block)));
    });
}

/// Sums of n workers that share an exponent, in every width: never an overflow, and within the bound of the exact sum; and so
/// their averages. A sum above what f32 has is infinite, as it is in f32 itself.
fn check_bound(inputs: &[Vec<f32>]) {
    let (workers, elements) = (inputs.len() as u32, inputs[0].len());
    for bits in [32, 16, 8] {
        let scale = ModelScale {
            exponent: inputs.iter().filter_map(|block| ModelSum::exponent(block)).max(),
            workers,
            bits,
        };
        if bits == 8 && workers > 32 {
            continue;
        }
        let count = lanes_for(elements, bits, 0);
        let mut lanes = vec![0_i32; count];
        for block in inputs {
            for (lane, value) in lanes.iter_mut().zip(core_quantize(block, scale, count).0) {
                *lane = lane.wrapping_add(value);
            }
        }
        let sums = core_dequantize(&lanes, scale, Meaning::Sum, elements);
        let averages = core_dequantize(&lanes, scale, Meaning::Average(workers), elements);
        for (at, (sum, average)) in sums.into_iter().zip(averages).enumerate() {
            let exact: f64 = inputs.iter().map(|block| f64::from(block[at])).sum();
            check_result(sum, exact, scale.bound(exact));
            let exact = exact / f64::from(workers);
            check_result(average, exact, scale.bound_of_average(exact));
        }
    }
}

fn check_result(result: f32, exact: f64, bound: f64) {
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

#[test]
fn num_2_num_7_num_9_any_magnitudes_keep_the_bound() {
    let inputs = (1_usize..65, 1_usize..6).prop_flat_map(|(n, elements)| vec(vec(finite(), elements), n));
    common::check(8_000, REGRESSIONS, inputs, |inputs| check_bound(&inputs));
}

/// Magnitudes close to each other, where neither the exponent nor one large value hides the rounding of the others.
#[test]
fn num_2_num_7_num_9_like_magnitudes_keep_the_bound() {
    let inputs = (1_usize..65, 1_usize..6, -149_i32..126).prop_flat_map(|(n, elements, power)| {
        let scale = 2_f64.powi(power);
        let near = (-4.0_f64..4.0).prop_map(move |x| (x * scale) as f32);
        vec(vec(prop_oneof![8 => near, 1 => Just(0.0)], elements), n)
    });
    common::check(8_000, REGRESSIONS, inputs, |inputs| check_bound(&inputs));
}

/// The largest values there are, of every number of workers: clamped to the headroom's edge, not over it.
#[test]
fn num_2_num_7_num_9_the_largest_values_keep_the_bound() {
    for n in 1..=64 {
        for power in [-149, -126, -100, -1, 0, 1, 100, 127] {
            let edge = ((2.0 - 2_f64.powi(-23)) * 2_f64.powi(power)) as f32;
            check_bound(&vec![vec![edge, -edge, edge.next_down()]; n]);
        }
    }
}

//! How exact a sum of f32 is: block fixed point against f32 arithmetic in the order of a ring, both against f64.
//!
//! `cargo run --release -p agg-model --example accuracy` prints the table of docs/verification.md. Errors are in units of
//! the block's largest magnitude: what a gradient's step can notice.

use agg_core::fixed_point::{Meaning, Scale, dequantize, quantize};
use agg_core::{Exponent, Width};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const LANES: usize = 352;
const BLOCKS: usize = 200;

/// How the values of a block are distributed.
#[derive(Clone, Copy)]
enum Kind {
    /// Evenly between −1 and 1.
    Even,
    /// Magnitudes from 2^−30 to 1, evenly in the exponent.
    Mixed,
    /// Denormal numbers.
    Denormal,
}

fn value(random: &mut ChaCha8Rng, kind: Kind) -> f32 {
    let unit = f64::from(random.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0;
    match kind {
        Kind::Even => unit as f32,
        Kind::Mixed => (unit * 2_f64.powi(-((random.next_u32() % 31) as i32))) as f32,
        Kind::Denormal => (unit * 2_f64.powi(-127)) as f32,
    }
}

/// The largest and the mean error of one way of summing.
#[derive(Default)]
struct Errors {
    largest: f64,
    smallest: Option<f64>,
    total: f64,
    count: f64,
}

impl Errors {
    fn add(&mut self, error: f64) {
        self.largest = self.largest.max(error);
        self.smallest = Some(self.smallest.map_or(error, |smallest| smallest.min(error)));
        self.total += error;
        self.count += 1.0;
    }
}

fn main() {
    println!(
        "| values | members | fixed point: least | mean | largest | f32 in a ring: least | mean | largest |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    for (name, kind) in [
        ("even", Kind::Even),
        ("mixed", Kind::Mixed),
        ("denormal", Kind::Denormal),
    ] {
        for members in [1, 2, 4, 8, 64] {
            let (mut fixed, mut ring) = (Errors::default(), Errors::default());
            let mut random = ChaCha8Rng::seed_from_u64(members as u64);
            for block in 0..BLOCKS {
                measure(&mut random, kind, members, block, &mut fixed, &mut ring);
            }
            let show = |errors: &Errors| {
                let mean = errors.total / errors.count;
                format!(
                    "{:.1e} | {:.1e} | {:.1e}",
                    errors.smallest.unwrap_or(0.0),
                    mean,
                    errors.largest
                )
            };
            println!("| {name} | {members} | {} | {} |", show(&fixed), show(&ring));
        }
    }
}

fn measure(
    random: &mut ChaCha8Rng,
    kind: Kind,
    members: usize,
    block: usize,
    fixed: &mut Errors,
    ring: &mut Errors,
) {
    let inputs: Vec<Vec<f32>> = (0..members)
        .map(|_| (0..LANES).map(|_| value(random, kind)).collect())
        .collect();
    let largest = inputs
        .iter()
        .flatten()
        .fold(0_f32, |largest, value| largest.max(value.abs()));
    let exponent = inputs
        .iter()
        .map(|input| Exponent::of(input))
        .max()
        .unwrap_or(Exponent::NONE);
    let scale = Scale::new(exponent, members as u32, Width::Bits32);
    let mut sums = vec![0_i32; LANES];
    for input in &inputs {
        let mut lanes = vec![[0; 4]; LANES];
        quantize(input, scale.as_ref(), &mut lanes);
        for (sum, lane) in sums.iter_mut().zip(lanes) {
            *sum = sum.wrapping_add(i32::from_le_bytes(lane));
        }
    }
    let mut ours = vec![0.0; LANES];
    dequantize(&sums, scale.as_ref(), Meaning::Sum, &mut ours);
    for lane in 0..LANES {
        let exact: f64 = inputs.iter().map(|input| f64::from(input[lane])).sum();
        // A ring reduces each part of the tensor in the order of the ranks, beginning with another one for each part.
        let around = (0..members).map(|step| inputs[(block + step) % members][lane]);
        let in_ring = around.reduce(|sum, value| sum + value).unwrap_or(0.0);
        fixed.add((f64::from(ours[lane]) - exact).abs() / f64::from(largest));
        ring.add((f64::from(in_ring) - exact).abs() / f64::from(largest));
    }
}

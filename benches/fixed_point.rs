//! Floats to integers and back, against a copy of the same bytes; and the search for a block's exponent.

use std::hint::black_box;

use agg_core::fixed_point::{Meaning, Scale, dequantize, quantize};
use agg_core::{Exponent, Width};
use benches::cpu_time::{self, CpuTime};
use benches::isa::{Isa, Work};
use benches::place::Place;
use criterion::{Criterion, criterion_group, criterion_main};

/// A tensor and the wire values of all its blocks, each of `N` lanes.
struct Buffers<const N: usize> {
    floats: Vec<[f32; N]>,
    wire: Vec<[i32; N]>,
    scale: Scale,
}

impl<const N: usize> Buffers<N> {
    fn new(place: Place) -> Self {
        let chunks = place.chunks(4 * N);
        let block: [f32; N] = std::array::from_fn(|lane| (lane as f32 - 100.0) / 77.0);
        let scale = Scale::new(Exponent::of(&block), 8, Width::Bits32).expect("not all zeros");
        Self {
            floats: vec![block; chunks],
            wire: vec![[0; N]; chunks],
            scale,
        }
    }
}

struct Quantize<'b, const N: usize>(&'b mut Buffers<N>);

impl<const N: usize> Work for Quantize<'_, N> {
    #[inline(always)]
    fn work(&mut self) {
        for (floats, wire) in self.0.floats.iter().zip(&mut self.0.wire) {
            let wire: &mut [[u8; 4]] = bytemuck::cast_slice_mut(black_box(wire));
            black_box(quantize(black_box(floats), Some(black_box(&self.0.scale)), wire));
        }
    }
}

struct Dequantize<'b, const N: usize>(&'b mut Buffers<N>);

impl<const N: usize> Work for Dequantize<'_, N> {
    #[inline(always)]
    fn work(&mut self) {
        for (floats, wire) in self.0.floats.iter_mut().zip(&self.0.wire) {
            dequantize(
                black_box(wire),
                Some(black_box(&self.0.scale)),
                Meaning::Sum,
                black_box(floats),
            );
        }
    }
}

/// A copy of the floats to the wire and back, in one pass each.
struct ThereAndBack<'b, const N: usize>(&'b mut Buffers<N>);

impl<const N: usize> Work for ThereAndBack<'_, N> {
    #[inline(always)]
    fn work(&mut self) {
        Copy(self.0).work();
        for (floats, wire) in self.0.floats.iter_mut().zip(&self.0.wire) {
            let bytes: &mut [i32] = bytemuck::cast_slice_mut(black_box(floats));
            bytes.copy_from_slice(black_box(wire));
        }
    }
}

struct Copy<'b, const N: usize>(&'b mut Buffers<N>);

impl<const N: usize> Work for Copy<'_, N> {
    #[inline(always)]
    fn work(&mut self) {
        for (floats, wire) in self.0.floats.iter().zip(&mut self.0.wire) {
            let bytes: &mut [f32] = bytemuck::cast_slice_mut(black_box(wire));
            bytes.copy_from_slice(black_box(floats));
        }
    }
}

/// As the workers do it: quantise, and later dequantise, in one pass each.
struct Both<'b, const N: usize>(&'b mut Buffers<N>);

impl<const N: usize> Work for Both<'_, N> {
    #[inline(always)]
    fn work(&mut self) {
        Quantize(self.0).work();
        Dequantize(self.0).work();
    }
}

struct Search<'b, const N: usize>(&'b mut Buffers<N>);

impl<const N: usize> Work for Search<'_, N> {
    #[inline(always)]
    fn work(&mut self) {
        for floats in &self.0.floats {
            black_box(Exponent::of(black_box(floats)));
        }
    }
}

fn lanes<const N: usize>(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("fixed_point");
    for place in Place::ALL {
        let mut buffers = Buffers::<N>::new(place);
        group.throughput(cpu_time::packets(buffers.floats.len()));
        for isa in Isa::available() {
            group.bench_function(format!("{place}/{N}/{isa}/quantize"), |bencher| {
                bencher.iter(|| isa.run(&mut Quantize(&mut buffers)));
            });
            group.bench_function(format!("{place}/{N}/{isa}/dequantize"), |bencher| {
                bencher.iter(|| isa.run(&mut Dequantize(&mut buffers)));
            });
            group.bench_function(format!("{place}/{N}/{isa}/both"), |bencher| {
                bencher.iter(|| isa.run(&mut Both(&mut buffers)));
            });
            group.bench_function(format!("{place}/{N}/{isa}/exponent"), |bencher| {
                bencher.iter(|| isa.run(&mut Search(&mut buffers)));
            });
        }
        // One for all: the C library's copy chooses its instruction set itself.
        group.bench_function(format!("{place}/{N}/copy"), |bencher| {
            bencher.iter(|| Isa::Baseline.run(&mut Copy(&mut buffers)));
        });
        group.bench_function(format!("{place}/{N}/there_and_back"), |bencher| {
            bencher.iter(|| Isa::Baseline.run(&mut ThereAndBack(&mut buffers)));
        });
    }
}

fn all(criterion: &mut Criterion<CpuTime>) {
    lanes::<352>(criterion);
    lanes::<2048>(criterion);
}

criterion_group!(name = benches; config = benches::criterion(); targets = all);
criterion_main!(benches);

//! Floats of several sizes. The arithmetic is that of `f32`, which holds all of them; values pass through it in pieces.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::ElementType;

/// Elements of a piece: what is widened at a time stays in the fastest cache.
const PIECE: usize = 256;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}

    /// Takes pieces of values, each with the index of its first value. A closure does. What is to be compiled for the
    /// instruction set of its caller is a type of its own: a closure cannot be told to be inlined, and where it is not, it is
    /// compiled for the oldest processor that there is.
    pub trait Reader {
        fn piece(&mut self, at: usize, values: &[f32]);
    }

    impl<F: FnMut(usize, &[f32])> Reader for F {
        #[inline(always)]
        fn piece(&mut self, at: usize, values: &[f32]) {
            self(at, values);
        }
    }

    /// Writes pieces of values, as a whole: see [`Reader`].
    pub trait Writer {
        fn piece(&mut self, at: usize, values: &mut [f32]);
    }

    impl<F: FnMut(usize, &mut [f32])> Writer for F {
        #[inline(always)]
        fn piece(&mut self, at: usize, values: &mut [f32]) {
            self(at, values);
        }
    }
}

pub(crate) use sealed::{Reader, Writer};

/// `f32`, or a float that it holds exactly.
pub trait Float: sealed::Sealed + Copy {
    /// What it is on the wire.
    const TYPE: ElementType;

    /// Hands out values as `f32`, piece after piece, each with the index of its first value.
    fn read(values: &[Self], reader: impl sealed::Reader);

    /// Takes values as `f32`, piece after piece, and rounds each to the nearest. A piece must be written as a whole.
    fn write(values: &mut [Self], writer: impl sealed::Writer);
}

impl Float for f32 {
    const TYPE: ElementType = ElementType::F32;

    #[inline(always)]
    fn read(values: &[Self], mut reader: impl sealed::Reader) {
        reader.piece(0, values);
    }

    #[inline(always)]
    fn write(values: &mut [Self], mut writer: impl sealed::Writer) {
        writer.piece(0, values);
    }
}

macro_rules! through_f32 {
    ($type:ty, $element:expr) => {
        impl Float for $type {
            const TYPE: ElementType = $element;

            #[inline(always)]
            fn read(values: &[Self], mut reader: impl sealed::Reader) {
                let mut wide = [0.0; PIECE];
                for (index, values) in values.chunks(PIECE).enumerate() {
                    let wide = &mut wide[..values.len()];
                    values.convert_to_f32_slice(wide);
                    reader.piece(index * PIECE, wide);
                }
            }

            #[inline(always)]
            fn write(values: &mut [Self], mut writer: impl sealed::Writer) {
                let mut wide = [0.0; PIECE];
                for (index, values) in values.chunks_mut(PIECE).enumerate() {
                    let wide = &mut wide[..values.len()];
                    writer.piece(index * PIECE, wide);
                    values.convert_from_f32_slice(wide);
                }
            }
        }
    };
}

through_f32!(f16, ElementType::F16);
through_f32!(bf16, ElementType::Bf16);

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn doubled<F: Float>(values: &mut [F]) {
        let mut wide = Vec::new();
        F::read(values, |at, piece: &[f32]| {
            assert_eq!(at, wide.len());
            wide.extend_from_slice(piece);
        });
        F::write(values, |at, piece: &mut [f32]| {
            for (value, wide) in piece.iter_mut().zip(&wide[at..]) {
                *value = wide * 2.0;
            }
        });
    }

    #[test]
    fn all_pieces_of_every_type_come_back() {
        for len in [0, 1, 255, 256, 257, 1000] {
            let values = || (0..len).map(|index| index as f32 / 4.0 - 31.0);
            let twice: Vec<_> = values().map(|value| value * 2.0).collect();
            let mut full: Vec<_> = values().collect();
            doubled(&mut full);
            assert_eq!(full, twice);
            let mut half: Vec<_> = values().map(f16::from_f32).collect();
            doubled(&mut half);
            assert!(
                half.iter()
                    .zip(&twice)
                    .all(|(half, twice)| half.to_f32() == *twice)
            );
            let mut brain: Vec<_> = values().map(bf16::from_f32).collect();
            let rounded: Vec<_> = brain.iter().map(|value| value.to_f32() * 2.0).collect();
            doubled(&mut brain);
            assert!(
                brain
                    .iter()
                    .zip(&rounded)
                    .all(|(brain, twice)| brain.to_f32() == *twice)
            );
        }
    }
}

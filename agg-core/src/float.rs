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
}

/// `f32`, or a float that it holds exactly.
pub trait Float: sealed::Sealed + Copy {
    /// What it is on the wire.
    const TYPE: ElementType;

    /// Hands out values as `f32`, piece after piece, each with the index of its first value.
    fn read(values: &[Self], piece: impl FnMut(usize, &[f32]));

    /// Takes values as `f32`, piece after piece, and rounds each to the nearest. A piece must be written as a whole.
    fn write(values: &mut [Self], piece: impl FnMut(usize, &mut [f32]));
}

impl Float for f32 {
    const TYPE: ElementType = ElementType::F32;

    #[inline(always)]
    fn read(values: &[Self], mut piece: impl FnMut(usize, &[f32])) {
        piece(0, values);
    }

    #[inline(always)]
    fn write(values: &mut [Self], mut piece: impl FnMut(usize, &mut [f32])) {
        piece(0, values);
    }
}

macro_rules! through_f32 {
    ($type:ty, $element:expr) => {
        impl Float for $type {
            const TYPE: ElementType = $element;

            #[inline(always)]
            fn read(values: &[Self], mut piece: impl FnMut(usize, &[f32])) {
                let mut wide = [0.0; PIECE];
                for (index, values) in values.chunks(PIECE).enumerate() {
                    let wide = &mut wide[..values.len()];
                    values.convert_to_f32_slice(wide);
                    piece(index * PIECE, wide);
                }
            }

            #[inline(always)]
            fn write(values: &mut [Self], mut piece: impl FnMut(usize, &mut [f32])) {
                let mut wide = [0.0; PIECE];
                for (index, values) in values.chunks_mut(PIECE).enumerate() {
                    let wide = &mut wide[..values.len()];
                    piece(index * PIECE, wide);
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
        F::read(values, |at, piece| {
            assert_eq!(at, wide.len());
            wide.extend_from_slice(piece);
        });
        F::write(values, |at, piece| {
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

//! What can be reduced.

use agg_core::{ElementType, Tensor};
use fixed::FixedI32;
use fixed::types::extra::{LeEqU32, Unsigned};
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl<F> Sealed for fixed::FixedI32<F> {}
}

/// A type whose slices can be reduced: `i32` (wrapping sums), `f32` (block fixed point, the same bits on every rank),
/// `f16` and `bf16` of the `half` crate (as `f32`, rounded to the type at the end), and the 32-bit signed types of the `fixed` crate (exact sums of their bits, and the order of those for min and max).
pub trait Element: sealed::Sealed + bytemuck::Pod + Send {
    /// What they are to the other ranks.
    const TYPE: ElementType;

    /// A slice of them as the core takes it.
    fn tensor(values: &mut [Self]) -> Tensor<'_>;
}

impl Element for i32 {
    const TYPE: ElementType = ElementType::I32;

    fn tensor(values: &mut [Self]) -> Tensor<'_> {
        Tensor::I32(values)
    }
}

impl Element for f32 {
    const TYPE: ElementType = ElementType::F32;

    fn tensor(values: &mut [Self]) -> Tensor<'_> {
        Tensor::F32(values)
    }
}

impl Element for f16 {
    const TYPE: ElementType = ElementType::F16;

    fn tensor(values: &mut [Self]) -> Tensor<'_> {
        Tensor::F16(values)
    }
}

impl Element for bf16 {
    const TYPE: ElementType = ElementType::Bf16;

    fn tensor(values: &mut [Self]) -> Tensor<'_> {
        Tensor::Bf16(values)
    }
}

impl<F: Unsigned + LeEqU32 + Send + 'static> Element for FixedI32<F> {
    const TYPE: ElementType = ElementType::I32;

    fn tensor(values: &mut [Self]) -> Tensor<'_> {
        Tensor::fixed(values)
    }
}

/// Memory that can be handed to a background operation and comes back with the result: a `Vec`, a boxed slice, or a
/// type of the caller's that owns a slice.
pub trait Buffer: Send + 'static {
    /// What it holds.
    type Element: Element;

    /// The elements.
    fn elements(&mut self) -> &mut [Self::Element];
}

impl<E: Element> Buffer for Vec<E> {
    type Element = E;

    fn elements(&mut self) -> &mut [E] {
        self
    }
}

impl<E: Element> Buffer for Box<[E]> {
    type Element = E;

    fn elements(&mut self) -> &mut [E] {
        self
    }
}

//! Kinds of operations: what is done with the elements, of which type they are, and how narrow they travel (R-OP-6).

use core::fmt;

/// What becomes of the elements of all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum ReduceOp {
    /// Their sum.
    #[default]
    Sum,
    /// Their sum divided by the number of ranks.
    Avg,
    /// The smallest; NaN if there is one.
    Min,
    /// The largest; NaN if there is one.
    Max,
}

impl ReduceOp {
    /// Every operation.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Avg, Self::Min, Self::Max];

    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Sum,
            1 => Self::Avg,
            2 => Self::Min,
            _ => Self::Max,
        }
    }

    /// The operation's name: `sum`, `avg`, `min`, `max`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The type of the elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ElementType {
    /// 32-bit integers.
    I32,
    /// 32-bit floats of IEEE 754.
    F32,
    /// 16-bit floats of IEEE 754: 11 significant bits.
    F16,
    /// The upper half of an `f32`: 8 significant bits.
    Bf16,
}

impl ElementType {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::I32, Self::F32, Self::F16, Self::Bf16];

    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::I32,
            1 => Self::F32,
            2 => Self::F16,
            _ => Self::Bf16,
        }
    }

    /// The type's name: `i32`, `f32`, `f16`, `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Bytes of an element in memory.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::I32 | Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Bits of an element on the wire. Narrow elements lie side by side in a lane of 32 bits, with room for their sum, so that
/// adding lanes adds them all: an aggregator does not know how narrow they are (R-NUM-7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Width {
    /// One element a lane.
    #[default]
    Bits32,
    /// Two elements a lane: half the bytes.
    Bits16,
    /// Four elements a lane: a quarter of the bytes.
    Bits8,
}

impl Width {
    /// Every width.
    pub const ALL: [Self; 3] = [Self::Bits32, Self::Bits16, Self::Bits8];

    /// Bits of an element.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bits32 => 32,
            Self::Bits16 => 16,
            Self::Bits8 => 8,
        }
    }

    /// The width of so many bits, if there is one.
    pub fn from_bits(bits: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.bits() == bits)
    }

    /// Elements of a lane.
    #[inline(always)]
    pub const fn per_lane(self) -> usize {
        32 / self.bits() as usize
    }

    /// The most workers whose values keep at least two bits of magnitude beside the room for their sum: -3 to 3 (R-NUM-7).
    pub const fn most_workers(self) -> u32 {
        1 << (self.bits() - 3)
    }
}

/// A reduction that exists.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reduction {
    op: ReduceOp,
    element: ElementType,
    width: Width,
}

impl Reduction {
    /// The reduction of these elements. `None` where there is none: averages of integers, and narrow elements where nothing
    /// is scaled: integers, smallest, largest.
    pub const fn new(op: ReduceOp, element: ElementType, width: Width) -> Option<Self> {
        let integers = matches!(element, ElementType::I32);
        let possible = match (op, width) {
            (ReduceOp::Sum | ReduceOp::Min | ReduceOp::Max, Width::Bits32) => true,
            (ReduceOp::Sum | ReduceOp::Avg, _) => !integers,
            (ReduceOp::Min | ReduceOp::Max, _) => false,
        };
        if possible {
            Some(Self { op, element, width })
        } else {
            None
        }
    }

    /// What is done.
    #[inline(always)]
    pub const fn op(self) -> ReduceOp {
        self.op
    }

    /// With elements of this type.
    #[inline(always)]
    pub const fn element(self) -> ElementType {
        self.element
    }

    /// Which are so narrow on the wire.
    #[inline(always)]
    pub const fn width(self) -> Width {
        self.width
    }

    /// Whether elements are scaled by an exponent that the ranks agree on: sums and averages of floats.
    #[inline(always)]
    pub const fn is_scaled(self) -> bool {
        matches!(self.op, ReduceOp::Sum | ReduceOp::Avg) && !matches!(self.element, ElementType::I32)
    }
}

/// As a user would say it: `all_reduce (max) of f32`; sums in 32 bits are not remarked on.
impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.width {
            Width::Bits32 => self.element.fmt(f),
            narrow => write!(f, "{} in {} bits", self.element, narrow.bits()),
        }
    }
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpKind {
    /// No values: every rank waits for every other.
    Barrier,
    /// Elements of all ranks become one.
    Reduce(Reduction),
}

/// Kinds that have a number of their own on the wire.
const SUM_I32: u8 = 1;
const SUM_F32: u8 = 2;
const BARRIER: u8 = 3;

/// Set in the number of every other kind. Below it: two bits each for operation, element and width.
const COMPOSED: u8 = 0x80;

impl OpKind {
    /// The sum of `i32`, wrapping. Exact.
    pub const SUM_I32: Self = Self::Reduce(Reduction {
        op: ReduceOp::Sum,
        element: ElementType::I32,
        width: Width::Bits32,
    });

    /// The sum of `f32` in block fixed point.
    pub const SUM_F32: Self = Self::Reduce(Reduction {
        op: ReduceOp::Sum,
        element: ElementType::F32,
        width: Width::Bits32,
    });

    /// The kind that reduces such elements, if there is one.
    pub const fn reduce(op: ReduceOp, element: ElementType, width: Width) -> Option<Self> {
        match Reduction::new(op, element, width) {
            Some(reduction) => Some(Self::Reduce(reduction)),
            None => None,
        }
    }

    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).filter_map(Self::from_wire)
    }

    /// The number on the wire.
    pub const fn to_wire(self) -> u8 {
        let reduction = match self {
            Self::Barrier => return BARRIER,
            Self::Reduce(reduction) => reduction,
        };
        match (reduction.op, reduction.element, reduction.width) {
            (ReduceOp::Sum, ElementType::I32, Width::Bits32) => SUM_I32,
            (ReduceOp::Sum, ElementType::F32, Width::Bits32) => SUM_F32,
            (op, element, width) => COMPOSED | (op as u8) << 4 | (element as u8) << 2 | width as u8,
        }
    }

    /// The kind with this number on the wire; `None` for one that this version does not know.
    #[inline(always)]
    pub const fn from_wire(number: u8) -> Option<Self> {
        match number {
            BARRIER => return Some(Self::Barrier),
            SUM_I32 => return Some(Self::SUM_I32),
            SUM_F32 => return Some(Self::SUM_F32),
            _ => {}
        }
        let width = match number & 3 {
            0 => Width::Bits32,
            1 => Width::Bits16,
            2 => Width::Bits8,
            _ => return None,
        };
        let (op, element) = (
            ReduceOp::from_bits(number >> 4),
            ElementType::from_bits(number >> 2),
        );
        match Self::reduce(op, element, width) {
            // Not so the numbers that are other kinds' second ones.
            Some(kind) if kind.to_wire() == number => Some(kind),
            _ => None,
        }
    }

    /// Whether elements are scaled by an exponent that the ranks agree on (R-NUM-2).
    #[inline(always)]
    pub const fn is_scaled(self) -> bool {
        matches!(self, Self::Reduce(reduction) if reduction.is_scaled())
    }

    /// How narrow its elements are on the wire.
    #[inline(always)]
    pub const fn width(self) -> Width {
        match self {
            Self::Barrier => Width::Bits32,
            Self::Reduce(reduction) => reduction.width,
        }
    }

    /// Elements that a chunk of so many lanes holds.
    #[inline(always)]
    pub const fn elements_of(self, lanes: usize) -> usize {
        lanes * self.width().per_lane()
    }
}

/// Whether elements of the kind with this number are scaled: [`OpKind::is_scaled`] for who has the number only.
#[inline(always)]
pub(crate) const fn is_scaled(number: u8) -> bool {
    let sums = number & 0b1110_0000 == COMPOSED;
    let floats = number & 0b0000_1100 != 0;
    number == SUM_F32 || sums && floats
}

/// What an aggregator does with two lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combine {
    /// Their sum, wrapping.
    Add,
    /// The smaller, as signed integers.
    Min,
    /// The larger.
    Max,
}

impl Combine {
    /// How lanes are combined under a kind of this number on the wire.
    #[inline(always)]
    pub const fn of(number: u8) -> Self {
        if number & COMPOSED == 0 {
            return Self::Add;
        }
        match ReduceOp::from_bits(number >> 4) {
            ReduceOp::Sum | ReduceOp::Avg => Self::Add,
            ReduceOp::Min => Self::Min,
            ReduceOp::Max => Self::Max,
        }
    }

    /// Two lanes as one.
    #[inline(always)]
    pub fn lanes(self, one: i32, other: i32) -> i32 {
        match self {
            Self::Add => one.wrapping_add(other),
            Self::Min => one.min(other),
            Self::Max => one.max(other),
        }
    }

    /// The lane that changes no other.
    #[inline(always)]
    pub const fn identity(self) -> i32 {
        match self {
            Self::Add => 0,
            Self::Min => i32::MAX,
            Self::Max => i32::MIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::format;
    use std::vec::Vec;

    #[test]
    fn op_6_every_kind_has_one_number() {
        let mut kinds = Vec::new();
        for number in 0..=u8::MAX {
            if let Some(kind) = OpKind::from_wire(number) {
                assert_eq!(kind.to_wire(), number);
                assert!(!kinds.contains(&kind), "{kind:?}");
                kinds.push(kind);
            }
        }
        // A barrier; i32: sum, min, max; three floats: sum and avg in three widths, min and max.
        assert_eq!(kinds.len(), 1 + 3 + 3 * (2 * 3 + 2));
        for op in ReduceOp::ALL {
            for element in ElementType::ALL {
                for width in Width::ALL {
                    if let Some(kind) = OpKind::reduce(op, element, width) {
                        assert_eq!(OpKind::from_wire(kind.to_wire()), Some(kind));
                    }
                }
            }
        }
        let numbers = [OpKind::SUM_I32, OpKind::SUM_F32, OpKind::Barrier].map(OpKind::to_wire);
        assert_eq!(numbers, [1, 2, 3]);
        let max = OpKind::reduce(ReduceOp::Max, ElementType::F32, Width::Bits32).unwrap();
        assert_eq!(max.to_wire(), 0b1011_0100);
        let avg = OpKind::reduce(ReduceOp::Avg, ElementType::Bf16, Width::Bits8).unwrap();
        assert_eq!(avg.to_wire(), 0b1001_1110);
    }

    #[test]
    fn op_6_lanes_are_combined_as_the_kind_says() {
        for kind in OpKind::all() {
            let expected = match kind {
                OpKind::Reduce(reduction) if reduction.op() == ReduceOp::Min => Combine::Min,
                OpKind::Reduce(reduction) if reduction.op() == ReduceOp::Max => Combine::Max,
                _ => Combine::Add,
            };
            assert_eq!(is_scaled(kind.to_wire()), kind.is_scaled(), "{kind:?}");
            let combine = Combine::of(kind.to_wire());
            assert_eq!(combine, expected, "{kind:?}");
            for lane in [i32::MIN, -7, 0, 3, i32::MAX] {
                assert_eq!(combine.lanes(lane, combine.identity()), lane);
                assert_eq!(combine.lanes(combine.identity(), lane), lane);
            }
        }
        assert_eq!(Combine::Add.lanes(i32::MAX, 2), i32::MIN + 1);
        assert_eq!((Combine::Min.lanes(-3, 2), Combine::Max.lanes(-3, 2)), (-3, 2));
    }

    #[test]
    fn impossible_reductions_are_none() {
        for width in [Width::Bits16, Width::Bits8] {
            assert_eq!(Reduction::new(ReduceOp::Sum, ElementType::I32, width), None);
            assert_eq!(Reduction::new(ReduceOp::Max, ElementType::F32, width), None);
        }
        assert_eq!(
            Reduction::new(ReduceOp::Avg, ElementType::I32, Width::Bits32),
            None
        );
    }

    #[test]
    fn num_7_the_most_workers_have_two_bits_left() {
        assert_eq!(Width::Bits8.most_workers(), 32);
        assert_eq!(Width::Bits16.most_workers(), 8192);
    }

    #[test]
    fn kinds_are_said_in_few_words() {
        let narrow = Reduction::new(ReduceOp::Avg, ElementType::F16, Width::Bits8).unwrap();
        assert_eq!(format!("{narrow}"), "f16 in 8 bits");
    }
}

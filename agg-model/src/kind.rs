//! Kinds of operations (docs/protocol.md, R-OP-6), from the bits of their number.

/// What becomes of the elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "named by what becomes of them")]
pub enum Op {
    Sum,
    Avg,
    Min,
    Max,
}

/// The type of the elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "named by the type")]
pub enum ElementKind {
    I32,
    F32,
    F16,
    Bf16,
}

/// A kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ModelKind {
    /// No values.
    Barrier,
    /// Elements of all members become one.
    Reduce {
        /// How.
        op: Op,
        /// Of which type they are.
        element: ElementKind,
        /// Bits of an element on the wire.
        bits: u32,
    },
}

impl ModelKind {
    /// The sum of i32.
    pub const SUM_I32: Self = Self::Reduce {
        op: Op::Sum,
        element: ElementKind::I32,
        bits: 32,
    };

    /// The sum of f32.
    pub const SUM_F32: Self = Self::Reduce {
        op: Op::Sum,
        element: ElementKind::F32,
        bits: 32,
    };

    /// The kind that an `op` field states in its top byte, if there is one.
    pub fn of(op: u64) -> Option<Self> {
        let number = (op >> 56) as u8;
        match number {
            1 => return Some(Self::SUM_I32),
            2 => return Some(Self::SUM_F32),
            3 => return Some(Self::Barrier),
            _ => {}
        }
        let field = |shift: u32| usize::from(number >> shift & 3);
        let op = [Op::Sum, Op::Avg, Op::Min, Op::Max][field(4)];
        let element = [
            ElementKind::I32,
            ElementKind::F32,
            ElementKind::F16,
            ElementKind::Bf16,
        ][field(2)];
        let bits = [Some(32), Some(16), Some(8), None][field(0)]?;
        let kind = Self::Reduce { op, element, bits };
        let exists = match (op, element) {
            (Op::Avg, ElementKind::I32) => false,
            (Op::Min | Op::Max, _) | (Op::Sum, ElementKind::I32) => bits == 32,
            (Op::Sum | Op::Avg, _) => true,
        };
        let has_number_of_its_own = [Self::SUM_I32, Self::SUM_F32].contains(&kind);
        (number & 0xc0 == 0x80 && exists && !has_number_of_its_own).then_some(kind)
    }

    /// The number in the top byte of `op`.
    pub fn number(self) -> u8 {
        (0..=u8::MAX)
            .find(|number| Self::of(u64::from(*number) << 56) == Some(self))
            .expect("a kind that exists")
    }

    /// R-NUM-2: whether its values are scaled by an exponent: sums and averages of floats.
    pub fn is_scaled(self) -> bool {
        match self {
            Self::Barrier => false,
            Self::Reduce { op, element, .. } => {
                matches!(op, Op::Sum | Op::Avg) && element != ElementKind::I32
            }
        }
    }

    /// R-NUM-7: how many workers may reduce by it.
    pub fn most_workers(self) -> u32 {
        match self.bits() {
            32 => u32::MAX,
            bits => 1 << (bits - 3),
        }
    }

    /// R-OP-2: elements of a chunk.
    pub fn elements_of(self, lanes: usize) -> usize {
        lanes * 32 / self.bits() as usize
    }

    /// The number of the kind in its place, and so many elements.
    pub fn tag(self, elements: usize) -> u64 {
        u64::from(self.number()) << 56 | elements as u64
    }

    /// Every kind.
    pub fn all() -> Vec<Self> {
        (0..=u8::MAX)
            .filter_map(|number| Self::of(u64::from(number) << 56))
            .collect()
    }

    /// Bits of an element on the wire.
    pub fn bits(self) -> u32 {
        match self {
            Self::Barrier => 32,
            Self::Reduce { bits, .. } => bits,
        }
    }
}

/// R-SLOT-3: two lanes of an operation as one.
pub fn combine(op: u64, one: i32, other: i32) -> i32 {
    match ModelKind::of(op) {
        Some(ModelKind::Reduce { op: Op::Min, .. }) => one.min(other),
        Some(ModelKind::Reduce { op: Op::Max, .. }) => one.max(other),
        _ => one.wrapping_add(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agg_core::OpKind;

    #[test]
    fn op_6_the_numbers_are_the_cores() {
        for number in 0..=u8::MAX {
            let (ours, core) = (ModelKind::of(u64::from(number) << 56), OpKind::from_wire(number));
            assert_eq!(ours.is_some(), core.is_some(), "{number:#b}");
            if let (Some(ours), Some(core)) = (ours, core) {
                assert_eq!(ours.number(), number);
                assert_eq!(
                    (ours.is_scaled(), ours.bits()),
                    (core.is_scaled(), core.width().bits())
                );
            }
        }
    }
}

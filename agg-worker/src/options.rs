//! How a tensor is reduced.

use agg_core::{ElementType, OpKind, ReduceOp, Reduction, Width};

use crate::Error;

/// How a tensor is reduced: [`ReduceOptions::default`] is the sum, with 32 bits an element on the wire. All ranks must give
/// the same.
///
/// ```
/// use agg_worker::{ReduceOp, ReduceOptions, Width};
///
/// let largest = ReduceOptions::new(ReduceOp::Max);
/// let narrow = ReduceOptions::new(ReduceOp::Avg).with_width(Width::Bits16);
/// # assert_eq!((largest.width, narrow.op), (Width::Bits32, ReduceOp::Avg));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReduceOptions {
    /// What becomes of the elements of all ranks.
    pub op: ReduceOp,
    /// Bits of an element on the wire. Narrow ones, for sums and averages of floats, take a half or a quarter of the bytes, and
    /// round more: [`Communicator::all_reduce_feedback_with`](crate::Communicator::all_reduce_feedback_with) keeps what is lost.
    pub width: Width,
}

impl ReduceOptions {
    /// An operation with 32 bits an element on the wire.
    pub fn new(op: ReduceOp) -> Self {
        Self {
            op,
            ..Self::default()
        }
    }

    /// The same with elements of another width on the wire.
    #[must_use]
    pub fn with_width(self, width: Width) -> Self {
        Self { width, ..self }
    }

    /// Whether elements of this type have such an operation, in a job of so many ranks.
    ///
    /// # Errors
    /// [`Error::Unsupported`], which says what there is.
    pub fn check(self, element: ElementType, ranks: u32) -> Result<(), Error> {
        self.kind(element, ranks).map(|_| ())
    }

    /// The kind of operation for elements of this type in a job of so many ranks.
    pub(crate) fn kind(self, element: ElementType, ranks: u32) -> Result<OpKind, Error> {
        let Self { op, width } = self;
        let unsupported = |possible| Error::Unsupported {
            op,
            element,
            width,
            possible,
        };
        let Some(reduction) = Reduction::new(op, element, width) else {
            let possible = match element {
                ElementType::I32 => "integers have sum, min and max in 32 bits",
                _ => "floats have sum and avg in 32, 16 and 8 bits, min and max in 32",
            };
            return Err(unsupported(possible.to_owned()));
        };
        if ranks > width.most_workers() {
            let most = width.most_workers();
            return Err(unsupported(format!(
                "{} bits leave room for the sum of {most} ranks, there are {ranks}: take more bits",
                width.bits()
            )));
        }
        Ok(OpKind::Reduce(reduction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_refused_with_what_does() {
        let error = |op, element, width, ranks| {
            let options = ReduceOptions { op, width };
            options.kind(element, ranks).unwrap_err().to_string()
        };
        assert_eq!(
            error(ReduceOp::Avg, ElementType::I32, Width::Bits32, 2),
            "there is no avg of i32 with 32 bits on the wire: integers have sum, min and max in 32 bits"
        );
        assert_eq!(
            error(ReduceOp::Sum, ElementType::F32, Width::Bits8, 33),
            "there is no sum of f32 with 8 bits on the wire: 8 bits leave room for the sum of 32 ranks, there are 33: take \
             more bits"
        );
    }

    #[test]
    fn num_7_every_number_of_ranks_has_a_kind_in_16_bits() {
        let options = ReduceOptions::default().with_width(Width::Bits16);
        assert!(options.kind(ElementType::F32, 4096).is_ok());
    }
}

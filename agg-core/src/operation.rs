//! Operations: what the ranks reduce together, and how its elements become chunks (docs/protocol.md, "Operations").

use core::fmt;
use core::ops::Range;

use crate::OpKind;
use crate::kind::ReduceOp;

/// An operation as every rank must state it alike (R-OP-4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operation {
    /// What it does.
    pub kind: OpKind,
    /// Elements of the whole tensor, over all streams; below 2^56.
    pub elements: u64,
}

impl Operation {
    /// The operation in one word, as it travels: the kind in the top byte, the elements below.
    pub const fn tag(self) -> u64 {
        ((self.kind.to_wire() as u64) << 56) | (self.elements & ((1 << 56) - 1))
    }

    /// The operation that a tag states; `None` for a kind this version does not know.
    pub const fn from_tag(tag: u64) -> Option<Self> {
        match OpKind::from_wire(kind_of(tag)) {
            Some(kind) => Some(Self {
                kind,
                elements: tag & ((1 << 56) - 1),
            }),
            None => None,
        }
    }
}

/// The number of the kind that a tag states, known or not.
#[inline(always)]
pub const fn kind_of(tag: u64) -> u8 {
    (tag >> 56) as u8
}

/// As a user would say it: `all_reduce of 1000 f32`, `all_reduce (avg) of 1000 f32 in 16 bits`.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpKind::Reduce(reduction) = self.kind else {
            return f.write_str("barrier");
        };
        match reduction.op() {
            ReduceOp::Sum => f.write_str("all_reduce")?,
            op => write!(f, "all_reduce ({op})")?,
        }
        write!(f, " of {} {reduction}", self.elements)
    }
}

/// Chunks that one stream must have before an operation uses the next stream too (R-OP-5). Below that a second
/// socket costs more than it brings.
pub const MIN_CHUNKS_PER_STREAM: u64 = 64;

/// The elements of an operation that stream `stream` of `streams` carries (R-OP-5): contiguous, cut at chunk
/// boundaries, so that the blocks of fixed point, and with them the bits of the result, do not depend on the
/// number of streams. A chunk holds `per_chunk` elements, as [`OpKind::elements_of`] says.
pub fn stream_part(elements: u64, per_chunk: u64, streams: u64, stream: u64) -> Range<u64> {
    let chunks = elements.div_ceil(per_chunk.max(1));
    let used = (chunks / MIN_CHUNKS_PER_STREAM).clamp(1, streams.max(1));
    let edge = |index: u64| (chunks * index.min(used) / used * per_chunk).min(elements);
    edge(stream)..edge(stream + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::format;

    #[test]
    fn op_4_tags_are_invertible_and_distinct() {
        for kind in OpKind::all() {
            for elements in [0, 1, 1000, (1 << 56) - 1] {
                let operation = Operation { kind, elements };
                assert_eq!(Operation::from_tag(operation.tag()), Some(operation));
            }
        }
        assert_eq!(Operation::from_tag(0), None);
    }

    #[test]
    fn operations_are_said_as_a_user_would() {
        let said = |op, element, width| {
            let kind = OpKind::reduce(op, element, width).unwrap();
            format!("{}", Operation { kind, elements: 1000 })
        };
        use crate::kind::{ElementType, Width};
        let plain = said(ReduceOp::Sum, ElementType::F32, Width::Bits32);
        assert_eq!(plain, "all_reduce of 1000 f32");
        let narrow = said(ReduceOp::Avg, ElementType::F32, Width::Bits16);
        assert_eq!(narrow, "all_reduce (avg) of 1000 f32 in 16 bits");
    }

    #[test]
    fn op_5_parts_cover_everything_once_at_chunk_boundaries() {
        for elements in [0, 1, 255, 256, 257, 16_384, 100_000, 1_000_003] {
            for streams in 1..5 {
                let mut reached = 0;
                for stream in 0..streams {
                    let part = stream_part(elements, 256, streams, stream);
                    assert_eq!(part.start, reached);
                    assert!(part.start.is_multiple_of(256) || part.is_empty());
                    reached = part.end;
                }
                assert_eq!(reached, elements);
                assert!(elements == 0 || !stream_part(elements, 256, streams, 0).is_empty());
            }
        }
    }
}

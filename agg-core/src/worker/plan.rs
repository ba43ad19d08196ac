//! How one operation's part becomes chunks, and which chunk waits for which (R-OP-1 to R-OP-3).

use super::predictions::{Prediction, Predictions};
use crate::fixed_point::Scale;
use crate::{Exponent, OpKind, Operation};

/// The chunks of one operation on one stream, indexed from 0; chunk number `base + index` in the job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Plan {
    pub(super) operation: Operation,
    pub(super) op_seq: u32,
    /// The job's number of chunk 0.
    pub(super) base: u64,
    /// Chunks in front that carry no values, unless they go by a prediction.
    pub(super) headers: u64,
    /// Chunks with values.
    pub(super) data: u64,
    window: u64,
    /// Workers of the job when the operation began: the headroom of its sums.
    pub(super) workers: u32,
    /// Its exponents are remembered when it has ended (R-NUM-11).
    pub(super) is_remembered: bool,
    /// By which the chunks in front carry values already; they are all, unless it proves to be wrong.
    pub(super) prediction: Option<Prediction>,
}

impl Plan {
    pub(super) fn new(
        operation: Operation,
        op_seq: u32,
        base: u64,
        elements: u64,
        lanes: usize,
        window: u64,
        workers: u32,
    ) -> Self {
        let chunks = elements.div_ceil(operation.kind.elements_of(lanes) as u64);
        let (headers, data) = match operation.kind {
            OpKind::Barrier => (chunks, 0),
            kind if kind.is_scaled() => (chunks.min(window), chunks),
            OpKind::Reduce(_) => (0, chunks),
        };
        Self {
            operation,
            op_seq,
            base,
            headers,
            data,
            window,
            workers,
            is_remembered: data > 0 && Predictions::suit(operation.kind, elements, data, window),
            prediction: None,
        }
    }

    pub(super) fn total(&self) -> u64 {
        match self.prediction {
            Some(_) => self.headers,
            None => self.headers + self.data,
        }
    }

    /// The chunks that are to be sent first when the prediction was wrong: all with values.
    pub(super) fn repeated(&self) -> core::ops::Range<u64> {
        self.headers..self.headers + self.data
    }

    /// The chunks that wait for no other of this operation: `0..initial()`.
    pub(super) fn initial(&self) -> u64 {
        if self.operation.kind.is_scaled() {
            self.headers
        } else {
            self.total().min(self.window)
        }
    }

    /// The chunks that chunk `index` waits for: the slot's last one, and the one that brings its exponent.
    pub(super) fn dependencies(&self, index: u64) -> [Option<u64>; 2] {
        let exponent = if self.operation.kind.is_scaled() {
            index.checked_sub(self.headers)
        } else {
            None
        };
        [index.checked_sub(self.window), exponent]
    }

    /// The chunks that wait for chunk `index`, each once.
    pub(super) fn dependents(&self, index: u64) -> [Option<u64>; 2] {
        let within = |index: u64| (index < self.total()).then_some(index);
        let exponent = if self.operation.kind.is_scaled() && self.headers != self.window {
            within(index + self.headers)
        } else {
            None
        };
        [within(index + self.window), exponent]
    }

    /// The block of values that chunk `index` carries; `None` where it carries none.
    pub(super) fn block(&self, index: u64) -> Option<u64> {
        match self.prediction {
            Some(_) => Some(index),
            None => index.checked_sub(self.headers),
        }
    }

    /// How values are scaled with an agreed exponent.
    pub(super) fn scale(&self, exponent: Exponent) -> Option<Scale> {
        Scale::new(exponent, self.workers, self.operation.kind.width())
    }

    /// Where the exponent that chunk `index` uses, or brings for its dependent, is remembered.
    pub(super) fn exponent_place(&self, index: u64) -> usize {
        (index % self.headers.max(1)) as usize
    }

    /// Which of a slot's exponents are this operation's.
    pub(super) fn exponent_turn(&self) -> usize {
        (self.op_seq % 2) as usize
    }

    /// The block whose exponent chunk `index` announces, one lead ahead of its own.
    pub(super) fn announced(&self, index: u64) -> Option<u64> {
        (self.operation.kind.is_scaled() && index < self.data).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every chunk becomes sendable exactly once, by the last of its dependencies, in whatever order results come.
    #[test]
    fn op_3_dependents_invert_dependencies() {
        for kind in OpKind::all() {
            for elements in [1, 7, 8, 9, 31, 32, 33, 100] {
                let plan = Plan::new(Operation { kind, elements }, 0, 0, elements, 2, 8, 1);
                for index in 0..plan.total() {
                    let waits = plan.dependencies(index).iter().flatten().count() > 0;
                    assert_eq!(waits, index >= plan.initial(), "{kind:?} {elements} {index}");
                    for dependency in plan.dependencies(index).into_iter().flatten() {
                        let back = plan.dependents(dependency);
                        assert_eq!(back.iter().filter(|back| **back == Some(index)).count(), 1);
                    }
                }
            }
        }
    }
}

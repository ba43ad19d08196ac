//! The chunks of one operation (R-OP-1 to R-OP-3), as the rules have them.

use crate::harness::Values;
use crate::predictions::Exponents;

/// The operation under way, or the last one.
#[derive(Clone, Debug)]
pub(super) struct Current {
    /// The elements as they were at the start.
    pub(super) input: Values,
    pub(super) op_seq: u32,
    /// The number of its first chunk.
    pub(super) base: u64,
    /// Its header-only chunks in front (L, or a barrier's one), and its chunks with values.
    pub(super) headers: u64,
    pub(super) data: u64,
    /// The workers that the job had when it began.
    pub(super) workers: u32,
    /// R-NUM-11: the chunks in front carry values by this, and have not proved wrong.
    pub(super) prediction: Option<Exponents>,
}

impl Current {
    /// R-OP-2: its chunks, the first of them chunk `base` of the job.
    pub(super) fn new(
        input: Values,
        op_seq: u32,
        base: u64,
        lanes: usize,
        window: u64,
        workers: u32,
    ) -> Self {
        let (headers, data) = input.chunks(lanes, window);
        Self {
            input,
            op_seq,
            base,
            headers,
            data,
            workers,
            prediction: None,
        }
    }

    /// R-CHUNK-1, backwards: the chunk of the operation that is in this slot and round.
    pub(super) fn index_at(&self, slot: u16, round: u32, window: u64) -> Option<u64> {
        (0..self.total()).find(|index| {
            let chunk = self.base + index;
            (chunk % window) as u16 == slot && (chunk / window % (1 << 32)) as u32 == round
        })
    }

    pub(super) fn total(&self) -> u64 {
        match self.prediction {
            Some(_) => self.headers,
            None => self.headers + self.data,
        }
    }

    /// The block that chunk `index` carries, if it carries one.
    pub(super) fn block(&self, index: u64) -> Option<u64> {
        match self.prediction {
            Some(_) => Some(index),
            None => index.checked_sub(self.headers),
        }
    }

    /// R-OP-3: the chunks that chunk `index` waits for.
    pub(super) fn waits_for(&self, index: u64, window: u64) -> Vec<u64> {
        let mut earlier = vec![index.checked_sub(window)];
        if self.input.kind.is_scaled() {
            earlier.push(index.checked_sub(self.headers));
        }
        earlier.into_iter().flatten().collect()
    }
}

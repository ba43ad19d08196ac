//! The chunks of one operation (R-OP-1 to R-OP-3), as the rules have them.

use crate::harness::Values;

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
        let blocks = input.operation().elements.div_ceil(lanes as u64);
        let (headers, data) = match input {
            Values::I32(_) => (0, blocks),
            Values::F32(_) | Values::Feedback(..) => (blocks.min(window), blocks),
            Values::Barrier => (1, 0),
        };
        Self {
            input,
            op_seq,
            base,
            headers,
            data,
            workers,
        }
    }

    /// R-CHUNK-1, backwards: the chunk of the operation that is in this slot and round.
    pub(super) fn index_at(&self, slot: u16, round: u32, window: u64) -> Option<u64> {
        (0..self.total()).find(|index| {
            let chunk = self.base + index;
            (chunk % window) as u16 == slot && (chunk / window % (1 << 32)) as u32 == round
        })
    }

    pub(super) fn is_f32(&self) -> bool {
        self.input.floats().is_some()
    }

    pub(super) fn total(&self) -> u64 {
        self.headers + self.data
    }

    /// R-OP-3: the chunks that chunk `index` waits for.
    pub(super) fn waits_for(&self, index: u64, window: u64) -> Vec<u64> {
        let mut earlier = vec![index.checked_sub(window)];
        if self.is_f32() {
            earlier.push(index.checked_sub(self.headers));
        }
        earlier.into_iter().flatten().collect()
    }
}

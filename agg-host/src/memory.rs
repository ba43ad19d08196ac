//! How much slot memory a shard has.

use agg_core::pool::slot_memory;
use agg_core::slot::Head;
use agg_core::{Aggregator, Lanes};

use crate::ShardAggregator;

/// The memory of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotMemory {
    heads: usize,
    lanes: usize,
}

impl SlotMemory {
    /// As many slots of the smallest common chunk size as fit; larger ones leave some heads unused.
    /// Chunks in the deeper memory have their heads here, too.
    pub fn of(bytes: u64, store: u64) -> Self {
        let lanes = Lanes::L256.count();
        let one = slot_memory(1, lanes as u64, 1);
        let chunks = (bytes / one).max(2);
        Self {
            heads: (chunks + store / one) as usize,
            lanes: chunks as usize * lanes,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        (self.heads * size_of::<Head>() + self.lanes * size_of::<i32>()) as u64
    }

    /// An aggregator over memory of this size; `None` where it cannot be had.
    pub fn aggregator(&self) -> Option<ShardAggregator> {
        Some(Aggregator::new(
            filled(Head::VACANT, self.heads)?,
            filled(0, self.lanes)?,
        ))
    }
}

/// Memory for `len` values; `None` where it cannot be had.
fn filled<T: Clone>(value: T, len: usize) -> Option<Box<[T]>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(len).ok()?;
    memory.resize(len, value);
    Some(memory.into_boxed_slice())
}

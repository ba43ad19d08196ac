//! Which part of the maps each job has: heads, and whole rows of values; first fit.

use std::collections::HashMap;
use std::ops::Range;

use agg_core::pool::{first_fit, slot_memory};
use agg_core::slot::Head;
use agg_core::{AdmitError, JobConfig};
use bpf_layout::{HeadEntry, LANES, ROW_BYTES, ROW_LANES};

/// The part of the maps that a job has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) heads: Range<usize>,
    pub(crate) rows: Range<usize>,
}

/// The maps' sizes, and what of them is taken.
#[derive(Debug)]
pub(crate) struct Memory {
    heads: usize,
    rows: usize,
    taken: HashMap<u64, Place>,
}

/// Whole chunks of so many lanes in a row.
const fn chunks_a_row(lanes: usize) -> usize {
    ROW_LANES / lanes
}

impl Memory {
    /// As many rows as fit, with heads for chunks of the smallest size; larger ones leave some heads unused.
    pub(crate) fn of(bytes: u64) -> Self {
        let chunks = chunks_a_row(LANES[0]);
        let row = (ROW_BYTES + chunks * size_of::<HeadEntry>()) as u64;
        let rows = (bytes / row).max(1) as usize;
        Self {
            heads: rows * chunks,
            rows,
            taken: HashMap::new(),
        }
    }

    /// Entries of map `HEADS`.
    pub(crate) fn heads(&self) -> usize {
        self.heads
    }

    /// Entries of map `VALUES`.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Finds room for a job; what one of the same key has counts as free.
    pub(crate) fn find(&self, config: &JobConfig) -> Result<Place, AdmitError> {
        let lanes = config.lanes.count();
        let heads = usize::from(config.window) * usize::from(config.generations);
        let rows = heads.div_ceil(chunks_a_row(lanes).max(1));
        let others = |part: fn(&Place) -> &Range<usize>| -> Vec<Range<usize>> {
            let others = self.taken.iter().filter(|(key, _)| **key != config.key);
            others.map(|(_, place)| part(place).clone()).collect()
        };
        let found_heads = first_fit(&others(|place| &place.heads), self.heads, heads);
        let found_rows = first_fit(&others(|place| &place.rows), self.rows, rows);
        match (found_heads, found_rows) {
            (Ok(heads), Ok(rows)) => Ok(Place { heads, rows }),
            (free_heads, free_rows) => {
                let one = slot_memory(1, lanes as u64, 1);
                let heads_free = free_heads.map_or_else(|free| free, |_| heads);
                let chunks_free = free_rows.map_or_else(|free| free, |_| rows) * chunks_a_row(lanes);
                Err(AdmitError::Memory {
                    needed: heads as u64 * one,
                    free: heads_free.min(chunks_free) as u64 * one,
                })
            }
        }
    }

    /// Gives a job what was found for it, in place of what it had.
    pub(crate) fn take(&mut self, key: u64, place: Place) {
        self.taken.insert(key, place);
    }

    /// Gives a job's room back.
    pub(crate) fn release(&mut self, key: u64) {
        self.taken.remove(&key);
    }

    /// Bytes that the next job is sure to get, of any chunk size: it fits if its [`slot_memory`] is not above this.
    pub(crate) fn largest_free(&self) -> u64 {
        let gap = |part: fn(&Place) -> &Range<usize>, capacity| {
            let taken: Vec<_> = self.taken.values().map(|place| part(place).clone()).collect();
            // Nothing can be this long: what comes back is the largest gap.
            first_fit(&taken, capacity, usize::MAX).map_or_else(|free| free, |_| 0) as u64
        };
        let heads = gap(|place| &place.heads, self.heads);
        let rows = gap(|place| &place.rows, self.rows);
        let sure = LANES.map(|lanes| {
            let chunks = (rows * chunks_a_row(lanes) as u64).min(heads);
            chunks * (4 * lanes + size_of::<Head>()) as u64
        });
        sure.into_iter().min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use agg_core::{Epoch, Lanes, Policy};

    use super::*;

    /// Finds room and takes it.
    fn place(memory: &mut Memory, config: &JobConfig) -> Result<Place, AdmitError> {
        let place = memory.find(config)?;
        memory.take(config.key, place.clone());
        Ok(place)
    }

    fn job(key: u64, lanes: Lanes, window: u16) -> JobConfig {
        JobConfig {
            key,
            epoch: Epoch(1),
            members: Default::default(),
            lanes,
            window,
            generations: 2,
            policy: Policy::All,
            parent: None,
            frames: None,
        }
    }

    #[test]
    fn jobs_get_whole_rows_one_behind_the_other_and_give_them_back() {
        let mut memory = Memory::of(1 << 20);
        let first = place(&mut memory, &job(1, Lanes::L352, 16)).unwrap();
        assert_eq!((first.heads, first.rows), (0..32, 0..2));
        let second = place(&mut memory, &job(2, Lanes::L848, 4)).unwrap();
        assert_eq!((second.heads, second.rows), (32..40, 2..3));
        memory.release(1);
        let third = place(&mut memory, &job(3, Lanes::L256, 8)).unwrap();
        assert_eq!((third.heads, third.rows), (0..16, 0..1));
    }

    #[test]
    fn a_job_that_comes_again_keeps_its_room_even_where_no_other_is_left() {
        let mut memory = Memory::of(1 << 20);
        let all = (1..).take_while(|rows| memory.rows() >= *rows).count();
        let window = (1_u16..=15)
            .map(|bits| 1 << bits)
            .filter(|window| usize::from(*window) * 2 <= all * chunks_a_row(352));
        let most = window.max().unwrap();
        let had = place(&mut memory, &job(1, Lanes::L352, most)).unwrap();
        assert!(place(&mut memory, &job(2, Lanes::L352, most)).is_err());
        assert_eq!(place(&mut memory, &job(1, Lanes::L352, most)), Ok(had));
    }

    #[test]
    fn what_is_said_to_be_free_is_free_for_chunks_of_any_size() {
        for mib in [1, 3, 64] {
            for lanes in [Lanes::L256, Lanes::L352, Lanes::L848] {
                for window in (1..=14).map(|bits| 1_u16 << bits) {
                    let mut memory = Memory::of(mib << 20);
                    place(&mut memory, &job(1, Lanes::L352, 8)).unwrap();
                    let needed = slot_memory(window.into(), lanes.count() as u64, 2);
                    let free = memory.largest_free();
                    match place(&mut memory, &job(2, lanes, window)) {
                        Ok(_) => {}
                        Err(AdmitError::Memory {
                            needed: said,
                            free: room,
                        }) => {
                            assert!(
                                needed > free && said == needed && room < needed,
                                "{window} {lanes:?}"
                            );
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn the_maps_take_no_more_than_they_may() {
        for mib in [1_u64, 64, 1024] {
            let memory = Memory::of(mib << 20);
            let bytes = memory.rows() * ROW_BYTES + memory.heads() * size_of::<HeadEntry>();
            assert!(bytes as u64 <= mib << 20);
        }
    }
}

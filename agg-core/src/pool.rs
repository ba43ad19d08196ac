//! Slot memory shared by jobs: each has one extent of heads and one of values, first fit.

use core::ops::Range;

use crate::slot::Head;
use crate::{AdmitError, JobConfig, Lanes};

/// The part of the pool that one job's slots take.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Extent {
    /// Heads, slot by slot, its generations side by side.
    pub heads: Range<usize>,
    /// Values in the same order, one chunk's lanes for each head.
    pub values: Range<usize>,
}

/// Bytes of slot memory that a job with this window, chunk size and number of generations takes.
pub const fn slot_memory(window: u64, lanes: u64, generations: u64) -> u64 {
    window * generations * (4 * lanes + size_of::<Head>() as u64)
}

/// Finds room for a job among the extents that are taken, in a pool of `heads` heads and `values` lanes.
pub fn place(job: &JobConfig, taken: &[Extent], heads: usize, values: usize) -> Result<Extent, AdmitError> {
    let generations = usize::from(job.window) * usize::from(job.generations);
    let frames = job.frames.map_or(generations, |frames| frames as usize);
    let lanes = frames.saturating_mul(job.lanes.count());
    let heads_gap = Gap::find(
        taken.iter().map(|extent| extent.heads.clone()),
        heads,
        generations,
    );
    let values_gap = Gap::find(taken.iter().map(|extent| extent.values.clone()), values, lanes);
    match (heads_gap, values_gap) {
        (Gap::Fits(heads), Gap::Fits(values)) => Ok(Extent {
            heads: heads..heads + generations,
            values: values..values + lanes,
        }),
        (heads, values) => Err(AdmitError::Memory {
            needed: (generations * size_of::<Head>() + lanes.saturating_mul(size_of::<i32>())) as u64,
            free: heads.bytes(size_of::<Head>(), generations) + values.bytes(size_of::<i32>(), lanes),
        }),
    }
}

/// Bytes that a job of the usual chunk sizes (256 lanes and more) is sure to get: it fits if its [`slot_memory`] is not
/// above this. Some larger ones may fit, too.
pub fn largest_free(taken: &[Extent], heads: usize, values: usize) -> u64 {
    let room = |gap: Gap| match gap {
        Gap::Fits(_) => 0,
        Gap::Largest(units) => units as u64,
    };
    // Nothing can be this long: what comes back is the largest gap.
    let heads = room(Gap::find(
        taken.iter().map(|extent| extent.heads.clone()),
        heads,
        usize::MAX,
    ));
    let values = room(Gap::find(
        taken.iter().map(|extent| extent.values.clone()),
        values,
        usize::MAX,
    ));
    let smallest = slot_memory(1, Lanes::L256.count() as u64, 1);
    (values * size_of::<i32>() as u64).min(heads * smallest)
}

/// Where `len` units fit among ranges that are taken, of `capacity` in all: the lowest place; else how long the largest gap is.
pub fn first_fit(taken: &[Range<usize>], capacity: usize, len: usize) -> Result<Range<usize>, usize> {
    match Gap::find(taken.iter().cloned(), capacity, len) {
        Gap::Fits(start) => Ok(start..start + len),
        Gap::Largest(units) => Err(units),
    }
}

/// The result of a search for free room.
enum Gap {
    /// It fits from here on.
    Fits(usize),
    /// It does not fit; the largest gap is this long.
    Largest(usize),
}

impl Gap {
    /// First fit: the lowest start among 0 and the ends of what is taken.
    fn find(taken: impl Iterator<Item = Range<usize>> + Clone, capacity: usize, len: usize) -> Self {
        let mut best: Option<usize> = None;
        let mut largest = 0;
        for start in core::iter::once(0).chain(taken.clone().map(|range| range.end)) {
            if taken.clone().any(|range| range.contains(&start)) {
                continue;
            }
            let following = taken
                .clone()
                .map(|range| range.start)
                .filter(|other| *other >= start)
                .min();
            let room = following.unwrap_or(capacity).saturating_sub(start);
            largest = largest.max(room);
            if room >= len && best.is_none_or(|best| start < best) {
                best = Some(start);
            }
        }
        best.map_or(Self::Largest(largest), Self::Fits)
    }

    fn bytes(&self, unit: usize, fitting: usize) -> u64 {
        let units = match self {
            Self::Fits(_) => fitting,
            Self::Largest(units) => *units,
        };
        (units * unit) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fit_takes_the_lowest_gap_that_is_large_enough() {
        let taken = [0..10, 14..20, 30..40];
        for (len, start) in [
            (1, Some(10)),
            (4, Some(10)),
            (5, Some(20)),
            (10, Some(20)),
            (20, Some(40)),
            (61, None),
        ] {
            match Gap::find(taken.iter().cloned(), 100, len) {
                Gap::Fits(found) => assert_eq!(Some(found), start, "{len}"),
                Gap::Largest(largest) => assert_eq!((None, 60), (start, largest), "{len}"),
            }
        }
        assert!(matches!(Gap::find(core::iter::empty(), 8, 8), Gap::Fits(0)));
    }
}

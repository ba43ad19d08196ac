//! Where the values of a chunk are: map `VALUES` is an array of rows, each of which holds whole chunks of one size.
//!
//! A map's values all have one size, and the verifier wants to see that a chunk does not leave its value. A row is long
//! enough that little of it is wasted, whatever the size of the chunks.

/// Lanes of a row: 27 chunks of 256 (2 % wasted), 20 of 352, 8 of 848 (4 % wasted).
pub const ROW_LANES: usize = 7040;

/// Bytes of a row.
pub const ROW_BYTES: usize = 4 * ROW_LANES;

/// Chunks of `N` lanes in rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rows<const N: usize>;

impl<const N: usize> Rows<N> {
    /// Chunks in a row.
    pub const CHUNKS: usize = ROW_LANES / N;

    /// The row of a chunk, counted from the job's first.
    #[inline(always)]
    pub const fn row(chunk: u32) -> u32 {
        chunk / Self::CHUNKS as u32
    }

    /// The lane of its row at which a chunk begins.
    #[inline(always)]
    pub const fn lane(chunk: u32) -> usize {
        (chunk % Self::CHUNKS as u32) as usize * N
    }

    /// Rows that so many chunks take.
    pub const fn count(chunks: u32) -> u32 {
        chunks.div_ceil(Self::CHUNKS as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_lie_one_behind_the_other_and_never_leave_their_row() {
        let mut end = (0, 0);
        for chunk in 0..100 {
            let (row, lane) = (Rows::<352>::row(chunk), Rows::<352>::lane(chunk));
            assert!(lane + 352 <= ROW_LANES);
            assert!(end <= (row, lane), "{chunk}");
            end = (row, lane + 352);
            assert!(row < Rows::<352>::count(chunk + 1));
        }
    }
}

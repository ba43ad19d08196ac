//! Matrix product, the one place where the training spends its time.
//!
//! Every element is summed over the inner dimension in ascending order, one product after the other, whatever
//! the shape of the tiles: the result has the same bits for any number of rows, and lanes hold different
//! elements, so the compiler may vectorise without reordering a sum.

/// Rows and columns of a tile: its 4 x 8 sums fill half the registers of plain x86-64 (SSE2), which is what a
/// portable build gets.
const ROWS: usize = 4;
const COLUMNS: usize = 8;

/// The left factor. Steps between elements rather than a layout, so that a transposed matrix needs no copy.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    values: &'a [f32],
    rows: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a> Left<'a> {
    /// A matrix stored row after row, `columns` wide.
    pub(super) fn rows_of(values: &'a [f32], columns: usize) -> Self {
        Self {
            values,
            rows: values.len() / columns,
            row_step: columns,
            column_step: 1,
        }
    }

    /// The transpose of a matrix stored row after row, `columns` wide.
    pub(super) fn transpose_of(values: &'a [f32], columns: usize) -> Self {
        Self {
            values,
            rows: columns,
            row_step: 1,
            column_step: columns,
        }
    }
}

/// `out += left * right`; `right` and `out` are stored row after row, `columns` wide.
pub(super) fn multiply_add(out: &mut [f32], left: Left<'_>, right: &[f32], columns: usize) {
    let mut row = 0;
    while row < left.rows {
        if left.rows - row >= ROWS {
            row_band::<ROWS>(out, left, right, columns, row);
            row += ROWS;
        } else {
            row_band::<1>(out, left, right, columns, row);
            row += 1;
        }
    }
}

fn row_band<const R: usize>(out: &mut [f32], left: Left<'_>, right: &[f32], columns: usize, row: usize) {
    let whole = columns - columns % COLUMNS;
    for column in (0..whole).step_by(COLUMNS) {
        tile::<R, COLUMNS>(out, left, right, columns, row, column);
    }
    for column in whole..columns {
        tile::<R, 1>(out, left, right, columns, row, column);
    }
}

#[inline(always)]
fn tile<const R: usize, const C: usize>(
    out: &mut [f32],
    left: Left<'_>,
    right: &[f32],
    columns: usize,
    row: usize,
    column: usize,
) {
    let mut sums = [[0.0f32; C]; R];
    for (inner, right_row) in right.chunks_exact(columns).enumerate() {
        let right_part = &right_row[column..column + C];
        for (offset, sums) in sums.iter_mut().enumerate() {
            let factor = left.values[(row + offset) * left.row_step + inner * left.column_step];
            for (sum, &value) in sums.iter_mut().zip(right_part) {
                *sum += factor * value;
            }
        }
    }
    for (offset, sums) in sums.iter().enumerate() {
        let start = (row + offset) * columns + column;
        for (out, sum) in out[start..start + C].iter_mut().zip(sums) {
            *out += sum;
        }
    }
}

/// Writes the transpose of `matrix` (stored row after row, `columns` wide) over `out`.
pub(super) fn transpose(out: &mut Vec<f32>, matrix: &[f32], columns: usize) {
    out.clear();
    for column in 0..columns {
        out.extend(matrix[column..].iter().step_by(columns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn random(len: usize, seed: u64) -> Vec<f32> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..len).map(|_| random.random_range(-1.0..1.0)).collect()
    }

    #[test]
    fn every_tile_shape_sums_in_the_same_order() {
        for (rows, inner, columns) in [(1, 1, 1), (4, 8, 8), (7, 5, 10), (9, 64, 19)] {
            let (left, right) = (random(rows * inner, 1), random(inner * columns, 2));
            let mut expected = random(rows * columns, 3);
            let mut out = expected.clone();
            for row in 0..rows {
                for column in 0..columns {
                    let products = (0..inner).map(|k| left[row * inner + k] * right[k * columns + column]);
                    expected[row * columns + column] += products.fold(0.0, |sum, product| sum + product);
                }
            }
            let mut flipped = Vec::new();
            transpose(&mut flipped, &left, inner);
            let mut from_transpose = out.clone();
            multiply_add(&mut out, Left::rows_of(&left, inner), &right, columns);
            multiply_add(
                &mut from_transpose,
                Left::transpose_of(&flipped, rows),
                &right,
                columns,
            );
            assert_eq!(out, expected, "{rows} x {inner} x {columns}");
            assert_eq!(
                from_transpose, expected,
                "{rows} x {inner} x {columns}, transposed"
            );
        }
    }
}

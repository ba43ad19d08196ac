//! The shipped data set: 8 x 8 images of handwritten digits.
//!
//! "Optical Recognition of Handwritten Digits", E. Alpaydin and C. Kaynak, UCI Machine Learning Repository,
//! CC BY 4.0.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

/// Pixels of one image.
pub const PIXELS: usize = 64;
/// The label is one of this many digits.
pub(super) const CLASSES: usize = 10;

/// Full ink in the file; pixels are divided by it, so they lie in 0..=1.
const FULL_INK: u8 = 16;
const SHIPPED: &str = include_str!("../../data/digits.csv");

/// Why a text is not a set of digits. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DigitsError {
    /// A line holds too few or too many fields.
    #[error("digits line {line}: {found} fields; expected {PIXELS} pixels and a label")]
    Fields {
        /// Line number.
        line: usize,
        /// Fields found.
        found: usize,
    },
    /// A field is not a number of its range.
    #[error("digits line {line}, field {field}: '{text}' is not a whole number from 0 to {max}")]
    Value {
        /// Line number.
        line: usize,
        /// Field number, from 1.
        field: usize,
        /// What stands there.
        text: String,
        /// The largest value allowed.
        max: u8,
    },
    /// There is no line at all.
    #[error("digits: no images; expected lines of {PIXELS} pixels and a label")]
    Empty,
}

/// Images and their labels, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Digits {
    /// Row after row of [`PIXELS`] values in 0..=1.
    pub pixels: Vec<f32>,
    /// One digit an image, 0..=9.
    pub labels: Vec<u8>,
}

/// A data set cut into images to learn from and images to measure on.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// Images to learn from.
    pub train: Digits,
    /// Images to measure accuracy on.
    pub test: Digits,
}

impl Digits {
    /// The data set that ships with Tributary.
    pub fn shipped() -> Result<Self, DigitsError> {
        Self::parse(SHIPPED)
    }

    /// Reads lines of 64 pixels (0..=16) and a label (0..=9), separated by commas.
    pub fn parse(text: &str) -> Result<Self, DigitsError> {
        let mut digits = Self {
            pixels: Vec::new(),
            labels: Vec::new(),
        };
        for (index, row) in text.lines().enumerate() {
            let line = index + 1;
            let found = row.split(',').count();
            if found != PIXELS + 1 {
                return Err(DigitsError::Fields { line, found });
            }
            for (index, text) in row.split(',').enumerate() {
                let is_label = index == PIXELS;
                let max = if is_label { CLASSES as u8 - 1 } else { FULL_INK };
                let value = text
                    .trim()
                    .parse()
                    .ok()
                    .filter(|&value: &u8| value <= max)
                    .ok_or_else(|| DigitsError::Value {
                        line,
                        field: index + 1,
                        text: text.to_owned(),
                        max,
                    })?;
                if is_label {
                    digits.labels.push(value);
                } else {
                    digits.pixels.push(f32::from(value) / f32::from(FULL_INK));
                }
            }
        }
        if digits.is_empty() {
            Err(DigitsError::Empty)
        } else {
            Ok(digits)
        }
    }

    /// How many images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Copies the images of these rows, in this order. Panics if a row does not exist.
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut pixels = Vec::with_capacity(rows.len() * PIXELS);
        for &row in rows {
            pixels.extend_from_slice(&self.pixels[row * PIXELS..(row + 1) * PIXELS]);
        }
        Self {
            pixels,
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
        }
    }

    /// Cuts the set at random into four fifths to learn from and one fifth to measure on; each time alike.
    pub fn split(&self) -> Split {
        // Not the training seed: another seed must not mean another exam.
        let order = shuffled(self.len(), 0, 0);
        let (train, test) = order.split_at(self.len() * 4 / 5);
        Split {
            train: self.select(train),
            test: self.select(test),
        }
    }
}

/// The numbers below `len` in a random order, the same for the same seed and epoch on every worker.
pub(super) fn shuffled(len: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(epoch);
    let mut order: Vec<usize> = (0..len).collect();
    order.shuffle(&mut random);
    order
}

/// The part of a global batch that belongs to `rank`: the parts of all ranks, joined, are the batch.
///
/// Parts differ by one image at most; with more workers than images some parts are empty.
pub fn shard<T>(batch: &[T], rank: usize, world: usize) -> &[T] {
    let cut = |rank: usize| rank * batch.len() / world;
    &batch[cut(rank)..cut(rank + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pixel: &str, label: &str) -> String {
        let mut fields = vec![pixel; PIXELS];
        fields.push(label);
        fields.join(",")
    }

    #[test]
    fn the_shipped_set_is_whole() {
        let digits = Digits::shipped().unwrap();
        assert_eq!(digits.len(), 1797);
        assert_eq!(digits.pixels.len(), 1797 * PIXELS);
        let ink: f64 = digits
            .pixels
            .iter()
            .map(|&pixel| f64::from(pixel) * f64::from(FULL_INK))
            .sum();
        assert_eq!(ink, 561_718.0);
        let per_digit: Vec<usize> = (0..10)
            .map(|digit| digits.labels.iter().filter(|&&label| label == digit).count())
            .collect();
        assert_eq!(per_digit, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }

    #[test]
    fn the_split_uses_each_image_once() {
        let digits = Digits::shipped().unwrap();
        let split = digits.split();
        assert_eq!((split.train.len(), split.test.len()), (1437, 360));
        assert_eq!(split, digits.split());
        let sorted = |sets: &[&Digits]| {
            let mut images: Vec<(Vec<u32>, u8)> = Vec::new();
            for set in sets {
                let bits = |image: &[f32]| image.iter().map(|pixel| pixel.to_bits()).collect();
                images.extend(
                    set.pixels
                        .chunks(PIXELS)
                        .map(bits)
                        .zip(set.labels.iter().copied()),
                );
            }
            images.sort();
            images
        };
        assert_eq!(sorted(&[&split.train, &split.test]), sorted(&[&digits]));
    }

    #[test]
    fn shards_joined_are_the_batch_for_every_world() {
        for world in 1..=64 {
            for len in [0, 1, 29, 96, 128] {
                let batch = shuffled(len, 7, 3);
                let joined: Vec<usize> = (0..world)
                    .flat_map(|rank| shard(&batch, rank, world))
                    .copied()
                    .collect();
                assert_eq!(joined, batch);
                let sizes = (0..world).map(|rank| shard(&batch, rank, world).len());
                assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn pixels_are_scaled_to_one() {
        assert_eq!(Digits::parse(&row("16", "3")).unwrap().pixels, [1.0; PIXELS]);
        assert_eq!(Digits::parse(&row("4", "3")).unwrap().pixels, [0.25; PIXELS]);
    }

    #[test]
    fn bad_lines_are_named() {
        let good = row("0", "3");
        assert_eq!(
            Digits::parse(&format!("{good}\n1,2,3")),
            Err(DigitsError::Fields { line: 2, found: 3 })
        );
        assert_eq!(Digits::parse(""), Err(DigitsError::Empty));
        for (text, field, wrong) in [
            (row("17", "3"), 1, "17"),
            (row("x", "3"), 1, "x"),
            (row("0", "10"), 65, "10"),
        ] {
            let Err(DigitsError::Value {
                line: 1,
                field: at,
                text,
                ..
            }) = Digits::parse(&text)
            else {
                panic!("accepted {text}");
            };
            assert_eq!((at, text.as_str()), (field, wrong));
        }
    }
}

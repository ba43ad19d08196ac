//! Sizes in bytes: `100MiB`, `4k`, `1048576`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Bytes of an element, whatever its type.
const ELEMENT: u64 = 4;

/// Units, longest names first where one ends like another. As `dd` has it: a bare letter means 1024.
const UNITS: [(&str, u64); 13] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("b", 1),
];

/// Size of a tensor in bytes, a multiple of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorSize(u64);

/// Why a text is no size of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Not a number with a unit.
    #[error("'{0}' is no size: write bytes, or a whole number with KiB, MiB, GiB (k, M, G) or kB, MB, GB")]
    Syntax(String),
    /// Part of an element.
    #[error("{given} bytes are no whole number of 4-byte elements: give {below} or {above}")]
    NotAligned {
        /// What was given.
        given: u64,
        /// The next smaller size.
        below: u64,
        /// The next larger size.
        above: u64,
    },
}

impl TensorSize {
    /// Bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for TensorSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let given = byte_count(text)?;
        if given % ELEMENT == 0 {
            return Ok(Self(given));
        }
        let below = given - given % ELEMENT;
        Err(SizeError::NotAligned {
            given,
            below,
            above: below + ELEMENT,
        })
    }
}

/// A number of bytes.
pub fn byte_count(text: &str) -> Result<u64, SizeError> {
    let syntax = || SizeError::Syntax(text.to_owned());
    let trimmed = text.trim().to_ascii_lowercase();
    let unit = UNITS.iter().find(|(name, _)| trimmed.ends_with(name));
    let (number, scale) = match unit {
        Some((name, scale)) => (trimmed[..trimmed.len() - name.len()].trim_end(), *scale),
        None => (trimmed.as_str(), 1),
    };
    let number: u64 = number.parse().map_err(|_| syntax())?;
    number
        .checked_mul(scale)
        .filter(|&bytes| bytes <= 1 << 48)
        .ok_or_else(syntax)
}

impl fmt::Display for TensorSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&human(self.0))
    }
}

/// Bytes in the largest unit, with one decimal where it is not whole; small odd numbers as they are.
pub fn human(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, scale)| bytes >= *scale) {
        Some((name, scale)) if bytes.is_multiple_of(*scale) => format!("{} {name}", bytes / scale),
        Some((name, scale)) if bytes >= 10 << 10 => format!("{:.1} {name}", bytes as f64 / *scale as f64),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4", 4),
            ("4k", 4096),
            ("4KiB", 4096),
            ("4 kB", 4000),
            ("100MiB", 100 << 20),
            ("1g", 1 << 30),
            ("8B", 8),
        ] {
            assert_eq!(text.parse::<TensorSize>().unwrap().bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn part_of_an_element_names_the_nearest_sizes() {
        let error = "4097".parse::<TensorSize>().unwrap_err();
        assert_eq!(
            error,
            SizeError::NotAligned {
                given: 4097,
                below: 4096,
                above: 4100
            }
        );
        assert!(error.to_string().contains("give 4096 or 4100"));
        assert!(
            "1".parse::<TensorSize>()
                .unwrap_err()
                .to_string()
                .contains("give 0 or 4")
        );
    }

    #[test]
    fn what_is_no_size_says_what_is() {
        for text in ["", "k", "-4", "4q", "1.5M", "99999999999G", "4é"] {
            let error = text.parse::<TensorSize>().unwrap_err();
            assert!(error.to_string().contains("MiB"), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_read_well() {
        for (bytes, text) in [
            (0, "0 B"),
            (4, "4 B"),
            (4096, "4 KiB"),
            (100 << 20, "100 MiB"),
            (5000, "5000 B"),
            (50_000, "48.8 KiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}

//! A rank that is slow on purpose: `3:20ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::seconds;
use crate::failure::Failure;

/// A rank whose gradients take longer than the others'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Straggler {
    /// Which one.
    pub rank: u32,
    /// By how much.
    pub delay: Duration,
}

impl Straggler {
    /// An error where there is no such rank.
    pub fn check(self, ranks: u32) -> Result<(), Failure> {
        if self.rank < ranks {
            return Ok(());
        }
        Err(Failure::NoSuchStraggler {
            straggler: self,
            ranks,
        })
    }

    /// Sleeps, if it is this rank.
    pub fn compute(self, rank: u32) {
        if rank == self.rank {
            std::thread::sleep(self.delay);
        }
    }
}

impl FromStr for Straggler {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':');
        let rank = parts.and_then(|(rank, _)| rank.parse().ok());
        match (rank, parts) {
            (Some(rank), Some((_, delay))) => Ok(Self {
                rank,
                delay: seconds(delay)?,
            }),
            _ => Err(format!("'{text}' is no straggler: give RANK:DELAY, like 3:20ms")),
        }
    }
}

impl fmt::Display for Straggler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}ms", self.rank, 1e3 * self.delay.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_and_its_delay() {
        let straggler: Straggler = "3:20ms".parse().unwrap();
        assert_eq!((straggler.rank, straggler.delay), (3, Duration::from_millis(20)));
        assert_eq!(straggler.to_string(), "3:20ms");
        assert!(straggler.check(4).is_ok());
        let error = straggler.check(3).unwrap_err().to_string();
        assert!(error.contains("3:20ms") && error.contains("0 to 2"), "{error}");
    }

    #[test]
    fn what_is_none_says_what_is() {
        for text in ["", "3", "x:1", "3:soon", ":1", "-1:1"] {
            assert!(text.parse::<Straggler>().unwrap_err().contains("like"), "{text}");
        }
    }
}

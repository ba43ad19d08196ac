//! Which faults, and how often.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

/// How often each fault strikes a packet, independently, in each direction. The default is no faults.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultConfig {
    /// The packet disappears.
    pub loss: Probability,
    /// The packet arrives twice.
    pub duplicate: Probability,
    /// The packet is held back until one to four later ones have passed, or for a millisecond.
    pub reorder: Probability,
    /// One bit of the packet flips, past any UDP checksum.
    pub corrupt: Probability,
    /// Added to the way of every packet, if any.
    pub delay: Option<Duration>,
    /// Decides which packets are struck. The n-th packet of a direction meets the same fate in each run; when one
    /// held back moves on depends on the clock.
    pub seed: u64,
}

impl FaultConfig {
    /// Whether nothing is to be injected, so that the plain port does as well.
    pub fn is_none(&self) -> bool {
        FaultConfig { seed: 0, ..*self } == FaultConfig::default()
    }
}

/// A number from 0 (never) to 1 (always). Parses `0.01` and `1%`.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

/// Why a number or text is not a probability.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is not a probability: give a number from 0 to 1 like 0.01, or a percentage like 1%")]
pub struct ProbabilityError {
    given: String,
}

impl Probability {
    /// Never.
    pub const NEVER: Probability = Probability(0.0);
    /// Always.
    pub const ALWAYS: Probability = Probability(1.0);

    /// The probability `p`, if it lies in 0..=1.
    pub fn new(p: f64) -> Result<Probability, ProbabilityError> {
        if (0.0..=1.0).contains(&p) {
            Ok(Probability(p))
        } else {
            Err(ProbabilityError { given: p.to_string() })
        }
    }

    /// The probability as a number in 0..=1.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Probability {
    type Err = ProbabilityError;

    fn from_str(text: &str) -> Result<Probability, ProbabilityError> {
        let error = || ProbabilityError {
            given: text.to_owned(),
        };
        let trimmed = text.trim();
        let (number, scale) = match trimmed.strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (trimmed, 1.0),
        };
        let number: f64 = number.parse().map_err(|_| error())?;
        Probability::new(number / scale).map_err(|_| error())
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded to hide binary fractions such as 0.07 × 100 = 7.000000000000001.
        write!(f, "{}%", (self.0 * 1e8).round() / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_fractions_and_percentages() {
        for (text, p) in [
            ("0", 0.0),
            ("1", 1.0),
            ("0.01", 0.01),
            ("1%", 0.01),
            (" 2.5 % ", 0.025),
            ("100%", 1.0),
        ] {
            assert_eq!(text.parse::<Probability>().unwrap().get(), p, "{text}");
        }
        assert_eq!("7%".parse::<Probability>().unwrap().to_string(), "7%");
    }

    #[test]
    fn refuses_what_is_no_probability_and_says_what_is() {
        for text in ["", "%", "5", "-0.1", "101%", "NaN", "one"] {
            let message = text.parse::<Probability>().unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("`{text}` is not a probability")),
                "{message}"
            );
            assert!(message.contains("1%"), "{message}");
        }
    }
}

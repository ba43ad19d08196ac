//! How many iterations to measure.

use std::str::FromStr;

/// A number, or as many as take about two seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iterations(Option<u32>);

impl Iterations {
    /// The number, if one was given.
    pub fn count(self) -> Option<u32> {
        self.0
    }
}

impl FromStr for Iterations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(count @ 1..=1_000_000) => Ok(Self(Some(count))),
            _ => Err("give auto, or a number from 1 to 1000000".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_auto() {
        assert_eq!("auto".parse(), Ok(Iterations(None)));
        assert_eq!("7".parse(), Ok(Iterations(Some(7))));
        assert!("0".parse::<Iterations>().is_err() && "many".parse::<Iterations>().is_err());
    }
}

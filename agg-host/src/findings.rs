//! What a host's `check` found, in plain words.

use std::fmt;

/// How a finding bears on whether the host can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// All is well.
    Good,
    /// It runs, but something is to be known.
    Note,
    /// It cannot run.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it bears.
    pub weight: Weight,
    /// What there is, and what to do about it.
    pub text: String,
}

impl Finding {
    /// All is well.
    pub fn good(text: impl Into<String>) -> Self {
        Self::new(Weight::Good, text)
    }

    /// Something is to be known.
    pub fn note(text: impl Into<String>) -> Self {
        Self::new(Weight::Note, text)
    }

    /// The host cannot run.
    pub fn bad(text: impl Into<String>) -> Self {
        Self::new(Weight::Bad, text)
    }

    fn new(weight: Weight, text: impl Into<String>) -> Self {
        Self {
            weight,
            text: text.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.weight {
            Weight::Good => "ok  ",
            Weight::Note => "note",
            Weight::Bad => "NO  ",
        };
        write!(f, "{mark}  {}", self.text)
    }
}

/// All that was looked at, in that order; shown, a line a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// How many say that the host cannot run.
    pub fn bad(&self) -> usize {
        let bad = self.0.iter().filter(|finding| finding.weight == Weight::Bad);
        bad.count()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

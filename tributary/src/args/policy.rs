//! When a sum is complete: `all`, `quorum:3`, `quorum:3,5`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use agg_worker::Policy;
use serde::{Deserialize, Serialize};

/// What the others have, since the first contribution, where nobody says how long.
const GRACE: Duration = Duration::from_millis(5);

/// The longest that anybody would wait.
const LONGEST_GRACE_MS: f64 = 60_000.0;

/// When a sum is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyArg {
    /// With every rank.
    #[default]
    All,
    /// With some, when the others had their time.
    Quorum {
        /// Ranks that must be in.
        members: u8,
        /// Time that the others have.
        grace: Duration,
    },
}

impl PolicyArg {
    /// Whether sums may lack ranks.
    pub fn is_quorum(self) -> bool {
        matches!(self, Self::Quorum { .. })
    }

    /// The same for the communicator, with memory for ranks that are behind.
    pub fn policy(self, history_bytes: u64) -> Policy {
        match self {
            Self::All => Policy::All,
            Self::Quorum { members, grace } => Policy::Quorum {
                members,
                grace,
                history_bytes,
            },
        }
    }
}

impl FromStr for PolicyArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no policy: give all, or quorum:K or quorum:K,GRACE_MS, with K from 1 to 64 ranks that a sum must \
                 have and the milliseconds that the others are waited for"
            )
        };
        if text == "all" {
            return Ok(Self::All);
        }
        let (members, grace) = match text.strip_prefix("quorum:").ok_or_else(wrong)?.split_once(',') {
            Some((members, grace)) => (members, Some(grace)),
            None => (&text["quorum:".len()..], None),
        };
        let members = members
            .parse()
            .ok()
            .filter(|count| (1..=64).contains(count))
            .ok_or_else(wrong)?;
        let grace = match grace {
            None => GRACE,
            Some(grace) => {
                let milliseconds: f64 = grace.trim_end_matches("ms").parse().map_err(|_| wrong())?;
                if !(0.0..=LONGEST_GRACE_MS).contains(&milliseconds) {
                    return Err(wrong());
                }
                Duration::from_secs_f64(milliseconds / 1e3)
            }
        };
        Ok(Self::Quorum { members, grace })
    }
}

impl fmt::Display for PolicyArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Quorum { members, grace } => write!(f, "quorum:{members},{}", 1e3 * grace.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_survive_their_text() {
        for (text, shown) in [
            ("all", "all"),
            ("quorum:3", "quorum:3,5"),
            ("quorum:64,0", "quorum:64,0"),
            ("quorum:1,2.5ms", "quorum:1,2.5"),
        ] {
            let policy: PolicyArg = text.parse().unwrap();
            assert_eq!(policy.to_string(), shown);
            assert_eq!(shown.parse(), Ok(policy));
        }
    }

    #[test]
    fn what_is_no_policy_says_what_is() {
        for text in [
            "",
            "most",
            "quorum",
            "quorum:",
            "quorum:0",
            "quorum:65",
            "quorum:3,-1",
            "quorum:3,NaN",
        ] {
            let error = text.parse::<PolicyArg>().unwrap_err();
            assert!(error.contains("quorum:K,GRACE_MS"), "{text}: {error}");
        }
    }
}

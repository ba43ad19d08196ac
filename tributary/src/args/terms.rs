//! What a world asks of its aggregator, for which every rank must ask alike, and how its ranks wait.

use std::time::Duration;

use agg_worker::{Config, OnLost};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::{PolicyArg, byte_count, seconds};

/// What becomes of a job when a rank is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLostArg {
    /// It ends
    #[default]
    Abort,
    /// It goes on without the rank
    Shrink,
}

/// The options, for clap and for a worker process.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct Terms {
    /// When a sum is complete: all, or quorum:K[,GRACE_MS]: with K ranks, when the others had some ms since the first
    #[arg(long, value_name = "POLICY", default_value = "all")]
    pub policy: PolicyArg,
    /// Under a quorum: slot memory on each shard for running ahead of late ranks
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = byte_count)]
    pub history: u64,
    /// What becomes of the job when a rank is lost
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub on_lost: OnLostArg,
    /// Share of the aggregator against that of other worlds, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub weight: u16,
    /// Worlds that wait for memory are admitted in the order of this, highest first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub priority: u8,
    /// After this much silence the aggregator is asked whether it is there, and if not, left for the next
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = seconds)]
    pub failover_after: Duration,
    /// How long a rank looks for results before it sleeps, in microseconds: for a core of its own
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub busy_poll: u32,
    /// Send by UDP also to an aggregator on the same machine, not through shared memory
    #[arg(long)]
    pub no_shared_memory: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            policy: PolicyArg::All,
            history: 64 << 20,
            on_lost: OnLostArg::Abort,
            weight: 1,
            priority: 0,
            failover_after: Duration::from_secs(1),
            busy_poll: 0,
            no_shared_memory: false,
        }
    }
}

impl Terms {
    /// The same configuration with these terms.
    pub fn apply(&self, config: Config) -> Config {
        Config {
            policy: self.policy.policy(self.history),
            on_lost: match self.on_lost {
                OnLostArg::Abort => OnLost::Abort,
                OnLostArg::Shrink => OnLost::Shrink,
            },
            weight: self.weight,
            priority: self.priority,
            failover_after: self.failover_after,
            busy_poll: Duration::from_micros(self.busy_poll.into()),
            shared_memory: !self.no_shared_memory,
            ..config
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        terms: Terms,
    }

    #[test]
    fn nothing_asked_for_is_the_communicators_default() {
        let terms = Line::try_parse_from(["x"]).unwrap().terms;
        assert_eq!(terms, Terms::default());
        let (asked, plain) = (terms.apply(Config::new("w", 0, 2)), Config::new("w", 0, 2));
        assert_eq!(format!("{asked:?}"), format!("{plain:?}"));
    }

    #[test]
    fn everything_asked_for_arrives() {
        let line = "x --policy quorum:3,2 --history 1MiB --on-lost shrink --weight 7 --priority 2 --failover-after 200ms --busy-poll 50 --no-shared-memory";
        let terms = Line::try_parse_from(line.split(' ')).unwrap().terms;
        let config = terms.apply(Config::new("w", 0, 2));
        let (members, grace) = (3, Duration::from_millis(2));
        assert_eq!(
            config.policy,
            agg_worker::Policy::Quorum {
                members,
                grace,
                history_bytes: 1 << 20
            }
        );
        assert_eq!(config.on_lost, OnLost::Shrink);
        assert_eq!((config.weight, config.priority), (7, 2));
        assert_eq!(config.failover_after, Duration::from_millis(200));
        assert_eq!(config.busy_poll, Duration::from_micros(50));
        assert!(!config.shared_memory);
    }
}

//! Counters as the control service shows them.

use agg_control::ShardCounters;
use agg_core::Counters;

/// What a shard has counted, under the counters' names.
pub fn shard_counters(shard: u16, counters: &Counters) -> ShardCounters {
    ShardCounters {
        shard,
        values: counters
            .iter()
            .map(|(counter, value)| (counter.name().to_owned(), value))
            .collect(),
    }
}

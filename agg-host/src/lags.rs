//! How far members are behind, as the control service shows it.

use std::time::Duration;

use agg_control::MemberLag;
use agg_core::Lag;

/// Of each member, by its number, what the shard says where it is furthest behind.
pub fn worst_lags<L>(shards: impl IntoIterator<Item = L>) -> Vec<MemberLag>
where
    L: IntoIterator<Item = Lag>,
{
    let mut worst: Vec<MemberLag> = Vec::new();
    for lags in shards {
        for (member, lag) in lags.into_iter().enumerate() {
            if member == worst.len() {
                worst.push(MemberLag::default());
            }
            let worst = &mut worst[member];
            worst.chunks = worst.chunks.max(lag.chunks);
            worst.waiting = worst.waiting.max(Duration::from_nanos(lag.waiting));
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_the_worst_of_its_shards() {
        let lag = |chunks, waiting| Lag { chunks, waiting };
        let shards = [
            vec![lag(1, 900), lag(5, 0)],
            vec![],
            vec![lag(2, 300), lag(4, 7), lag(1, 1)],
        ];
        let expected = [(2, 900), (5, 7), (1, 1)].map(|(chunks, nanos)| MemberLag {
            chunks,
            waiting: Duration::from_nanos(nanos),
        });
        assert_eq!(worst_lags(shards), expected);
        assert_eq!(worst_lags([[]; 2]), []);
    }
}

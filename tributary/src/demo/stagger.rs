//! Artificial delays that shuffle the order in which workers' gradients arrive.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Each worker waits before each all-reduce for a random time, uniform in 0..longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stagger {
    /// Upper bound of a delay.
    pub longest: Duration,
    /// Another seed, another arrival order.
    pub seed: u64,
}

impl Stagger {
    /// How long `rank` waits in `step`; the same for the same seed.
    pub fn delay(&self, rank: usize, step: u64) -> Duration {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ step.rotate_left(32));
        random.set_stream(rank as u64);
        self.longest.mul_f64(random.random_range(0.0..1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrival_order_changes_from_step_to_step() {
        let stagger = Stagger {
            longest: Duration::from_millis(2),
            seed: 1,
        };
        let last_at = |step| (0..4).max_by_key(|&rank| stagger.delay(rank, step)).unwrap();
        let mut last: Vec<usize> = (0..40).map(last_at).collect();
        last.sort();
        last.dedup();
        assert_eq!(last, [0, 1, 2, 3]);
        assert!((0..40).all(|step| stagger.delay(2, step) < stagger.longest));
        assert_eq!(stagger.delay(3, 9), stagger.delay(3, 9));
    }
}

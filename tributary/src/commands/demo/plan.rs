//! Which trainings a demo compares.

use std::time::Duration;

use tributary::demo::{Stagger, TrainConfig};
use udp_io::Probability;

use crate::commands::demo_worker::Setup;

/// Longer than a step's gradient takes, so that delays decide who is last.
const LONGEST_DELAY: Duration = Duration::from_millis(4);

/// One training over the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What sets it apart.
    pub name: String,
    /// Delays that force anreordered of arrival.
    pub stagger: Option<Stagger>,
    /// Share of packets lost.
    pub loss: Probability,
}

/// A run, another with a different order of arrival, and, where packets are lost, one without loss.
pub fn runs(loss: Probability, seed: u64) -> Vec<Plan> {
    let stagger = Some(Stagger {
        longest: LONGEST_DELAY,
        seed: seed.wrapping_add(1),
    });
    let plan = |name: String, stagger, loss| Plan { name, stagger, loss };
    if loss == Probability::NEVER {
        return vec![
            plan("first run".to_owned(), None, loss),
            plan("reordered".to_owned(), stagger, loss),
        ];
    }
    vec![
        plan(format!("{loss} loss"), None, loss),
        plan(format!("{loss} loss reordered"), stagger, loss),
        plan("no loss".to_owned(), None, Probability::NEVER),
    ]
}

impl Plan {
    /// What each worker is told; each run is a world of its own.
    pub fn setups(
        &self,
        index: usize,
        workers: usize,
        aggregators: &[String],
        train: &TrainConfig,
        timeout: Duration,
    ) -> Vec<Setup> {
        let setup = |rank| Setup {
            rank,
            workers,
            world: format!("demo-{}-{index}", std::process::id()),
            aggregators: aggregators.to_vec(),
            train: TrainConfig {
                stagger: self.stagger,
                ..train.clone()
            },
            loss: self.loss.get(),
            timeout,
        };
        (0..workers).map(setup).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_compared_with_a_run_without() {
        assert!(
            runs(Probability::NEVER, 1)
                .iter()
                .all(|plan| plan.loss == Probability::NEVER)
        );
        let lossy = runs("2%".parse().unwrap(), 1);
        assert_eq!(lossy[1].name, "2% loss reordered");
        assert_eq!(
            lossy
                .iter()
                .filter(|plan| plan.loss == Probability::NEVER)
                .count(),
            1
        );
        assert!(lossy[1].stagger.is_some());
    }

    #[test]
    fn every_run_is_a_world_of_its_own() {
        let plans = runs(Probability::NEVER, 1);
        let world = |index: usize| {
            let setups = plans[index].setups(
                index,
                2,
                &["a:1".to_owned()],
                &TrainConfig::default(),
                Duration::ZERO,
            );
            assert_eq!(setups[0].world, setups[1].world);
            setups[1].world.clone()
        };
        assert_ne!(world(0), world(1));
    }
}

//! Which trainings a demo compares.

use std::time::Duration;

use tributary::demo::{Stagger, TrainConfig};
use udp_io::Probability;

use crate::args::{PolicyArg, Straggler, Terms, WireArg};
use crate::commands::demo_worker::Setup;

/// Longer than a step's gradient takes, so that delays decide who is last.
const LONGEST_DELAY: Duration = Duration::from_millis(4);

/// One training over the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What sets it apart.
    pub name: String,
    /// Delays that force another order of arrival.
    pub stagger: Option<Stagger>,
    /// Share of packets lost.
    pub loss: Probability,
    /// Whether packets may go through memory that is shared with the aggregator.
    pub shared_memory: bool,
    /// When a sum is complete.
    pub policy: PolicyArg,
    /// Bits of an element on the wire.
    pub wire: WireArg,
}

/// What all trainings have in common.
#[derive(Debug, Clone)]
pub struct Common<'a> {
    /// Worker processes.
    pub workers: usize,
    /// Where they register.
    pub aggregators: &'a [String],
    /// What they train.
    pub train: &'a TrainConfig,
    /// How long to wait for the aggregator or another worker.
    pub timeout: Duration,
    /// A worker whose gradients take longer.
    pub straggler: Option<Straggler>,
    /// Whether a worker keeps for the next sum what one does not hold.
    pub feedback: bool,
}

/// A run, another with a different order of arrival, and, where packets are lost, one without loss. Under a quorum, or with
/// narrow elements, one whose sums wait for all and have 32 bits before them.
pub fn runs(loss: Probability, seed: u64, policy: PolicyArg, wire: WireArg) -> Vec<Plan> {
    let stagger = Some(Stagger {
        longest: LONGEST_DELAY,
        seed: seed.wrapping_add(1),
    });
    // Packets are lost at sockets only, and chunks, so the last bits, are others there: what is compared goes the same way.
    let shared_memory = loss == Probability::NEVER;
    let plan = |name: String, stagger, loss, policy| Plan {
        name,
        stagger,
        loss,
        shared_memory,
        policy,
        wire,
    };
    let name = match (policy.is_quorum(), wire) {
        (false, WireArg::Bits32) => None,
        (true, WireArg::Bits32) => Some(("all", "quorum".to_owned())),
        (false, narrow) => Some(("32 bits", format!("{} bits", narrow.width().bits()))),
        (true, narrow) => Some(("all", format!("quorum, {} bits", narrow.width().bits()))),
    };
    if let Some((whole, name)) = name {
        let whole = Plan {
            wire: WireArg::Bits32,
            ..plan(whole.to_owned(), None, loss, PolicyArg::All)
        };
        let reordered = plan(format!("{name} reordered"), stagger, loss, policy);
        return vec![whole, plan(name, None, loss, policy), reordered];
    }
    if loss == Probability::NEVER {
        return vec![
            plan("first run".to_owned(), None, loss, policy),
            plan("reordered".to_owned(), stagger, loss, policy),
        ];
    }
    vec![
        plan(format!("{loss} loss"), None, loss, policy),
        plan(format!("{loss} loss reordered"), stagger, loss, policy),
        plan("no loss".to_owned(), None, Probability::NEVER, policy),
    ]
}

impl Plan {
    /// What each worker is told; each run is a world of its own.
    pub fn setups(&self, index: usize, common: &Common<'_>) -> Vec<Setup> {
        let setup = |rank| {
            let slow = common
                .straggler
                .filter(|straggler| straggler.rank as usize == rank);
            Setup {
                rank,
                workers: common.workers,
                world: format!("demo-{}-{index}", std::process::id()),
                aggregators: common.aggregators.to_vec(),
                train: TrainConfig {
                    stagger: self.stagger,
                    delay: slow.map_or(Duration::ZERO, |straggler| straggler.delay),
                    ..common.train.clone()
                },
                loss: self.loss.get(),
                timeout: common.timeout,
                terms: Terms {
                    policy: self.policy,
                    no_shared_memory: !self.shared_memory,
                    ..Terms::default()
                },
                feedback: common.feedback,
                wire: self.wire,
            }
        };
        (0..common.workers).map(setup).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common<'a>(train: &'a TrainConfig, aggregators: &'a [String]) -> Common<'a> {
        Common {
            workers: 2,
            aggregators,
            train,
            timeout: Duration::ZERO,
            straggler: "1:20ms".parse().ok(),
            feedback: true,
        }
    }

    #[test]
    fn loss_is_compared_with_a_run_without() {
        assert!(
            runs(Probability::NEVER, 1, PolicyArg::All, WireArg::Bits32)
                .iter()
                .all(|plan| plan.loss == Probability::NEVER)
        );
        let lossy = runs("2%".parse().unwrap(), 1, PolicyArg::All, WireArg::Bits32);
        assert_eq!(lossy[1].name, "2% loss reordered");
        assert_eq!(
            lossy
                .iter()
                .filter(|plan| plan.loss == Probability::NEVER)
                .count(),
            1
        );
        assert!(lossy[1].stagger.is_some());
        assert!(lossy.iter().all(|plan| !plan.shared_memory));
    }

    #[test]
    fn a_quorum_is_compared_with_sums_over_all_and_the_same_straggler() {
        let plans = runs(
            Probability::NEVER,
            1,
            "quorum:1".parse().unwrap(),
            WireArg::Bits32,
        );
        let quorums: Vec<_> = plans.iter().map(|plan| plan.policy.is_quorum()).collect();
        assert_eq!(quorums, [false, true, true]);
        let train = TrainConfig::default();
        for (index, plan) in plans.iter().enumerate() {
            let setups = plan.setups(index, &common(&train, &[]));
            let delays = setups.iter().map(|setup| setup.train.delay.as_millis());
            assert!(delays.eq([0, 20]));
            assert_eq!(setups[0].terms.policy, plan.policy);
        }
    }

    #[test]
    fn narrow_elements_are_compared_with_all_bits() {
        let plans = runs(Probability::NEVER, 1, PolicyArg::All, WireArg::Bits16);
        let wires: Vec<_> = plans.iter().map(|plan| plan.wire).collect();
        assert_eq!(wires, [WireArg::Bits32, WireArg::Bits16, WireArg::Bits16]);
        assert_eq!(plans[2].name, "16 bits reordered");
        assert!(plans[1].stagger.is_none() && plans[2].stagger.is_some());
    }

    #[test]
    fn every_run_is_a_world_of_its_own() {
        let plans = runs(Probability::NEVER, 1, PolicyArg::All, WireArg::Bits32);
        let train = TrainConfig::default();
        let world = |index: usize| {
            let setups = plans[index].setups(index, &common(&train, &["a:1".to_owned()]));
            assert_eq!(setups[0].world, setups[1].world);
            setups[1].world.clone()
        };
        assert_ne!(world(0), world(1));
    }
}

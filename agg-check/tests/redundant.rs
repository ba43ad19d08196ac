//! Rules that can be broken without any harm that this model sees: one level, the policy All, members that follow the
//! protocol. They are there for what it does not contain (see docs/verification.md); should one of these tests fail,
//! that page is to be changed.

use agg_check::configurations as given;
use agg_check::{AggregatorMutation, Mutation, Scenario, Step, Trouble, WorkerMutation, explore};

fn harmless(mutation: Mutation) {
    let scenario = |chunks| Scenario::new("one slot", 2, 1, vec![Step::i32(chunks)]);
    explore(scenario(3).breaking(mutation)).assert_holds();
    explore(scenario(3).with(Trouble::Restart).breaking(mutation)).assert_holds();
    explore(scenario(2).with(Trouble::FailOver).breaking(mutation)).assert_holds();
}

/// R-SLOT-0: what an older round throws out is resent, or restored from a kept result.
#[test]
fn slot_0_an_older_round_may_recycle() {
    harmless(Mutation::Aggregator(AggregatorMutation::RecycleByOlder));
}

/// R-SLOT-2: a result that nobody asked for is right where members are honest.
#[test]
fn slot_2_results_may_come_unasked() {
    harmless(Mutation::Aggregator(AggregatorMutation::TakeUnaskedResults));
}

/// R-EPOCH-2: under All a chunk has one result, whatever the epoch.
#[test]
fn epoch_2_results_of_any_epoch_may_be_taken() {
    harmless(Mutation::Worker(WorkerMutation::TakeAnyEpoch));
}

/// R-VALID-6: contributions are immutable, so that those to an earlier aggregator are as good.
#[test]
fn valid_6_contributions_of_any_epoch_may_be_merged() {
    harmless(Mutation::Aggregator(AggregatorMutation::IgnoreEpoch));
}

/// R-REFORM-2: who keeps the old epoch is refused, and moved by that (R-EPOCH-3).
#[test]
fn reform_2_the_old_epoch_may_be_kept() {
    let mutation = Mutation::Worker(WorkerMutation::KeepEpoch);
    let scenario = Scenario::new("one slot", 2, 1, vec![Step::i32(3)]);
    explore(given::renumbered(scenario).breaking(mutation)).assert_holds();
}

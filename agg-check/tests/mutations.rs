//! The checker can fail: with a rule broken it finds a history in which something goes wrong, and says what.

use agg_check::configurations as given;
use agg_check::{
    AggregatorMutation, Mutation, Scenario, Step, Trouble, WorkerMutation, explore, refute, rules,
};

fn aggregator(scenario: Scenario, mutation: AggregatorMutation, rule: &'static str) {
    refute(scenario.breaking(Mutation::Aggregator(mutation)), rule).assert_violates(rule);
}

fn worker(scenario: Scenario, mutation: WorkerMutation, rule: &'static str) {
    refute(scenario.breaking(Mutation::Worker(mutation)), rule).assert_violates(rule);
}

/// One chunk after another through one slot.
fn calm(chunks: usize) -> Scenario {
    Scenario::new("calm", 2, 1, vec![Step::i32(chunks)])
}

fn restart(chunks: usize) -> Scenario {
    calm(chunks).with(Trouble::Restart)
}

/// Without a mutation the second writing of the slot rules passes where the real one does: what the mutants below are
/// caught by is their mutation.
#[test]
fn the_second_writing_is_faithful() {
    let faithful = Mutation::Aggregator(AggregatorMutation::Faithful);
    for scenario in [
        calm(3),
        restart(2),
        Scenario::new("floats", 2, 1, vec![Step::f32(2)]),
        given::disagreement(),
    ] {
        explore(scenario.breaking(faithful)).assert_holds();
    }
    explore(calm(2).with(Trouble::FailOver).breaking(faithful)).assert_holds();
}

#[test]
fn slot_0_refusing_what_is_too_far_ahead_deadlocks_after_a_restart() {
    aggregator(
        restart(3),
        AggregatorMutation::RefuseTooFarAhead,
        rules::TERMINATION,
    );
}

#[test]
fn slot_0_ignoring_rounds_never_recycles() {
    aggregator(calm(3), AggregatorMutation::IgnoreRound, rules::TERMINATION);
}

#[test]
fn chunk_2_one_generation_loses_results_that_are_needed() {
    aggregator(calm(2), AggregatorMutation::OneGeneration, rules::TERMINATION);
}

#[test]
fn chunk_3_sending_ahead_of_the_window_loses_results_that_are_needed() {
    worker(calm(4), WorkerMutation::SendAhead, rules::TERMINATION);
}

#[test]
fn slot_1_merging_into_complete_slots_changes_replays() {
    aggregator(calm(1), AggregatorMutation::MergeIntoComplete, rules::AGREEMENT);
}

#[test]
fn slot_1_silence_of_complete_slots_deadlocks() {
    aggregator(
        calm(1),
        AggregatorMutation::SilentWhenComplete,
        rules::TERMINATION,
    );
}

#[test]
fn slot_1_and_wire_4_answering_downward_packets_never_ends() {
    aggregator(
        given::reflected(),
        AggregatorMutation::AnswerAllDirections,
        rules::DIRECTION,
    );
}

#[test]
fn slot_2_dropping_results_deadlocks_after_a_restart() {
    aggregator(restart(2), AggregatorMutation::DropResults, rules::TERMINATION);
}

#[test]
fn slot_3_and_4_merging_duplicates_counts_twice() {
    aggregator(calm(1), AggregatorMutation::MergeDuplicates, rules::EXACT);
}

#[test]
fn slot_4_without_wants_a_restart_deadlocks() {
    aggregator(restart(2), AggregatorMutation::NeverWant, rules::TERMINATION);
}

#[test]
fn slot_4_a_single_want_can_be_lost() {
    aggregator(restart(2), AggregatorMutation::WantOnce, rules::TERMINATION);
}

#[test]
fn slot_4_a_want_to_the_sender_alone_finds_nobody_who_has_it() {
    aggregator(restart(2), AggregatorMutation::WantToSender, rules::TERMINATION);
}

#[test]
fn slot_4_resends_without_the_flag_bring_no_want() {
    worker(restart(2), WorkerMutation::UnmarkedResends, rules::TERMINATION);
}

#[test]
fn slot_7_completing_early_leaves_members_out() {
    aggregator(calm(1), AggregatorMutation::CompleteEarly, rules::EXACT);
}

#[test]
fn valid_6_and_epoch_3_silence_on_old_epochs_deadlocks_after_a_restart() {
    aggregator(restart(1), AggregatorMutation::DropOldEpoch, rules::TERMINATION);
}

#[test]
fn epoch_3_workers_that_do_not_follow_refusals_deadlock_after_a_restart() {
    worker(restart(1), WorkerMutation::IgnoreRefusals, rules::TERMINATION);
}

#[test]
fn op_4_without_comparing_operations_ranks_that_disagree_get_sums() {
    let scenario = Scenario {
        disagrees: Some(vec![Step::i32(2)]),
        ..calm(1)
    };
    let mutation = Mutation::Aggregator(AggregatorMutation::IgnoreOperation);
    let report = explore(scenario.breaking(mutation));
    assert!(!report.violations.is_empty(), "{report}");
}

#[test]
fn num_3_the_exponent_of_the_last_arrival_is_not_the_largest() {
    let scenario = Scenario::new("floats", 2, 1, vec![Step::f32(1)]);
    aggregator(scenario, AggregatorMutation::NextOfLast, rules::AGREEMENT);
}

#[test]
fn num_5_resends_with_other_bits_make_other_results() {
    worker(calm(1), WorkerMutation::ChangeBits, rules::AGREEMENT);
}

#[test]
fn want_1_workers_that_forget_results_deadlock_after_a_restart() {
    worker(restart(2), WorkerMutation::ForgetResults, rules::TERMINATION);
}

#[test]
fn keep_1_the_last_results_received_are_not_those_of_each_slot() {
    let scenario = Scenario::new("restart", 2, 2, vec![Step::i32(4)]).with(Trouble::Restart);
    worker(scenario, WorkerMutation::KeepLastReceived, rules::TERMINATION);
}

#[test]
fn keep_1_workers_deaf_between_operations_deadlock_after_a_restart() {
    worker(
        restart(1),
        WorkerMutation::DeafBetweenOperations,
        rules::TERMINATION,
    );
}

#[test]
fn resend_1_without_resends_a_loss_is_for_ever() {
    worker(calm(1), WorkerMutation::NeverResend, rules::TERMINATION);
}

#[test]
fn result_1_results_of_another_round_are_taken_for_this_one() {
    worker(calm(2), WorkerMutation::TakeAnyRound, rules::EXACT);
}

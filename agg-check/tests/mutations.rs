//! The checker can fail: with a rule broken it finds a history in which something goes wrong, and says what.

use agg_check::configurations as given;
use agg_check::{
    AggregatorMutation, Mutation, Scenario, SpillMutation, Step, Topology, Trouble, WorkerMutation, explore,
    refute, rules,
};

fn aggregator(scenario: Scenario, mutation: AggregatorMutation, rule: &'static str) {
    refute(scenario.breaking(Mutation::Aggregator(mutation)), rule).assert_violates(rule);
}

fn worker(scenario: Scenario, mutation: WorkerMutation, rule: &'static str) {
    refute(scenario.breaking(Mutation::Worker(mutation)), rule).assert_violates(rule);
}

/// Two chunks through one slot with one frame besides that of results.
fn spill(members: usize, mutation: SpillMutation, rule: &'static str) {
    let scenario = Scenario::new("spill", members, 1, vec![Step::i32(2)]).spilling(2);
    refute(scenario.breaking(Mutation::Spill(mutation)), rule).assert_violates(rule);
}

/// One chunk after another through one slot.
fn calm(chunks: usize) -> Scenario {
    Scenario::new("calm", 2, 1, vec![Step::i32(chunks)])
}

fn restart(chunks: usize) -> Scenario {
    calm(chunks).with(Trouble::Restart)
}

/// A leaf with one worker and one with two: what one says twice, and what is only at the other.
fn leaves(chunks: usize) -> Scenario {
    Scenario::new("leaves", 3, 1, vec![Step::i32(chunks)]).over(Topology::tree(&[], &[&[0, 1], &[2]]))
}

fn re_formed(chunks: usize) -> Scenario {
    leaves(chunks).with(Trouble::Reform)
}

fn deaths(members: usize) -> Scenario {
    given::short_operations(members).with(Trouble::Shrink(0))
}

fn quorum(blocks: usize) -> Scenario {
    given::quorum(blocks, 0, 2)
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
        Scenario::new("min", 2, 1, vec![Step::min(2)]),
        given::disagreement(),
    ] {
        explore(scenario.breaking(faithful)).assert_holds();
    }
    explore(calm(2).with(Trouble::FailOver).breaking(faithful)).assert_holds();
    for scenario in [
        leaves(2),
        leaves(2).with(Trouble::Reform),
        given::floats_over_leaves(),
        given::disagreement_over_leaves(),
        deaths(3),
        quorum(2),
        quorum(2).with(Trouble::Exclude(2)),
    ] {
        explore(scenario.breaking(faithful)).assert_holds();
    }
}

#[test]
fn op_6_adding_where_the_smallest_is_asked_for_is_no_smallest() {
    aggregator(
        Scenario::new("min", 2, 1, vec![Step::min(1)]),
        AggregatorMutation::AlwaysAdd,
        rules::EXACT,
    );
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
fn num_11_a_sum_of_clamped_values_is_no_sum() {
    worker(
        given::repeated_floats(),
        WorkerMutation::TakeClamped,
        rules::EXACT,
    );
}

#[test]
fn num_11_workers_that_judge_a_prediction_alone_part_ways() {
    worker(
        given::repeated_floats(),
        WorkerMutation::JudgeAlone,
        rules::TERMINATION,
    );
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

#[test]
fn leaf_1_going_up_early_leaves_members_out() {
    aggregator(leaves(1), AggregatorMutation::ForwardEarly, rules::EXACT);
}

#[test]
fn leaf_2_a_full_leaf_that_merges_counts_twice() {
    aggregator(leaves(1), AggregatorMutation::MergeWhenFull, rules::EXACT);
}

#[test]
fn leaf_2_going_up_once_can_be_lost() {
    aggregator(leaves(1), AggregatorMutation::ForwardOnce, rules::TERMINATION);
}

#[test]
fn leaf_3_without_the_parents_results_nobody_gets_one() {
    aggregator(
        leaves(1),
        AggregatorMutation::DropParentResults,
        rules::TERMINATION,
    );
}

#[test]
fn leaf_3_answering_the_parents_results_never_ends() {
    aggregator(leaves(1), AggregatorMutation::AnswerParent, rules::TERMINATION);
}

#[test]
fn leaf_4_wants_that_are_not_passed_on_find_nobody_who_has_it() {
    aggregator(re_formed(2), AggregatorMutation::KeepWants, rules::TERMINATION);
}

#[test]
fn leaf_4_a_result_that_a_leaf_keeps_is_lost_to_the_others() {
    aggregator(re_formed(2), AggregatorMutation::KeepResults, rules::TERMINATION);
}

#[test]
fn leaf_5_ranks_of_other_leaves_that_disagree_are_not_told() {
    aggregator(
        given::disagreement_over_leaves(),
        AggregatorMutation::KeepRefusals,
        rules::TERMINATION,
    );
}

#[test]
fn quorum_1_a_smaller_quorum_is_not_what_was_agreed() {
    aggregator(quorum(1), AggregatorMutation::SmallQuorum, rules::QUORUM);
}

#[test]
fn quorum_1_integers_wait_for_all() {
    let scenario = Scenario::new("integers", 3, 1, vec![Step::i32(1)]).quorum(2, 0, 2);
    aggregator(scenario, AggregatorMutation::QuorumForAll, rules::EXACT);
}

#[test]
fn quorum_2_nobody_is_past_the_round_that_it_contributes_to() {
    aggregator(quorum(2), AggregatorMutation::PastOwnRound, rules::TERMINATION);
}

#[test]
fn quorum_2_stale_contributions_prove_nothing_of_later_rounds() {
    aggregator(quorum(3), AggregatorMutation::PastLaterRounds, rules::TERMINATION);
}

#[test]
fn quorum_3_recycling_at_once_loses_results_that_are_needed() {
    aggregator(
        quorum(2),
        AggregatorMutation::RecycleWithoutPast,
        rules::TERMINATION,
    );
}

#[test]
fn quorum_4_counting_who_comes_late_changes_replays() {
    aggregator(quorum(1), AggregatorMutation::CountLate, rules::AGREEMENT);
}

#[test]
fn quorum_5_waiting_for_who_was_removed_never_ends() {
    let scenario = quorum(2).with(Trouble::Exclude(2));
    aggregator(scenario, AggregatorMutation::ExpectRemoved, rules::TERMINATION);
}

#[test]
fn reform_1_a_worker_that_goes_on_after_it_said_how_far_it_is() {
    worker(deaths(3), WorkerMutation::GoOnWhenRegistered, rules::BOUNDARY);
}

#[test]
fn reform_1_and_op_7_numbers_that_went_ahead_are_used_again() {
    let scenario = given::announced_after_integer(3).with(Trouble::Shrink(0));
    worker(scenario, WorkerMutation::HideAhead, rules::NO_FAILURE);
}

#[test]
fn reform_2_a_worker_that_keeps_its_number_is_not_heard() {
    worker(
        given::renumbered(calm(1)),
        WorkerMutation::KeepNumber,
        rules::TERMINATION,
    );
}

#[test]
fn reform_3_one_operation_too_late() {
    worker(deaths(3), WorkerMutation::BoundaryTooLate, rules::BOUNDARY);
}

#[test]
fn reform_3_one_operation_too_early() {
    worker(deaths(3), WorkerMutation::BoundaryTooEarly, rules::BOUNDARY);
}

#[test]
fn reform_3_survivors_that_count_from_different_chunks_never_meet() {
    worker(deaths(3), WorkerMutation::NextChunkOff, rules::TERMINATION);
}

#[test]
fn spill_1_who_finds_no_frame_and_asks_nobody_waits_for_ever() {
    spill(2, SpillMutation::AskNobody, rules::TERMINATION);
}

#[test]
fn spill_2_a_confirmation_of_another_set_loses_what_was_added() {
    for members in [2, 3] {
        spill(members, SpillMutation::IgnoreSet, rules::EXACT);
    }
}

#[test]
fn spill_3_what_comes_back_counts_once() {
    spill(2, SpillMutation::AddTwice, rules::EXACT);
}

#[test]
fn spill_4_a_set_whose_values_are_lost_waits_for_ever() {
    spill(2, SpillMutation::KeepWhenLost, rules::TERMINATION);
}

//! Trees of aggregators, jobs that are re-formed or lose a worker, and jobs under a quorum: every history of each
//! configuration keeps every rule.

mod common;

use agg_check::configurations::{self as given, troubled};
use agg_check::member::{ANNOUNCED, MISPREDICTED, PREDICTED};
use agg_check::{Scenario, Trouble, explore};
use agg_core::Counter;

fn check(scenario: Scenario, reached: &[Counter]) {
    let report = explore(scenario);
    println!("{report}");
    report.assert_holds().assert_counted(reached);
}

const LEAF: [Counter; 6] = [
    Counter::Merged,
    Counter::Forwarded,
    Counter::ForwardedAgain,
    Counter::ResultsTaken,
    Counter::Replayed,
    Counter::Wanted,
];

/// After a re-forming results come back from members, also through leaves.
const RESTORED: [Counter; 3] = [
    Counter::Restored,
    Counter::ResultsForwarded,
    Counter::RefusedEpoch,
];

#[test]
fn two_levels() {
    for scenario in [
        given::two_leaves(),
        given::floats_over_leaves(),
        given::two_small_leaves(3),
    ] {
        check(scenario, &LEAF);
    }
}

#[test]
#[ignore = "minutes"]
fn two_levels_two_slots() {
    check(given::two_small_leaves(4), &LEAF);
    check(troubled(given::two_small_leaves(3), Trouble::Reform), &LEAF);
}

#[test]
fn a_worker_beside_a_leaf() {
    check(given::beside_a_leaf(), &LEAF);
    check(given::beside_a_small_leaf(), &LEAF);
}

#[test]
fn ranks_of_different_leaves_that_disagree_are_all_told() {
    check(given::disagreement_over_leaves(), &[Counter::RefusedOperation]);
}

#[test]
fn workers_get_other_numbers() {
    for scenario in [given::one_slot(), given::three_workers(), given::two_slots()] {
        check(
            given::renumbered(scenario),
            &[Counter::Restored, Counter::DroppedSource],
        );
    }
}

#[test]
fn a_tree_starts_again() {
    for scenario in [
        given::two_leaves(),
        given::floats_over_leaves(),
        given::two_small_leaves(2),
    ] {
        let reached = [&LEAF[..], &RESTORED].concat();
        check(troubled(scenario, Trouble::Reform), &reached);
    }
}

#[test]
fn a_leaf_is_lost() {
    for scenario in [
        given::to_the_root(given::two_leaves()),
        given::to_the_other_leaf(given::two_leaves()),
    ] {
        check(scenario, &[&LEAF[..], &RESTORED].concat());
    }
}

/// The second of these found that rounds must be skipped in pairs.
#[test]
fn a_worker_dies() {
    for scenario in [
        given::short_operations(3),
        given::short_operations_two_slots(3),
        given::short_operations(4),
    ] {
        for worker in [0, scenario.members - 1] {
            let scenario = troubled(scenario.clone(), Trouble::Shrink(worker));
            check(scenario, &[Counter::Restored, Counter::Completed]);
        }
    }
}

/// Who survives predicts alike, whatever it had of the operation that ended: a prediction that one had seen fail, too.
#[test]
fn num_11_a_worker_dies() {
    for worker in [0, 2] {
        let scenario = troubled(given::repeated_floats_of(3), Trouble::Shrink(worker));
        let report = explore(scenario);
        println!("{report}");
        report.assert_holds().assert_counted(&[Counter::Restored]);
        report.assert_reached(PREDICTED).assert_reached(MISPREDICTED);
    }
}

/// What went ahead of operations that end, or end others, is given up with them.
#[test]
fn op_7_a_worker_dies() {
    check_announced_death(0);
}

#[test]
#[ignore = "minutes"]
fn op_7_the_last_worker_dies() {
    check_announced_death(2);
}

fn check_announced_death(worker: usize) {
    let report = explore(troubled(
        given::announced_after_integer(3),
        Trouble::Shrink(worker),
    ));
    println!("{report}");
    report.assert_holds().assert_reached(ANNOUNCED);
}

#[test]
fn num_11_two_levels() {
    let scenario = given::repeated_floats_over_leaves();
    for (scenario, reached) in [
        (scenario.clone(), &LEAF[..]),
        (troubled(scenario, Trouble::Reform), &RESTORED),
    ] {
        let report = explore(scenario);
        println!("{report}");
        report.assert_holds().assert_counted(reached);
        report.assert_reached(PREDICTED).assert_reached(MISPREDICTED);
    }
}

#[test]
fn a_worker_at_a_leaf_dies() {
    check(given::death_at_a_leaf(), &[&LEAF[..], &RESTORED[..2]].concat());
}

#[test]
fn two_of_three() {
    for (blocks, grace, generations) in [(1, 0, 2), (2, 1, 2), (3, 0, 2), (3, 0, 4)] {
        let scenario = given::quorum(blocks, grace, generations);
        let mut reached = vec![Counter::Completed, Counter::Replayed];
        // Two rounds fill no history, nor do four one of four.
        reached.extend((blocks > 1 && generations == 2).then_some(Counter::HeldBack));
        check(scenario.clone(), &reached);
        check(troubled(scenario, Trouble::Exclude(2)), &reached);
    }
}

#[test]
fn two_of_three_and_an_operation_that_waits_for_all() {
    for generations in [2, 4] {
        check(
            given::quorum_and_barrier(generations),
            &[Counter::Wanted, Counter::Completed],
        );
    }
    check(
        troubled(given::quorum_and_barrier(2), Trouble::Exclude(2)),
        &[Counter::Completed],
    );
}

#[test]
#[ignore = "minutes"]
fn two_of_three_whose_results_come_before_they_send() {
    check(given::quorum_batched(), &[Counter::Completed]);
}

/// What [`agg_check::dead`] takes out of the network changes no reachable combination of the parties' states.
#[test]
fn forgetting_dead_packets_loses_nothing_here_either() {
    let step = |blocks| vec![agg_check::Step::i32(blocks)];
    let small_tree = |blocks| {
        Scenario::new("small tree", 2, 1, step(blocks)).over(agg_check::Topology::tree(&[1], &[&[0]]))
    };
    for scenario in [
        small_tree(2),
        small_tree(1).with(Trouble::Reform),
        Scenario::new("two die to one", 2, 1, vec![agg_check::Step::i32(1); 2]).with(Trouble::Shrink(1)),
        given::quorum(1, 0, 2),
    ] {
        common::assert_forgetting_loses_nothing(scenario);
    }
}

//! Every history of each configuration keeps every rule. The large ones are run by
//! `cargo test --release -p agg-check -- --ignored`.

mod common;

use agg_check::configurations::{self as given, troubled};
use agg_check::member::{ANNOUNCED, MISPREDICTED, PREDICTED};
use agg_check::{Report, Scenario, Trouble, explore};
use agg_core::Counter;

const TROUBLES: [Trouble; 3] = [Trouble::None, Trouble::Restart, Trouble::FailOver];

/// What a scenario must reach to be worth its name.
fn reached(trouble: Trouble) -> Vec<Counter> {
    let always = vec![
        Counter::Merged,
        Counter::Completed,
        Counter::Replayed,
        Counter::Wanted,
        Counter::Duplicate,
    ];
    match trouble {
        Trouble::Restart | Trouble::FailOver => {
            [always, vec![Counter::Restored, Counter::RefusedEpoch]].concat()
        }
        _ => always,
    }
}

fn check(scenario: Scenario, trouble: Trouble) -> Report {
    let report = explore(troubled(scenario, trouble));
    println!("{report}");
    report.assert_holds().assert_counted(&reached(trouble));
    report
}

#[test]
fn one_slot() {
    for trouble in TROUBLES {
        check(given::one_slot(), trouble).assert_counted(&[Counter::DroppedStale]);
    }
}

#[test]
fn two_slots() {
    for trouble in [Trouble::None, Trouble::Restart] {
        check(given::two_slots(), trouble).assert_counted(&[Counter::DroppedStale]);
    }
}

#[test]
fn two_slots_and_a_fail_over() {
    check(given::two_slots(), Trouble::FailOver).assert_counted(&[Counter::DroppedStale]);
}

#[test]
fn three_workers() {
    for trouble in TROUBLES {
        check(given::three_workers(), trouble).assert_counted(&[Counter::DroppedStale]);
    }
}

#[test]
fn three_workers_two_slots() {
    for trouble in [Trouble::None, Trouble::Restart] {
        check(given::three_workers_two_slots(), trouble);
    }
}

#[test]
fn floats_then_integers() {
    for trouble in [Trouble::None, Trouble::Restart] {
        check(given::floats_then_integers(), trouble);
    }
}

#[test]
#[ignore = "minutes"]
fn floats_then_integers_and_a_fail_over() {
    check(given::floats_then_integers(), Trouble::FailOver);
}

#[test]
fn short_floats() {
    for trouble in [Trouble::None, Trouble::Restart] {
        check(given::short_floats(), trouble);
    }
}

#[test]
#[ignore = "minutes"]
fn short_floats_and_a_fail_over() {
    check(given::short_floats(), Trouble::FailOver);
}

#[test]
fn num_11_repeated_floats() {
    for trouble in TROUBLES {
        let report = check(given::repeated_floats(), trouble);
        report.assert_reached(PREDICTED).assert_reached(MISPREDICTED);
    }
}

#[test]
fn num_11_mispredicted_floats() {
    for trouble in [Trouble::None, Trouble::Restart] {
        check(given::mispredicted_floats(), trouble).assert_reached(MISPREDICTED);
    }
}

#[test]
fn num_11_predicted_floats() {
    for trouble in [Trouble::None, Trouble::Restart] {
        check(given::predicted_floats(), trouble).assert_reached(PREDICTED);
    }
}

#[test]
fn op_7_announced_floats() {
    for trouble in TROUBLES {
        check(given::announced_floats(), trouble).assert_reached(ANNOUNCED);
    }
}

#[test]
fn op_7_announced_floats_two_slots() {
    check(given::announced_floats_two_slots(), Trouble::None).assert_reached(ANNOUNCED);
    for trouble in [Trouble::None, Trouble::Restart] {
        check(given::announced_after_integers(), trouble).assert_reached(ANNOUNCED);
    }
}

#[test]
#[ignore = "minutes"]
fn op_7_announced_floats_two_slots_and_a_restart() {
    check(given::announced_floats_two_slots(), Trouble::Restart).assert_reached(ANNOUNCED);
}

#[test]
fn op_7_ranks_that_disagree_on_what_is_announced_are_all_told() {
    let report = explore(given::announced_disagreement());
    println!("{report}");
    report.assert_holds().assert_counted(&[Counter::RefusedOperation]);
    report.assert_reached(ANNOUNCED);
}

#[test]
fn many_operations() {
    for trouble in TROUBLES {
        check(given::many_operations(), trouble);
    }
}

#[test]
fn the_smallest() {
    for trouble in [Trouble::None, Trouble::Restart] {
        check(given::smallest(), trouble);
    }
}

#[test]
fn wrap_around() {
    for trouble in [Trouble::None, Trouble::Restart] {
        check(given::wrap_around(), trouble).assert_counted(&[Counter::DroppedStale]);
    }
}

#[test]
#[ignore = "minutes"]
fn wrap_around_and_a_fail_over() {
    check(given::wrap_around(), Trouble::FailOver);
}

#[test]
fn ranks_that_disagree_are_all_told() {
    let report = explore(given::disagreement());
    report.assert_holds().assert_counted(&[Counter::RefusedOperation]);
}

#[test]
fn what_an_aggregator_sent_is_dropped_by_aggregators() {
    explore(given::reflected())
        .assert_holds()
        .assert_counted(&[Counter::DroppedSource]);
}

#[test]
fn hosts_may_take_several_packets_before_they_send() {
    for scenario in [given::batched(), given::batched_slots()] {
        check(scenario, Trouble::None);
    }
    check(given::batched(), Trouble::Restart);
}

/// What [`agg_check::dead`] takes out of the network changes no reachable combination of the parties' states.
#[test]
fn forgetting_dead_packets_loses_nothing() {
    for (scenario, trouble) in [
        (given::one_slot(), Trouble::None),
        (given::one_slot(), Trouble::Restart),
        (given::many_operations(), Trouble::None),
        (
            Scenario::new("3 workers, 2 rounds", 3, 1, vec![agg_check::Step::i32(2)]),
            Trouble::None,
        ),
        (
            Scenario::new("2 workers, 2 rounds", 2, 1, vec![agg_check::Step::i32(2)]),
            Trouble::FailOver,
        ),
    ] {
        let scenario = troubled(scenario, trouble);
        common::assert_forgetting_loses_nothing(scenario);
    }
}

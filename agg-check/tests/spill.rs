//! Jobs with less near memory than their window, and a store that answers late, twice or never and is lost again and again
//! (R-SPILL): every history of each configuration keeps every rule.

use agg_check::configurations::{self as given, troubled};
use agg_check::{Scenario, Step, Trouble, explore};
use agg_core::Counter;

const STORE: [Counter; 2] = [Counter::Spilled, Counter::Recalled];

/// Where there are more chunks than frames.
const CROWDED: [Counter; 5] = [
    Counter::Spilled,
    Counter::Recalled,
    Counter::Evicted,
    Counter::Restored,
    Counter::DroppedMemory,
];

/// This found sums that nobody needs, partly in the store, that held their frames for ever; and stale packets that changed how
/// many sums were believed to wait.
#[test]
fn one_frame_and_a_store() {
    for scenario in given::stores() {
        let one_chunk = scenario.chunks() == 1;
        let report = explore(scenario);
        println!("{report}");
        report
            .assert_holds()
            .assert_counted(if one_chunk { &STORE } else { &CROWDED });
    }
}

#[test]
#[ignore = "minutes"]
fn one_frame_and_a_restart() {
    let scenario = troubled(given::spilling(given::one_slot(), 2), Trouble::Restart);
    let report = explore(scenario);
    println!("{report}");
    report.assert_holds().assert_counted(&CROWDED);
}

/// What [`agg_check::dead`] takes out of the network changes no reachable combination of the parties' states.
#[test]
fn forgetting_dead_packets_loses_nothing_where_there_is_a_store() {
    let scenario = Scenario::new("2 workers, f32 (1)", 2, 1, vec![Step::f32(1)]).spilling(2);
    let forgetting = explore(scenario.clone());
    let remembering = explore(Scenario {
        remembers_dead: true,
        ..scenario
    });
    remembering.assert_holds();
    assert_eq!(forgetting.schedules, remembering.schedules);
    assert_eq!(forgetting.parties[..2], remembering.parties[..2]);
}

//! What several tests of the model checker ask.

use agg_check::{Scenario, explore};

/// That dead packets are forgotten makes states fewer, and changes nothing else.
pub fn assert_forgetting_loses_nothing(scenario: Scenario) {
    let forgetting = explore(scenario.clone());
    let remembering = explore(Scenario {
        remembers_dead: true,
        ..scenario
    });
    remembering.assert_holds();
    assert!(
        forgetting.states < remembering.states,
        "{forgetting}{remembering}"
    );
    assert_eq!(
        forgetting.schedules, remembering.schedules,
        "{forgetting}{remembering}"
    );
    assert_eq!(
        forgetting.parties[..2],
        remembering.parties[..2],
        "{forgetting}{remembering}"
    );
}

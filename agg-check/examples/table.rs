//! Explores every configuration and prints the table of `docs/verification.md`; with arguments only those whose names
//! contain one of them: `cargo run --release -p agg-check --example table -- restart`.

use agg_check::configurations::{self as given, troubled};
use agg_check::{Scenario, Trouble, explore};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "| configuration | states | transitions | depth | member states | aggregator states | packets | joint states | alarms | time |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for scenario in scenarios() {
        if wanted.is_empty() || wanted.iter().any(|word| scenario.name.contains(word.as_str())) {
            println!("{}", explore(scenario).assert_holds().row());
        }
    }
}

fn scenarios() -> Vec<Scenario> {
    let plain = [
        given::one_slot,
        given::two_slots,
        given::three_workers,
        given::three_workers_two_slots,
        given::floats_then_integers,
        given::short_floats,
        given::repeated_floats,
        given::mispredicted_floats,
        given::predicted_floats,
        given::announced_floats,
        given::many_operations,
        given::smallest,
        given::wrap_around,
    ];
    let mut scenarios = Vec::new();
    for trouble in [Trouble::None, Trouble::Restart, Trouble::FailOver] {
        // Left out: three workers with two slots and a fail-over, which take more memory than a test should.
        let fits =
            |scenario: &Scenario| trouble != Trouble::FailOver || scenario.members < 3 || scenario.window < 2;
        let scenarios_of = plain.iter().map(|scenario| scenario()).filter(fits);
        scenarios.extend(scenarios_of.map(|scenario| troubled(scenario, trouble)));
    }
    scenarios.extend([
        given::disagreement(),
        given::announced_disagreement(),
        given::reflected(),
        given::batched(),
        given::batched_slots(),
    ]);
    scenarios.push(troubled(given::batched(), Trouble::Restart));
    for trouble in [Trouble::None, Trouble::Restart] {
        scenarios.extend(
            [
                given::announced_floats_two_slots(),
                given::announced_after_integers(),
            ]
            .map(|scenario| troubled(scenario, trouble)),
        );
    }
    scenarios.extend(levels());
    scenarios.extend(deaths());
    scenarios.extend(quorums());
    scenarios.extend(given::stores());
    scenarios.push(troubled(given::spilling(given::one_slot(), 2), Trouble::Restart));
    scenarios
}

/// Two levels of aggregators, and jobs that are re-formed.
fn levels() -> Vec<Scenario> {
    vec![
        given::two_leaves(),
        given::two_small_leaves(3),
        given::two_small_leaves(4),
        given::floats_over_leaves(),
        given::repeated_floats_over_leaves(),
        given::beside_a_leaf(),
        given::beside_a_small_leaf(),
        given::disagreement_over_leaves(),
        given::renumbered(given::one_slot()),
        given::renumbered(given::three_workers()),
        given::renumbered(given::two_slots()),
        troubled(given::two_leaves(), Trouble::Reform),
        troubled(given::two_small_leaves(2), Trouble::Reform),
        troubled(given::two_small_leaves(3), Trouble::Reform),
        troubled(given::floats_over_leaves(), Trouble::Reform),
        troubled(given::repeated_floats_over_leaves(), Trouble::Reform),
        given::to_the_root(given::two_leaves()),
        given::to_the_other_leaf(given::two_leaves()),
    ]
}

/// Jobs that lose a worker.
fn deaths() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for worker in [0, 2] {
        for scenario in [given::short_operations(3), given::short_operations_two_slots(3)] {
            scenarios.push(troubled(scenario, Trouble::Shrink(worker)));
        }
        scenarios.push(troubled(given::repeated_floats_of(3), Trouble::Shrink(worker)));
    }
    scenarios.push(troubled(given::short_operations(4), Trouble::Shrink(0)));
    scenarios.push(troubled(given::announced_after_integer(3), Trouble::Shrink(0)));
    scenarios.push(given::death_at_a_leaf());
    scenarios
}

/// Jobs under a quorum.
fn quorums() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for (blocks, grace, generations) in [(1, 0, 2), (2, 0, 2), (2, 1, 2), (3, 0, 2), (3, 0, 4)] {
        scenarios.push(given::quorum(blocks, grace, generations));
        scenarios.push(troubled(
            given::quorum(blocks, grace, generations),
            Trouble::Exclude(2),
        ));
    }
    scenarios.extend([2, 4].map(given::quorum_and_barrier));
    scenarios.push(troubled(given::quorum_and_barrier(2), Trouble::Exclude(2)));
    scenarios.extend([given::quorum_two_slots(1), given::quorum_batched()]);
    scenarios
}

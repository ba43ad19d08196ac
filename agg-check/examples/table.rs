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
        given::many_operations,
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
        given::reflected(),
        given::batched(),
        given::batched_slots(),
    ]);
    scenarios.push(troubled(given::batched(), Trouble::Restart));
    scenarios
}

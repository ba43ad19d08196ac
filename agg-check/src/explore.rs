//! Runs the checker on a scenario and says what it found.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::model::TributaryModel;
use crate::scenario::Scenario;

/// What an exploration found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario's name.
    pub name: String,
    /// Distinct states.
    pub states: usize,
    /// Transitions between them.
    pub transitions: usize,
    /// Steps of the longest of the shortest ways to a state.
    pub depth: usize,
    /// Distinct states of members and aggregators, and distinct packets.
    pub parties: [usize; 3],
    /// Distinct fair schedules that ran to their end.
    pub schedules: usize,
    /// How often timers fired in the longest of them.
    pub alarms: usize,
    /// In how many distinct steps members and aggregators counted what.
    pub counted: BTreeMap<&'static str, usize>,
    /// Which rules can be violated, and the shortest way to it.
    pub violations: BTreeMap<&'static str, Vec<String>>,
    /// How long it took.
    pub time: Duration,
}

/// Explores all states of a scenario; ends early where a rule is violated.
pub fn explore(scenario: Scenario) -> Report {
    run(scenario, HasDiscoveries::AnyFailures)
}

/// Explores a scenario until this rule is violated, whatever else is before.
pub fn refute(scenario: Scenario, rule: &'static str) -> Report {
    run(scenario, HasDiscoveries::AnyOf([rule].into()))
}

fn run(scenario: Scenario, until: HasDiscoveries) -> Report {
    let begun = Instant::now();
    let name = scenario.name.clone();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = TributaryModel::new(scenario).checker().threads(threads);
    let checker = checker.finish_when(until).spawn_bfs().join();
    let model = checker.model();
    let violations = checker.discoveries().into_iter().map(|(rule, path)| {
        let actions = path.into_actions();
        (
            rule,
            actions.iter().map(|action| model.format_action(action)).collect(),
        )
    });
    let violations: BTreeMap<_, _> = violations.collect();
    if violations.is_empty() {
        model.world().verify_classes();
        if model.world().scenario.forgets_dead() {
            model.world().verify_dead();
        }
    }
    let (schedules, alarms) = model.schedules();
    Report {
        name,
        states: checker.unique_state_count(),
        transitions: checker.state_count(),
        depth: checker.max_depth(),
        parties: model.world().sizes(),
        schedules,
        alarms,
        counted: model.world().counted(),
        violations,
        time: begun.elapsed(),
    }
}

impl Report {
    /// Panics, with the shortest counter-example, where a rule is violated.
    pub fn assert_holds(&self) -> &Self {
        assert!(self.violations.is_empty(), "{self}");
        self
    }

    /// Panics unless a rule is violated.
    pub fn assert_violates(&self, rule: &str) -> &Self {
        assert!(self.violations.contains_key(rule), "not violated: {rule}\n{self}");
        self
    }

    /// Panics unless aggregators did all of this: a scenario that does not reach a rule does not check it.
    pub fn assert_counted(&self, counters: &[agg_core::Counter]) -> &Self {
        for counter in counters {
            self.assert_reached(counter.name());
        }
        self
    }

    /// The same of what members or aggregators count by this name.
    pub fn assert_reached(&self, name: &str) -> &Self {
        assert!(self.counted.contains_key(name), "never: {name}\n{self}");
        self
    }

    /// A row of a table in Markdown: name, states, transitions, depth, parties and packets, schedules, alarms, time.
    pub fn row(&self) -> String {
        let [members, nodes, packets] = self.parties;
        format!(
            "| {} | {} | {} | {} | {members} | {nodes} | {packets} | {} | {} | {:.1} s |",
            self.name,
            self.states,
            self.transitions,
            self.depth,
            self.schedules,
            self.alarms,
            self.time.as_secs_f64()
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{:?}", self.row(), self.counted)?;
        for (rule, path) in &self.violations {
            writeln!(f, "violated: {rule}")?;
            for (number, action) in path.iter().enumerate() {
                writeln!(f, "{:4}. {action}", number + 1)?;
            }
        }
        Ok(())
    }
}

//! Runs the benchmarks of the core and gives their ratios: `cargo xtask bench`.
//!
//! All benchmarks run several times over, one after the other, so that the two sides of a ratio are measured in the
//! same minute, again and again; of a round's ratios the median counts. That is what a busy machine needs.

mod goals;
mod machine;
mod page;
mod results;
mod tables;

use std::fs;
use std::path::Path;
use std::time::Duration;

use results::Results;

use crate::needs::DPDK;
use crate::step::{Step, cargo};

/// Where criterion writes what it measures.
const MEASURED: &str = "target/criterion";

/// How much to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Everything, in so many rounds, into the page.
    Full,
    /// What has a goal, as hosts run it; the page stays as it is.
    Quick,
}

impl Effort {
    /// How long all of it may take, with building.
    pub(crate) const fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Full => 60 * 60,
            Self::Quick => 25 * 60,
        })
    }

    fn rounds(self) -> usize {
        match self {
            Self::Full => 5,
            Self::Quick => 3,
        }
    }

    /// Which benchmarks: a regular expression over their names.
    fn filter(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::Quick => Some("/352/(dispatched/|copy|there)"),
        }
    }
}

/// As one of the tests: that all benchmarks run. A goal that is missed is told and is no failure, for a test machine
/// does other things as well.
pub(crate) fn smoke(step: &mut Step) {
    run(step, Effort::Quick);
    // Where it cannot be had, that is told with the tests.
    if DPDK.is_met() {
        step.check(cargo("bench --package dpdk-host --bench ring -- --quick"));
        step.check(cargo("bench --package dpdk-host --bench memif -- --quick"));
    }
}

/// Measures, prints the tables and, after a full run, writes them into the page.
pub(crate) fn run(step: &mut Step, effort: Effort) {
    let Some(results) = measure(step, effort) else {
        return;
    };
    let goals = goals::all(&results);
    let tables = match effort {
        Effort::Full => tables::all(&results),
        Effort::Quick => String::new(),
    };
    let text = format!(
        "{}\n{}{tables}",
        machine::describe(effort.rounds()),
        goals::table(&goals)
    );
    println!("{text}");
    goals
        .iter()
        .filter(|goal| !goal.is_met())
        .for_each(|goal| step.note(format!("goal missed: {goal}")));
    if effort == Effort::Full {
        match page::write(&text) {
            Ok(()) => step.pass(),
            Err(error) => step.fail(format!("cannot write the tables into {}: {error}", page::PATH)),
        }
    } else {
        step.pass();
    }
}

fn measure(step: &mut Step, effort: Effort) -> Option<Results> {
    let Ok(root) = std::env::current_dir() else {
        step.fail("the workspace's folder has gone");
        return None;
    };
    // What older versions of the benchmarks left would be read as well.
    let _ = fs::remove_dir_all(MEASURED);
    let mut results = Results::default();
    for round in 1..=effort.rounds() {
        println!("round {round} of {}", effort.rounds());
        let mut bench = cargo("bench --quiet --package benches --bench * -- --quiet --noplot");
        bench
            .args(effort.filter())
            .env("CRITERION_HOME", root.join(MEASURED));
        let finished = step.read(bench);
        if !finished.is_ok() {
            finished.lines.iter().for_each(|line| println!("{line}"));
            step.fail_by_end("cargo bench --package benches", &finished);
            return None;
        }
        if let Err(error) = results.add_round(Path::new(MEASURED)) {
            step.fail(format!(
                "cannot read what criterion measured in {MEASURED}: {error}"
            ));
            return None;
        }
    }
    Some(results)
}

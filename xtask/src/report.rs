//! Sums up a task: a line for each step, why anything failed or was skipped, and the counts as the last line.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::step::Step;

/// The steps done so far.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

struct Row {
    name: &'static str,
    step: Step,
    elapsed: Duration,
}

impl Report {
    /// Does a step, which has to end within `limit`.
    pub(crate) fn run(&mut self, name: &'static str, limit: Duration, work: impl FnOnce(&mut Step)) {
        println!("\n=== {name}");
        let begin = Instant::now();
        let mut step = Step::new(limit);
        work(&mut step);
        self.rows.push(Row {
            name,
            step,
            elapsed: begin.elapsed(),
        });
    }

    /// Prints the summary; the exit code tells whether anything failed.
    pub(crate) fn finish(self) -> ExitCode {
        println!("\n=== summary");
        for Row { name, step, elapsed } in &self.rows {
            println!("{name:<12} {:>6.1} s   {}", elapsed.as_secs_f64(), numbers(step));
            for note in &step.notes {
                println!("{:<12} {note}", "");
            }
        }
        let sum = |number: fn(&Step) -> u64| self.rows.iter().map(|row| number(&row.step)).sum::<u64>();
        let (passed, failed, skipped) = (sum(|s| s.passed), sum(|s| s.failed), sum(|s| s.skipped));
        let tail = if skipped > 0 {
            format!(", {skipped} skipped")
        } else {
            String::new()
        };
        println!("{passed} passed, {failed} failed{tail}");
        if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn numbers(step: &Step) -> String {
    let numbers = [
        (step.passed, "passed"),
        (step.failed, "failed"),
        (step.skipped, "skipped"),
    ];
    let shown: Vec<String> = numbers
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    match (shown.is_empty(), step.notes.is_empty()) {
        (false, _) => shown.join(", "),
        // Silence must not look like success.
        (true, true) => "no tests".into(),
        (true, false) => "not run".into(),
    }
}

//! One step of a task: it runs programs under one deadline and books what passed, failed or could not be run.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::count;
use crate::process::{self, End, Finished, Output};

/// What a step has found so far.
pub(crate) struct Step {
    deadline: Instant,
    limit: Duration,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Why anything failed or was skipped, a line each; shown again in the summary.
    pub(crate) notes: Vec<String>,
}

impl Step {
    /// A step that has to end within `limit`.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            deadline: Instant::now() + limit,
            limit,
            passed: 0,
            failed: 0,
            skipped: 0,
            notes: Vec::new(),
        }
    }

    /// Books one pass.
    pub(crate) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Books one failure.
    pub(crate) fn fail(&mut self, why: impl Into<String>) {
        self.failed += 1;
        self.notes.push(format!("FAILED {}", why.into()));
    }

    /// Books what could not be run. In CI, where everything can be had, that is a failure.
    pub(crate) fn skip(&mut self, why: impl Into<String>) {
        if in_ci() {
            return self.fail(format!("(skipped, which CI=true forbids) {}", why.into()));
        }
        self.skipped += 1;
        self.notes.push(format!("skipped {}", why.into()));
    }

    /// Tells something that is neither pass nor failure.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Runs a program and shows what it prints. What its end means is the caller's to say.
    pub(crate) fn run(&self, command: Command) -> Finished {
        self.run_as(&describe(&command), command)
    }

    /// The same for a command that is no reading: a name is shown instead.
    pub(crate) fn run_as(&self, name: &str, command: Command) -> Finished {
        println!("$ {name}");
        process::run(command, self.deadline, Output::Streamed)
    }

    /// Runs a program for what it prints, without showing it.
    pub(crate) fn read(&self, command: Command) -> Finished {
        process::run(command, self.deadline, Output::Quiet)
    }

    /// Runs a program that is one check: it passes with status 0.
    pub(crate) fn check(&mut self, command: Command) {
        let name = describe(&command);
        let finished = self.run(command);
        if finished.is_ok() {
            self.pass()
        } else {
            self.fail_by_end(&name, &finished)
        }
    }

    /// Runs a test runner, books its numbers, and returns how many tests it left out as ignored.
    pub(crate) fn tests(&mut self, command: Command) -> u64 {
        let name = describe(&command);
        let finished = self.run(command);
        let counts = count::count(&finished.lines);
        self.passed += counts.passed;
        self.failed += counts.failed;
        self.notes
            .extend(counts.failures.iter().map(|test| format!("FAILED {test}")));
        // A build failure, a crash or the deadline: no test may have been there to be counted.
        if !finished.is_ok() && (counts.failed == 0 || matches!(finished.end, End::Late)) {
            self.fail_by_end(&name, &finished);
        }
        counts.ignored
    }

    /// Books the failure of a program by how it ended.
    pub(crate) fn fail_by_end(&mut self, name: &str, finished: &Finished) {
        let why = match &finished.end {
            End::Exited(status) => format!("`{name}`: {status}; see its output above"),
            End::Late => format!("`{name}`: not done within {} s, ended", self.limit.as_secs()),
            End::NotStarted(error) => format!("`{name}` cannot start: {error}"),
        };
        self.fail(why);
    }
}

/// Whether this is an unattended run.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// A `cargo` command; the words of `line` are its arguments.
pub(crate) fn cargo(line: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(line.split_whitespace());
    forget_xtask(&mut command);
    command
}

/// Takes away what `cargo run` says about xtask. Build scripts of some dependencies look at these names, and would run anew, with
/// all that depends on them, whenever xtask and a hand on a keyboard build by turns.
pub(crate) fn forget_xtask(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
}

/// A command as one would type it.
fn describe(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        // None: it is removed.
        Some(format!(
            "{}='{}'",
            name.to_string_lossy(),
            value?.to_string_lossy()
        ))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    variables
        .chain(words.map(|word| word.to_string_lossy().into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_runner_that_dies_before_any_test_is_a_failure() {
        let mut step = Step::new(Duration::from_secs(10));
        step.tests(shell("exit 101"));
        assert_eq!((step.passed, step.failed), (0, 1));
    }

    #[test]
    fn a_failed_test_is_counted_once() {
        let mut step = Step::new(Duration::from_secs(10));
        step.tests(shell(
            "echo 'test result: FAILED. 4 passed; 1 failed; 2 ignored'; exit 101",
        ));
        assert_eq!((step.passed, step.failed), (4, 1));
    }

    #[test]
    fn a_runner_past_its_deadline_is_a_failure() {
        let mut step = Step::new(Duration::from_millis(200));
        step.check(shell("sleep 60"));
        assert!(
            step.failed == 1 && step.notes[0].contains("not done within"),
            "{:?}",
            step.notes
        );
    }
}

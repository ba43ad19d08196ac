//! The groups that run tests written elsewhere in the workspace.

use std::process::Command;

use testnet::{Link, Net};

use crate::needs::{self, find, workspace};
use crate::step::{Step, cargo};

/// Which tests of a package to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Those that anyone can run.
    Ordinary,
    /// Those marked `#[ignore]`: they need root and the machine for themselves.
    Ignored,
}

/// The second implementation of the aggregator's rules, against docs/vectors; `unit` plays them to the real one.
pub(crate) fn vectors(step: &mut Step) {
    let mut command = Command::new("python3");
    command.arg("docs/vectors/check.py");
    step.check(command);
}

/// All that needs no privileges, but the model checker.
pub(crate) fn unit(step: &mut Step) {
    // The ignored ones are counted where they run: in `end_to_end`.
    let packages = workspace(step);
    step.tests(runner(&all_but(&packages, &["agg-check"]), Which::Ordinary));
    let ignored = step.tests(cargo(&format!("test --doc {packages} --no-fail-fast")));
    for _ in 0..ignored {
        step.skip("an example in the documentation is marked `ignore`; make it `no_run` or `text`");
    }
}

/// The model checker, in release: its large configurations, marked `#[ignore]`, take minutes even so.
pub(crate) fn models(step: &mut Step) {
    step.tests(cargo(
        "test --release --tests --package agg-check --no-fail-fast -- --include-ignored",
    ));
}

/// Packages without some of them. With nextest a filter, not `--exclude`: another choice of packages can mean other
/// features, and a second build.
fn all_but(packages: &str, without: &[&str]) -> String {
    if has_nextest() {
        let without: Vec<String> = without
            .iter()
            .map(|package| format!("package({package})"))
            .collect();
        format!("{packages} -E not({})", without.join("|"))
    } else {
        format!("{packages} --exclude {}", without.join(" --exclude "))
    }
}

/// All that needs root. The command line, the kernel's host and that of DPDK run as users have them, in release; the rest
/// shares `unit`'s build.
pub(crate) fn end_to_end(step: &mut Step) {
    // Root in a container may lack the capabilities. One reason is clearer than each test's failure.
    let probe = Net::new("trib-probe").and_then(|mut net| {
        net.add_host(
            "a",
            Link {
                rate: Some("1gbit".into()),
                ..Link::default()
            },
        )
    });
    if let Err(error) = probe {
        return step.skip(format!("all of it: {error}"));
    }
    let packages = workspace(step);
    let others = all_but(&packages, &["tributary", "bpf-host", "dpdk-host", "agg-check"]);
    step.tests(runner(&others, Which::Ignored));
    step.tests(runner("--release --package tributary", Which::Ignored));
    // These start the command line, too, and cargo builds that for tests of its own package only.
    let build = step.run(cargo("build --release --package tributary"));
    if !build.is_ok() {
        return step.fail_by_end("cargo build --release --package tributary", &build);
    }
    step.tests(runner("--release --package bpf-host", Which::Ignored));
    // Where it cannot be had, that is told already.
    if needs::DPDK.is_met() {
        step.tests(runner("--release --package dpdk-host", Which::Ignored));
    }
}

/// The first command of the README, word for word, ends with status 0.
pub(crate) fn demo(step: &mut Step) {
    let help = step.run(cargo("run --release -- --help"));
    if !help.is_ok() {
        return step.fail_by_end("cargo run --release -- --help", &help);
    }
    if help
        .lines
        .iter()
        .any(|line| line.split_whitespace().next() == Some("demo"))
    {
        step.check(cargo("run --release -- demo"));
    }
}

/// The command that runs tests of `packages` with cargo-nextest, or with cargo alone where that is not installed.
fn runner(packages: &str, which: Which) -> Command {
    let ignored = which == Which::Ignored;
    if has_nextest() {
        let only = if ignored {
            "--run-ignored only --test-threads 1"
        } else {
            ""
        };
        cargo(&format!(
            "nextest run --config-file xtask/nextest.toml {packages} --no-fail-fast --no-tests pass {only}"
        ))
    } else {
        let only = if ignored {
            "-- --ignored --test-threads 1"
        } else {
            ""
        };
        cargo(&format!("test --tests {packages} --no-fail-fast {only}"))
    }
}

fn has_nextest() -> bool {
    find("cargo-nextest").is_some()
}

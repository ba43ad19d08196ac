//! The checks that are no tests: format, lints, licences, advisories and documentation. Each counts as one.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::needs::{CARGO_DENY, find, workspace};
use crate::report::Report;
use crate::step::{Step, cargo};

/// Building what is looked at included, on two cores from nothing.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Fetching the advisories waits for a network that may not be there.
const FETCH_LIMIT: Duration = Duration::from_secs(90);

/// The workspace of the program inside the kernel.
const EBPF: &str = "bpf-host/ebpf/Cargo.toml";

/// The workspaces whose dependencies reach users.
const SHIPPED: &[&str] = &["Cargo.toml", EBPF];

/// Runs them all.
pub(crate) fn run(report: &mut Report) {
    report.run("fmt", LIMIT, fmt);
    report.run("clippy", LIMIT, |step| {
        let packages = workspace(step);
        step.check(cargo(&format!("clippy {packages} --all-targets -- -D warnings")));
        step.check(cargo(
            "clippy --manifest-path embedding/Cargo.toml --target-dir target/embedding/sound -- -D warnings",
        ));
        // Clippy knows no BPF target. On this machine's the program means the same, and is never run.
        step.check(cargo(&format!(
            "clippy --release --manifest-path {EBPF} --target-dir target/ebpf/clippy -- -D warnings"
        )));
    });
    report.run("deny", LIMIT, deny);
    report.run("advisories", FETCH_LIMIT, advisories);
    report.run("doc", LIMIT, |step| {
        let packages = workspace(step);
        let mut doc = cargo(&format!("doc {packages} --no-deps"));
        doc.env("RUSTDOCFLAGS", "-D warnings");
        step.check(doc);
    });
}

fn fmt(step: &mut Step) {
    step.check(cargo("fmt --all --check"));
    // Workspaces of their own.
    for manifest in ["fuzz/Cargo.toml", "embedding/Cargo.toml", EBPF] {
        if Path::new(manifest).exists() {
            step.check(cargo(&format!("fmt --manifest-path {manifest} --check")));
        }
    }
}

fn deny(step: &mut Step) {
    match CARGO_DENY.provide(step) {
        Ok(()) => {
            for manifest in SHIPPED {
                step.check(cargo_deny(manifest, "licenses bans sources"));
            }
        }
        Err(why) => step.fail(why),
    }
}

/// The advisories come from the network, so that they cannot be had is told but is no failure of the code.
fn advisories(step: &mut Step) {
    if !CARGO_DENY.is_met() {
        return step.note("advisories NOT CHECKED: cargo-deny is missing");
    }
    for manifest in SHIPPED {
        advisories_of(step, manifest);
    }
}

fn advisories_of(step: &mut Step, manifest: &str) {
    let finished = step.run(cargo_deny(manifest, "advisories"));
    let unreachable = finished
        .lines
        .iter()
        .any(|line| line.contains("failed to fetch advisory database"));
    if finished.is_ok() {
        step.pass();
    } else if unreachable || matches!(finished.end, crate::process::End::Late) {
        step.note(format!(
            "advisories of {manifest} NOT CHECKED: their database cannot be fetched from here; see above"
        ));
    } else {
        step.fail_by_end("cargo-deny check advisories", &finished);
    }
}

fn cargo_deny(manifest: &str, what: &str) -> Command {
    let mut command = Command::new(find("cargo-deny").unwrap_or_else(|| "cargo-deny".into()));
    command
        .args(["--manifest-path", manifest, "--workspace", "check"])
        .args(what.split_whitespace());
    command
}

//! What the numbers were measured on and with.

use std::fs;
use std::process::Command;

/// Two lines: machine and compiler, and how to measure again.
pub(super) fn describe(rounds: usize) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "Measured on {}, {cores} cores, {}; load {} at the end.\n`cargo xtask bench` measures again: medians of {rounds} rounds.\n",
        processor(),
        compiler(),
        load(),
    )
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    // A virtual machine may tell no more than the brand.
    match (field("cpu family"), field("model")) {
        (Some(family), Some(number)) => format!("{model} (family {family}, model {number})"),
        _ => model,
    }
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or("an unknown rustc".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

/// How many programs wanted a core in the last five minutes.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().nth(1).unwrap_or("unknown").to_owned()
}

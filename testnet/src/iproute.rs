//! Runs `ip` and `tc`, and turns what they say into an [`Error`].

use std::process::Command;

use crate::Error;

/// Runs `ip` with the words of `line`, and returns what it prints.
///
/// Words are split at blanks: no name that reaches this module contains one.
pub(crate) fn ip(line: &str) -> Result<String, Error> {
    run("ip", line)
}

/// Runs `tc` likewise.
pub(crate) fn tc(line: &str) -> Result<String, Error> {
    run("tc", line)
}

fn run(program: &'static str, line: &str) -> Result<String, Error> {
    let output = Command::new(program)
        .args(line.split_whitespace())
        .output()
        .map_err(|source| Error::Start { program, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    Err(Error::Refused {
        command: format!("{program} {line}"),
        message,
    })
}

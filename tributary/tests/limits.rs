//! Commands that may open few files fail with a line that says so, or do what they are to.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Ends a child that is left when a test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a command says on standard error that may have `files` open, until it ends or says `enough`; and whether it said
/// that, or ended well.
fn said(files: u32, arguments: &str, enough: &str) -> (String, bool) {
    let program = env!("CARGO_BIN_EXE_tributary");
    let child = Command::new("sh")
        .args(["-c", &format!("ulimit -n {files} && exec {program} {arguments}")])
        .env("RUST_LOG", "error")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut child = Ended(child);
    let mut said = String::new();
    for line in BufReader::new(child.0.stderr.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        if line.starts_with(enough) {
            return (said, true);
        }
        said += &line;
        said.push('\n');
    }
    let ended_well = child.0.wait().expect("it ends").success();
    (said, ended_well)
}

/// From as many files as it takes to load the program on. With how many exactly it runs depends on the machine.
fn every_limit(arguments: &str, enough: &str) {
    for files in 5..=32 {
        let (said, is_well) = said(files, arguments, enough);
        let advice =
            format!(": too many open files: this process may have {files}, raise that with ulimit -n\n");
        let is_one_line = said.matches('\n').count() == 1;
        assert!(
            is_well || said.starts_with("tributary: ") && said.ends_with(&advice) && is_one_line,
            "{files} files: {said}"
        );
        assert!(files > 10 || !is_well, "{files} files cannot be enough");
    }
    assert_eq!(said(64, arguments, enough), (String::new(), true));
}

#[test]
fn an_aggregator_says_that_its_limit_on_files_is_too_low() {
    every_limit(
        "serve --control-addr 127.0.0.1:0 --data-addr 127.0.0.1:0",
        "aggregating:",
    );
}

#[test]
fn a_benchmark_says_that_its_limit_on_files_is_too_low() {
    every_limit("bench allreduce --workers 2 --bytes 1KiB --iterations 1", "-");
}

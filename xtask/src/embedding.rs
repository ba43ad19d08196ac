//! The core on bare metal: embedding/ links without std and without an allocator, its header is current, its C example
//! gets the sums, and no panic can be reached from the aggregator.
//!
//! The proof is the linker's. The panic handler calls a function that nobody defines. A program that consists of one
//! exported function, and of all that can be reached from it, links only if that function is not among it.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use crate::needs::{CBINDGEN, find};
use crate::step::{Step, cargo};

const TARGET: &str = "target/embedding";
const HEADER: &str = "embedding/include/tributary.h";

/// What the panic handler calls.
const PANIC: &str = "tributary_panic";

/// The exported functions, and whether no panic can be reached from them. A worker trusts its host's memory: a slot
/// number of its own that lies outside of it is a panic.
const EXPORTS: &[(&str, Panics)] = &[
    ("tributary_aggregator_init", Panics::Never),
    ("tributary_aggregator_admit", Panics::Never),
    ("tributary_aggregator_release", Panics::Never),
    ("tributary_aggregator_handle", Panics::Never),
    ("tributary_worker_init", Panics::Never),
    ("tributary_worker_is_busy", Panics::Never),
    ("tributary_worker_has_failed", Panics::Never),
    ("tributary_worker_start", Panics::OnBrokenMemory),
    ("tributary_worker_transmit", Panics::OnBrokenMemory),
    ("tributary_worker_handle", Panics::OnBrokenMemory),
    ("tributary_worker_next_timeout", Panics::OnBrokenMemory),
    ("tributary_worker_handle_timeout", Panics::OnBrokenMemory),
];

/// What compilers may call without being told: every C library and every kernel has it.
const FREESTANDING: &[&str] = &["memcpy", "memmove", "memset", "memcmp", "bcmp"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Panics {
    Never,
    OnBrokenMemory,
}

/// Builds, checks the header, runs the C program, proves.
pub(crate) fn run(step: &mut Step) {
    let Some(library) = build(step, "sound", "") else {
        return;
    };
    header(step);
    c_program(step, &library);
    for (symbol, panics) in EXPORTS {
        prove(step, &library, symbol, *panics);
    }
    check_can_fail(step);
}

/// Builds the static library in a folder of its own; returns where it is.
fn build(step: &mut Step, folder: &str, arguments: &str) -> Option<String> {
    let directory = format!("{TARGET}/{folder}");
    let finished = step.run(cargo(&format!(
        "build --quiet --release --locked --manifest-path embedding/Cargo.toml --target-dir {directory} {arguments}"
    )));
    if !finished.is_ok() {
        step.fail_by_end("cargo build --manifest-path embedding/Cargo.toml", &finished);
        return None;
    }
    Some(format!("{directory}/release/libtributary.a"))
}

fn header(step: &mut Step) {
    if let Err(why) = CBINDGEN.provide(step) {
        return step.skip(format!("whether {HEADER} is current: {why}"));
    }
    let mut verify = Command::new(find("cbindgen").unwrap_or_else(|| "cbindgen".into()));
    verify.args([
        "--quiet",
        "--verify",
        "--config",
        "embedding/cbindgen.toml",
        "--output",
        HEADER,
        "embedding",
    ]);
    step.check(verify);
}

fn c_program(step: &mut Step, library: &str) {
    let program = format!("{TARGET}/sum");
    let mut compile = cc();
    compile.args([
        "-std=c11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Iembedding/include",
    ]);
    compile.args(["-o", &program, "embedding/example/sum.c", library]);
    step.check(compile);
    if Path::new(&program).exists() {
        step.check(Command::new(program));
    }
}

/// Links a function with all that can be reached from it, and nothing else.
fn link(library: &str, symbol: &str, program: &str) -> Command {
    let mut link = cc();
    link.args(["-nostartfiles", "-Wl,--gc-sections", "-o", program]);
    link.args([
        format!("-Wl,--entry={symbol}"),
        format!("-Wl,--undefined={symbol}"),
    ]);
    link.arg(library);
    link
}

fn prove(step: &mut Step, library: &str, symbol: &str, panics: Panics) {
    let program = format!("{TARGET}/{symbol}");
    let mut command = link(library, symbol, &program);
    if panics == Panics::OnBrokenMemory {
        command.arg(format!("-Wl,--defsym={PANIC}=0"));
    }
    let linked = step.run(command);
    if !linked.is_ok() {
        let reached = linked.lines.iter().any(|line| line.contains(PANIC));
        let why = if reached {
            "a panic can be reached from it"
        } else {
            "it needs more than the core"
        };
        return step.fail(format!("{symbol}: {why}; see the linker's message above"));
    }
    let mut symbols = Command::new("nm");
    symbols.args(["--undefined-only", "--format=posix", &program]);
    let symbols = step.read(symbols);
    match foreign(&symbols.lines) {
        _ if !symbols.is_ok() => step.fail_by_end("nm", &symbols),
        Some(name) => step.fail(format!("{symbol} needs `{name}`, which bare metal does not have")),
        None => step.pass(),
    }
}

/// A function from outside that is needed and that bare metal does not have: an allocator's, say.
fn foreign(symbols: &[String]) -> Option<&str> {
    let needed = symbols
        .iter()
        .filter(|line| line.split_whitespace().nth(1) == Some("U"));
    let names = needed.filter_map(|line| line.split(['@', ' ']).next());
    names.into_iter().find(|name| !FREESTANDING.contains(name))
}

/// The same proof of a library into whose aggregator an indexing was put must find it.
fn check_can_fail(step: &mut Step) {
    let Some(library) = build(step, "provoked", "--features provoke-panic") else {
        return;
    };
    let program = format!("{TARGET}/provoked/program");
    if let Err(error) = fs::remove_file(&program)
        && error.kind() != io::ErrorKind::NotFound
    {
        return step.fail(format!("cannot remove {program}: {error}"));
    }
    let linked = step.read(link(&library, "tributary_aggregator_handle", &program));
    if !linked.is_ok() && linked.lines.iter().any(|line| line.contains(PANIC)) {
        step.pass();
    } else {
        step.fail("a panic put into the aggregator on purpose is not found: the proof proves nothing");
    }
}

fn cc() -> Command {
    Command::new("cc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_is_foreign_and_copying_is_not() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            foreign(&lines("memcpy@GLIBC_2.14 U         \n__cxa_finalize w \n")),
            None
        );
        assert_eq!(
            foreign(&lines("memset U\nmalloc@GLIBC_2.2.5 U\n")),
            Some("malloc")
        );
    }
}

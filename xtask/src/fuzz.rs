//! Runs the fuzz targets on the stable toolchain.
//!
//! `cargo fuzz` passes flags that only nightly takes, for its sanitizers. The core has no unsafe code for those to
//! find, and what guides the search, coverage and compared values, needs none of them: LLVM's own pass does it. The
//! crate in fuzz/ is laid out as `cargo fuzz` wants it, for those who have it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::needs::CXX;
use crate::step::{Step, cargo};

/// How long each target runs as part of the tests.
const SMOKE: Duration = Duration::from_secs(30);

/// What `cargo fuzz --sanitizer none` passes, but for the flags that need nightly.
const FLAGS: &str = "--cfg=fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Each target for a few seconds.
pub(crate) fn smoke(step: &mut Step) {
    run(step, SMOKE, None);
}

/// Each target, or the one named, for `time`.
pub(crate) fn run(step: &mut Step, time: Duration, only: Option<&str>) {
    let mut targets = targets();
    if let Some(name) = only {
        if !targets.iter().any(|target| target == name) {
            return step.fail(format!(
                "there is no fuzz target `{name}`; there are: {}",
                targets.join(", ")
            ));
        }
        targets.retain(|target| target == name);
    }
    if targets.is_empty() {
        return;
    }
    if let Err(why) = CXX.provide(step) {
        return step.skip(why);
    }
    let host = step.read(rustc_host());
    let [triple] = host.lines.as_slice() else {
        return step.fail_by_end("rustc --print host-tuple", &host);
    };
    // A named target keeps the flags away from build scripts and macros.
    let mut build = cargo(&format!(
        "build --release --manifest-path fuzz/Cargo.toml --target {triple}"
    ));
    build
        .args(targets.iter().flat_map(|target| ["--bin", target]))
        .env("RUSTFLAGS", FLAGS);
    let built = step.run(build);
    if !built.is_ok() {
        return step.fail_by_end("cargo build --manifest-path fuzz/Cargo.toml", &built);
    }
    for target in &targets {
        match fuzzer(triple, target, time) {
            Ok(command) => step.check(command),
            Err(error) => step.fail(format!(
                "cannot make the directories of fuzz target `{target}`: {error}"
            )),
        }
    }
}

/// The names of the targets.
pub(crate) fn targets() -> Vec<String> {
    let files = fs::read_dir("fuzz/fuzz_targets").into_iter().flatten().flatten();
    let mut targets: Vec<String> = files
        .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    targets.sort();
    targets
}

/// The command that fuzzes. New inputs go below target/; the seeds in fuzz/corpus stay as they are.
fn fuzzer(triple: &str, target: &str, time: Duration) -> std::io::Result<Command> {
    let (found, seeds) = (
        format!("target/fuzz-corpus/{target}"),
        format!("fuzz/corpus/{target}"),
    );
    let artifacts = format!("fuzz/artifacts/{target}/");
    fs::create_dir_all(&found)?;
    fs::create_dir_all(&artifacts)?;
    let mut command = Command::new(format!("fuzz/target/{triple}/release/{target}"));
    command
        .arg(&found)
        .args(Path::new(&seeds).is_dir().then_some(seeds));
    command
        .arg(format!("-max_total_time={}", time.as_secs()))
        .arg(format!("-artifact_prefix={artifacts}"));
    // The value profile counts how near a comparison came: without it no input ever gets past two magic bytes.
    command.args(["-use_value_profile=1", "-timeout=10", "-rss_limit_mb=2048"]);
    command.args(["-verbosity=0", "-print_final_stats=1"]);
    Ok(command)
}

fn rustc_host() -> Command {
    let mut command = Command::new("rustc");
    command.args(["--print", "host-tuple"]);
    command
}

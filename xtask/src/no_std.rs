//! agg-core must need neither std nor an allocator. A target without std would show that, but not every toolchain has
//! one installed. This shows it on any: a library that brings its own panic handler and no allocator is built around
//! agg-core. If anything in it linked std there would be two panic handlers; if alloc, no allocator.

use std::fs;
use std::path::Path;

use crate::step::{Step, cargo};

const SOURCE: &str = include_str!("no_std/probe.rs");

const MANIFEST: &str = r#"[package]
name = "no-std-probe"
version = "0.0.0"
edition = "2024"

[lib]
crate-type = ["staticlib"]
path = "probe.rs"

[dependencies]
agg-core = { path = "../../agg-core" }

[profile.dev]
panic = "abort"

[workspace]
"#;

/// Targets without std: checked as well where the toolchain has `core` for them.
const BARE_TARGETS: &[&str] = &["bpfel-unknown-none", "x86_64-unknown-none", "thumbv7em-none-eabi"];

/// Builds the probe, and agg-core for the bare targets at hand.
pub(crate) fn run(step: &mut Step) {
    let directory = Path::new("target/no-std-probe");
    if let Err(error) = write_probe(directory) {
        return step.fail(format!("cannot write {}: {error}", directory.display()));
    }
    step.check(cargo(
        "build --manifest-path target/no-std-probe/Cargo.toml --target-dir target/no-std-probe/target",
    ));

    let sysroot = std::process::Command::new("rustc")
        .args(["--print", "sysroot"])
        .output();
    let sysroot = sysroot
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    for target in BARE_TARGETS {
        if Path::new(&sysroot)
            .join("lib/rustlib")
            .join(target)
            .join("lib")
            .is_dir()
        {
            step.check(cargo(&format!("build --package agg-core --target {target}")));
        }
    }
}

/// The probe lives outside of the workspace: it needs `panic = "abort"`, which is set for a whole workspace.
fn write_probe(directory: &Path) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(directory.join("Cargo.toml"), MANIFEST)?;
    fs::write(directory.join("probe.rs"), SOURCE)?;
    // The same versions as the workspace's.
    fs::copy("Cargo.lock", directory.join("Cargo.lock")).map(drop)
}

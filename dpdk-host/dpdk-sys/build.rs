//! Compiles the shim against the DPDK that pkg-config finds, and links that as shared libraries.

use std::process::{Command, ExitCode};

/// What to install where DPDK is missing.
const PACKAGES: &str = "apt-get install dpdk-dev libdpdk-dev";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=shim");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("cargo::error={reason}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    pkg_config::Config::new()
        .atleast_version("22.11")
        .probe("libdpdk")
        .map_err(|error| {
            let said = error.to_string();
            let said = said
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or_default();
            format!("DPDK 22.11 or later is not installed (libdpdk.pc): {PACKAGES} [{said}]")
        })?;
    let mut build = cc::Build::new();
    build.files(["shim/shim.c", "shim/telemetry.c"]).warnings(true);
    for flag in cflags()?.split_whitespace() {
        build.flag(flag);
    }
    build
        .try_compile("tributary_dpdk_shim")
        .map_err(|error| format!("the shim does not compile against this DPDK: {error}"))?;
    // A driver with functions of its own is not among what pkg-config names.
    println!("cargo::rustc-link-lib=dylib=rte_net_ring");
    Ok(())
}

/// As pkg-config has them, unchanged: they choose the instruction set and force a header in.
fn cflags() -> Result<String, String> {
    let output = Command::new("pkg-config")
        .args(["--cflags", "libdpdk"])
        .output()
        .map_err(|error| format!("pkg-config cannot be run: {error}: apt-get install pkg-config"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! The Python package, as a user would have it: built as a wheel, installed into an environment of its own beside torch, and
//! tested from there.
//!
//! Torch is large. Its wheel for machines without a GPU is asked for first, at PyTorch's own index; where that cannot be
//! reached, the one from PyPI does, with stand-ins for CUDA's libraries (`python/tests/setup/cuda_stand_ins.py` says what these are).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Step, forget_xtask};

/// Kept from run to run.
const ENVIRONMENT: &str = "target/python/venv";

const PYTHON: &str = "target/python/venv/bin/python";

/// Where the wheel is put.
const WHEELS: &str = "target/python/wheels";

/// Back ends written in Python need 2.14 at least.
const TORCH: &str = "torch==2.15.0";

const REQUIREMENTS: &str = "python/tests/setup/requirements.txt";

/// Builds, installs, checks and tests.
pub(crate) fn run(step: &mut Step) {
    if let Err(why) = provide(step) {
        return step.skip(format!("all of it: {why}"));
    }
    if let Err(why) = install_wheel(step) {
        return step.fail(why);
    }
    step.check(tool("ruff", &["check", "python"]));
    step.check(tool("ruff", &["format", "--check", "python"]));
    step.check(tool("mypy", &["--config-file", "python/pyproject.toml"]));
    let skipped = step.tests(tool("pytest", &["-q", "--durations", "5", "python/tests"]));
    for _ in 0..skipped {
        step.skip("a test of the Python package with network namespaces: needs root and iproute2");
    }
}

/// The environment with torch and the tools. The error says what cannot be had.
fn provide(step: &Step) -> Result<(), String> {
    if !Path::new(ENVIRONMENT).join("bin/pip").exists() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear", ENVIRONMENT]);
        must(step, make, "no Python environment can be made")?;
    }
    must(
        step,
        pip(&["-r", REQUIREMENTS]),
        "the tools cannot be had from PyPI",
    )?;
    if has_torch(step) {
        return Ok(());
    }
    let index = "https://download.pytorch.org/whl/cpu";
    let mut small = pip(&["--retries", "0", "--timeout", "10"]);
    small.args(["--no-deps", "--index-url", index, TORCH]);
    if !step.run(small).is_ok() {
        let large = pip(&["--no-deps", TORCH]);
        must(step, large, "torch cannot be had from PyPI")?;
    }
    if !has_torch(step) {
        let look = "import sysconfig; print(sysconfig.get_path('platlib'))";
        let packages = step.read(tool("python", &["-c", look]));
        let folder = packages.lines.first().cloned().unwrap_or_default();
        let stand_ins = tool("python", &["python/tests/setup/cuda_stand_ins.py", &folder]);
        must(step, stand_ins, "no stand-ins for CUDA's libraries can be made")?;
    }
    if has_torch(step) {
        Ok(())
    } else {
        Err(format!("{TORCH} was installed, but cannot be imported"))
    }
}

fn has_torch(step: &Step) -> bool {
    let version = TORCH.trim_start_matches("torch==");
    let look = format!("import torch; assert torch.__version__.split('+')[0] == '{version}'");
    step.read(tool("python", &["-c", &look])).is_ok()
}

/// Builds the wheel and installs it, and nothing else.
fn install_wheel(step: &Step) -> Result<(), String> {
    // What an earlier version left would be found as well.
    let _ = fs::remove_dir_all(WHEELS);
    let build = [
        "build",
        "--release",
        "--locked",
        "--interpreter",
        PYTHON,
        "--manifest-path",
        "python/Cargo.toml",
        "--out",
        WHEELS,
    ];
    must(step, tool("maturin", &build), "the wheel does not build")?;
    let mut install = pip(&["--force-reinstall", "--no-deps"]);
    install.args(wheels());
    must(step, install, "the wheel cannot be installed")
}

fn wheels() -> Vec<PathBuf> {
    let entries = fs::read_dir(WHEELS).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "whl"))
        .collect()
}

/// A program of the environment.
fn tool(name: &str, arguments: &[&str]) -> Command {
    let folder = std::env::current_dir()
        .unwrap_or_default()
        .join(ENVIRONMENT)
        .join("bin");
    let mut command = Command::new(folder.join(name));
    command.args(arguments);
    // One of them calls cargo.
    forget_xtask(&mut command);
    // The package is to be found where it was installed.
    command.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    command
}

fn pip(arguments: &[&str]) -> Command {
    let mut pip = tool("pip", &["install", "--quiet", "--disable-pip-version-check"]);
    pip.args(arguments);
    pip
}

fn must(step: &Step, command: Command, why: &str) -> Result<(), String> {
    if step.run(command).is_ok() {
        Ok(())
    } else {
        Err(format!("{why}; see above"))
    }
}

//! Builds the object from the stage, so that its bytes depend on sources and versions only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::toolchain::Compiler;
use super::{OBJECTS, Objects, object, stage};
use crate::needs::{find, path_behind};
use crate::step::Step;

const TARGET: &str = "bpfel-unknown-none";

/// Where cargo leaves what it makes, seen from the workspace.
const OUTPUT: &str = "target/ebpf/build/bpfel-unknown-none/release";

/// For the compiler. The program looks at no CPU registers, so the machine's architecture is only a name that the
/// crate aya-ebpf asks for. BTF, which describes maps and locks to the kernel, is made of debug information.
const FLAGS: &[&str] = &[
    "--cfg=bpf_target_arch=\"x86_64\"",
    "-Clinker=bpf-linker",
    "-Ctarget-cpu=v3",
    "-Cdebuginfo=2",
    "-Clink-arg=--btf",
    // Headers behind Ethernet are not aligned, and the kernel allows such reads where the machine does.
    "-Clink-arg=--cpu-features=+allows-misaligned-mem-access",
    // The kernel translates instruction by instruction, and LLVM by itself unrolls nothing for it.
    "-Clink-arg=--llvm-args=-unroll-count=8",
];

/// Only these crates may use what is unstable.
const UNSTABLE: &str = "aya_ebpf";

/// Builds the objects; the error says what failed.
pub(super) fn build(step: &Step, compiler: Compiler) -> Result<Objects, String> {
    stage::write()?;
    let stage =
        fs::canonicalize(stage::STAGE).map_err(|error| format!("cannot find {}: {error}", stage::STAGE))?;
    let names = names(step, compiler, &stage)?;
    let linker = fs::canonicalize(find("bpf-linker").unwrap_or_default())
        .map_err(|error| format!("cannot find bpf-linker: {error}"))?;
    let linker = linker.parent().unwrap_or(&linker);
    let mut build = cargo(compiler, "build --release --target-dir ../build --target");
    if compiler == Compiler::Nightly {
        build.arg("-Zbuild-std=core");
    }
    let flags: Vec<String> = FLAGS
        .iter()
        .map(|&flag| flag.to_owned())
        .chain(names.iter().map(Name::flag))
        .collect();
    build
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("RUSTC_BOOTSTRAP", UNSTABLE)
        .env("PATH", path_behind(linker));
    let finished = step.run_as(&format!("cargo build, in {}", stage::STAGE), build);
    if !finished.is_ok() {
        return Err("the XDP program does not build; see above".into());
    }
    let objects = OBJECTS.iter().map(|(program, file)| {
        let output = format!("{OUTPUT}/{program}");
        let linked = fs::read(&output).map_err(|error| format!("cannot read {output}: {error}"))?;
        Ok(((*file).to_owned(), clean(&linked, &names)?))
    });
    objects.collect()
}

/// An object without what depends on the machine.
fn clean(linked: &[u8], names: &[Name]) -> Result<Vec<u8>, String> {
    let object = object::strip(linked)?;
    match names.iter().find(|name| object::holds(&object, &name.path)) {
        Some(name) => Err(format!(
            "an XDP object holds the path {}, which is this machine's; see {}",
            name.path,
            file!()
        )),
        None => Ok(object),
    }
}

/// A path, and the name that takes its place in the object.
struct Name {
    path: String,
    name: String,
}

impl Name {
    fn flag(&self) -> String {
        format!("--remap-path-prefix={}={}", self.path, self.name)
    }
}

/// Names for all folders that sources come from. Where several apply the compiler takes the last.
fn names(step: &Step, compiler: Compiler, stage: &Path) -> Result<Vec<Name>, String> {
    let name = |path: String, name: &str| Name {
        path,
        name: name.to_owned(),
    };
    let mut names = Vec::new();
    names.extend(cargo_home().map(|home| name(home.display().to_string(), "cargo")));
    names.push(name(compiler.sysroot()? + "/lib/rustlib/src/rust", "rust"));
    let target = stage.with_file_name("build");
    names.push(name(target.display().to_string(), "build"));
    names.push(name(stage.display().to_string(), "tributary"));
    names.extend(crates(step, compiler)?);
    Ok(names)
}

/// The sources of other people's crates, wherever cargo put them.
fn crates(step: &Step, compiler: Compiler) -> Result<Vec<Name>, String> {
    let finished = step.read(cargo(
        compiler,
        "metadata --quiet --format-version 1 --filter-platform",
    ));
    let metadata = finished
        .lines
        .iter()
        .find_map(|line| serde_json::from_str::<Value>(line).ok());
    let packages = metadata
        .as_ref()
        .and_then(|metadata| metadata["packages"].as_array());
    let Some(packages) = packages.filter(|_| finished.is_ok()) else {
        return Err(format!(
            "`cargo metadata` of the XDP program fails: {}",
            finished.lines.join(" ")
        ));
    };
    // What has no source is ours, on the stage.
    let foreign = packages.iter().filter(|package| !package["source"].is_null());
    Ok(foreign.filter_map(crate_name).collect())
}

fn crate_name(package: &Value) -> Option<Name> {
    let manifest = PathBuf::from(package["manifest_path"].as_str()?);
    Some(Name {
        path: manifest.parent()?.display().to_string(),
        name: format!("{}-{}", package["name"].as_str()?, package["version"].as_str()?),
    })
}

/// A command of the BPF compiler's cargo on the stage; the words of `line` are its arguments, before the target.
fn cargo(compiler: Compiler, line: &str) -> Command {
    let mut command = compiler.cargo();
    command
        .current_dir(stage::STAGE)
        .args(line.split_whitespace())
        .args([TARGET, "--locked"]);
    command
}

/// Where cargo keeps the sources of crates.
fn cargo_home() -> Option<PathBuf> {
    let default = || std::env::home_dir().map(|home| home.join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(default)
}

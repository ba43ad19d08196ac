//! The compiler and the linker for BPF, whichever are there.

use std::fmt;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::needs::find;

/// Where Debian's packages put LLVM, whose version is the one that bpf-linker needs.
pub(crate) const LLVM: &str = "/usr/lib/llvm-22/bin";

/// A compiler that has, or can build, `core` for BPF.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// Debian's packages, which bring a built `core`.
    Debian,
    /// rustup's nightly with the component rust-src: it builds `core` itself.
    Nightly,
}

impl Compiler {
    /// The one to use. Debian's first: the kept object comes from it, so that bytes can be compared.
    pub(crate) fn find() -> Option<Self> {
        let files = [
            "/usr/bin/cargo",
            "/usr/bin/rustc",
            "/usr/lib/rustlib/bpfel-unknown-none/lib",
        ];
        if files.iter().all(|file| Path::new(file).exists()) {
            return Some(Self::Debian);
        }
        let source = Self::Nightly.sysroot().ok()? + "/lib/rustlib/src/rust/library/core";
        Path::new(&source).is_dir().then_some(Self::Nightly)
    }

    /// Its cargo, with nothing of the caller's settings that could change what comes out.
    pub(crate) fn cargo(self) -> Command {
        let mut command = match self {
            Self::Debian => {
                let mut command = Command::new("/usr/bin/cargo");
                // Debian's cargo would take the first rustc on the PATH.
                command.env("RUSTC", "/usr/bin/rustc");
                command
            }
            Self::Nightly => {
                let mut command = nightly("cargo");
                command.env_remove("RUSTC");
                command
            }
        };
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if [
                "CARGO_PROFILE_",
                "CARGO_BUILD_",
                "CARGO_TARGET_",
                "CARGO_UNSTABLE_",
            ]
            .iter()
            .any(|prefix| text.starts_with(prefix))
            {
                command.env_remove(name);
            }
        }
        for name in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
            command.env_remove(name);
        }
        command.env("CARGO_INCREMENTAL", "0");
        command
    }

    /// The folder with its library.
    pub(crate) fn sysroot(self) -> Result<String, String> {
        let lines = read(self.rustc(&["--print", "sysroot"]))?;
        Ok(lines.trim().to_owned())
    }

    fn rustc(self, arguments: &[&str]) -> Command {
        let mut command = match self {
            Self::Debian => Command::new("/usr/bin/rustc"),
            Self::Nightly => nightly("rustc"),
        };
        command.args(arguments);
        command
    }
}

/// A program of rustup's nightly.
fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", program])
        // What is missing is not to be installed by asking for it.
        .env("RUSTUP_AUTO_INSTALL", "0");
    command
}

/// What has to be the same for the same bytes to come out.
#[derive(PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Versions {
    rustc: String,
    /// Whether `core` came with the compiler or was built from its source.
    core: String,
    bpf_linker: String,
    /// The one that bpf-linker runs.
    llvm: String,
}

impl Versions {
    /// Those that are here.
    pub(crate) fn of(compiler: Compiler) -> Result<Self, String> {
        let rustc = read(compiler.rustc(&["--version"]))?;
        let mut linker = Command::new(find("bpf-linker").ok_or("bpf-linker is missing")?);
        linker.arg("--version");
        let mut llvm = Command::new(format!("{LLVM}/llvm-config"));
        llvm.arg("--version");
        Ok(Self {
            rustc: rustc.trim().trim_start_matches("rustc ").to_owned(),
            core: match compiler {
                Compiler::Debian => "prebuilt".into(),
                Compiler::Nightly => "built".into(),
            },
            bpf_linker: read(linker)?.trim().trim_start_matches("bpf-linker ").to_owned(),
            // A linker that somebody brought along may have any LLVM inside.
            llvm: read(llvm).map_or_else(|_| "unknown".into(), |version| version.trim().to_owned()),
        })
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rustc,
            core,
            bpf_linker,
            llvm,
        } = self;
        write!(
            f,
            "rustc {rustc} with {core} core, bpf-linker {bpf_linker}, LLVM {llvm}"
        )
    }
}

/// What a program prints, if it succeeds.
fn read(mut command: Command) -> Result<String, String> {
    let program = command.get_program().display().to_string();
    let output = command
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{program}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{program} prints no text: {error}"))
}

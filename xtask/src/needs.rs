//! What tests and checks need from the machine, how to see whether it is there, and how to get it.
//!
//! A new need is a new row. Nothing is installed but what is missing, and only root installs Debian packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Step, cargo};

/// Where cargo installs tools of ours, so that they neither need nor change what the user has.
const TOOLS: &str = "target/tools";

/// Something a step needs.
pub(crate) struct Need {
    name: &'static str,
    detect: fn() -> bool,
    install: Install,
}

/// How to get it.
enum Install {
    /// Debian packages.
    Apt(&'static [&'static str]),
    /// A program from crates.io.
    Cargo {
        package: &'static str,
        version: &'static str,
        arguments: &'static str,
    },
}

/// Network namespaces with rate limits.
pub(crate) const NAMESPACES: Need = Need {
    name: "iproute2",
    detect: || find("ip").is_some() && find("tc").is_some(),
    install: Install::Apt(&["iproute2"]),
};

/// The fuzzing engine is C++.
pub(crate) const CXX: Need = Need {
    name: "a C++ compiler",
    detect: || find("c++").is_some(),
    install: Install::Apt(&["g++"]),
};

/// A C compiler and its linker.
pub(crate) const CC: Need = Need {
    name: "a C compiler",
    detect: || find("cc").is_some() && find("nm").is_some(),
    install: Install::Apt(&["gcc", "libc6-dev", "binutils"]),
};

/// Makes C headers. As a program, so that its licence is none of ours.
pub(crate) const CBINDGEN: Need = Need {
    name: "cbindgen",
    detect: || find("cbindgen").is_some(),
    install: Install::Cargo {
        package: "cbindgen",
        // Another version may write the header in another way: then make it anew with this one.
        version: "0.29.4",
        arguments: "--profile dev --config profile.dev.opt-level=0 --config profile.dev.debug=0",
    },
};

/// The golden traces have a second reader, in Python.
pub(crate) const PYTHON: Need = Need {
    name: "python3",
    detect: || find("python3").is_some(),
    install: Install::Apt(&["python3"]),
};

/// Licences, sources and advisories of dependencies.
pub(crate) const CARGO_DENY: Need = Need {
    name: "cargo-deny",
    detect: || find("cargo-deny").is_some(),
    install: Install::Cargo {
        package: "cargo-deny",
        version: "0.20.2",
        // It runs for a second, so a quick build beats quick code: 40 s instead of several minutes on two cores.
        arguments: "--profile dev --no-default-features --config profile.dev.opt-level=0 --config profile.dev.debug=0",
    },
};

impl Need {
    /// Whether it is there.
    pub(crate) fn is_met(&self) -> bool {
        (self.detect)()
    }

    /// Installs it if it is missing; the error says why that cannot be done.
    pub(crate) fn provide(&self, step: &Step) -> Result<(), String> {
        if self.is_met() {
            return Ok(());
        }
        let name = self.name;
        match &self.install {
            Install::Apt(packages) => {
                let by_hand = format!("apt-get install {}", packages.join(" "));
                if !is_root() {
                    return Err(format!(
                        "{name} is missing and only root can install it: sudo {by_hand}"
                    ));
                }
                if find("apt-get").is_none() {
                    return Err(format!(
                        "{name} is missing and this is no Debian: install what `{by_hand}` gives there"
                    ));
                }
                step.run(apt_get(&["update"]));
                step.run(apt_get(
                    &[&["install", "-y", "--no-install-recommends"], *packages].concat(),
                ));
            }
            Install::Cargo {
                package,
                version,
                arguments,
            } => {
                step.run(cargo(&format!(
                    "install --locked {package} --version {version} --root {TOOLS} {arguments}"
                )));
            }
        }
        if self.is_met() {
            Ok(())
        } else {
            Err(format!("{name} is missing and installing it failed; see above"))
        }
    }
}

/// Where a program is: among our own tools, or else on the PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let ours = Path::new(TOOLS).join("bin");
    // iproute2 is in sbin, which the PATH of ordinary users may lack.
    let directories = [ours]
        .into_iter()
        .chain(std::env::split_paths(&path))
        .chain(["/usr/sbin".into()]);
    directories
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Whether we may make namespaces and install packages.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

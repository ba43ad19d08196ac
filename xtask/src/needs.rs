//! What tests and checks need from the machine, how to see whether it is there, and how to get it.
//!
//! A new need is a new row. Nothing is installed but what is missing, and only root installs Debian packages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ebpf::{Compiler, LLVM};
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
    /// Debian packages that bring another `cargo`.
    AptWithCargo(&'static [&'static str]),
    /// A program from crates.io.
    Cargo {
        package: &'static str,
        version: &'static str,
        arguments: &'static str,
        /// What building it takes beside its arguments.
        environment: fn(&mut Command),
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
        environment: |_| (),
    },
};

/// The golden traces have a second reader, in Python.
pub(crate) const PYTHON: Need = Need {
    name: "python3",
    detect: || find("python3").is_some(),
    install: Install::Apt(&["python3"]),
};

/// Environments of Python's own, with pip.
pub(crate) const PYTHON_VENV: Need = Need {
    name: "python3-venv",
    detect: || {
        let mut python = Command::new("python3");
        python.args(["-c", "import ensurepip, venv"]);
        python.output().is_ok_and(|output| output.status.success())
    },
    install: Install::Apt(&["python3-venv"]),
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
        environment: |_| (),
    },
};

/// A Rust compiler with a core library for BPF. rustup's nightly with rust-src does as well, and is not ours to install.
pub(crate) const BPF_COMPILER: Need = Need {
    name: "a Rust compiler for BPF",
    detect: || Compiler::find().is_some(),
    install: Install::AptWithCargo(&["rustc-web", "cargo-web", "libstd-rust-web-dev-bpf"]),
};

/// What bpf-linker is built on; who has the linker needs it no more.
pub(crate) const BPF_LLVM: Need = Need {
    name: "LLVM 22",
    detect: || find("bpf-linker").is_some() || Path::new(LLVM).join("llvm-config").is_file(),
    install: Install::Apt(&["llvm-22-dev"]),
};

/// Links Rust for BPF.
pub(crate) const BPF_LINKER: Need = Need {
    name: "bpf-linker",
    detect: || find("bpf-linker").is_some(),
    install: Install::Cargo {
        package: "bpf-linker",
        // The kept object comes from this version.
        version: "0.13.0",
        // Its default is an LLVM that Debian does not have.
        arguments: "--no-default-features --features llvm-22",
        // It runs for seconds: a quick build beats quick code.
        environment: |install| {
            install
                .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
                // Of several LLVMs the one in front is taken.
                .env("PATH", path_behind(Path::new(LLVM)));
        },
    },
};

/// Turns the receiving offload of virtual interfaces on, without which they lose what XDP sends.
pub(crate) const ETHTOOL: Need = Need {
    name: "ethtool",
    detect: || find("ethtool").is_some(),
    install: Install::Apt(&["ethtool"]),
};

/// Marks packets as a congested network does.
pub(crate) const NFTABLES: Need = Need {
    name: "nftables",
    detect: || find("nft").is_some(),
    install: Install::Apt(&["nftables"]),
};

/// Whether an address answers.
pub(crate) const PING: Need = Need {
    name: "ping",
    detect: || find("ping").is_some(),
    install: Install::Apt(&["iputils-ping"]),
};

/// The poll-mode host is built on it.
pub(crate) const DPDK: Need = Need {
    name: "DPDK",
    detect: || {
        let mut pkg_config = Command::new("pkg-config");
        let found = pkg_config.args(["--exists", "libdpdk >= 22.11"]).status();
        find("cc").is_some() && found.is_ok_and(|status| status.success())
    },
    install: Install::Apt(&[
        "gcc",
        "libc6-dev",
        "pkg-config",
        "dpdk",
        "dpdk-dev",
        "libdpdk-dev",
    ]),
};

/// The packages that need [`DPDK`].
const OF_DPDK: [&str; 3] = ["dpdk-host", "dpdk-sys", "dpdk-worker"];

/// The arguments by which cargo takes all packages that can be built here: DPDK is provided for, and where it cannot be had the
/// step says what is left out.
pub(crate) fn workspace(step: &mut Step) -> String {
    match DPDK.provide(step) {
        Ok(()) => "--workspace".to_owned(),
        Err(why) => {
            step.skip(format!("{}: {why}", OF_DPDK.join(" and ")));
            format!("--workspace --exclude {}", OF_DPDK.join(" --exclude "))
        }
    }
}

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
            Install::Apt(packages) | Install::AptWithCargo(packages) => {
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
                if matches!(self.install, Install::AptWithCargo(_))
                    && let Some(cargo) = hidden_by_debian()
                {
                    return Err(format!(
                        "{name} is missing, and `{by_hand}` would hide {}: put the folder of that before {DEBIAN} in PATH",
                        cargo.display()
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
                environment,
            } => {
                let mut install = cargo(&format!(
                    "install --locked {package} --version {version} --root {TOOLS} {arguments}"
                ));
                environment(&mut install);
                step.run(install);
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

/// The PATH with a directory in front of it.
pub(crate) fn path_behind(directory: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = [directory.to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    // A directory with a colon in its name cannot be in a PATH.
    std::env::join_paths(directories).unwrap_or(path)
}

/// Where Debian's packages put programs.
const DEBIAN: &str = "/usr/bin";

/// The `cargo` in use, if one from a Debian package would be found before it.
fn hidden_by_debian() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    first_behind_debian(&folders, |folder| folder.join("cargo").is_file()).map(|folder| folder.join("cargo"))
}

/// The first folder that holds something, if it comes behind Debian's.
fn first_behind_debian(folders: &[PathBuf], holds: impl Fn(&Path) -> bool) -> Option<&PathBuf> {
    let first = folders.iter().position(|folder| holds(folder))?;
    let debian = folders.iter().position(|folder| folder == Path::new(DEBIAN))?;
    (debian < first).then(|| &folders[first])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_may_not_come_before_the_cargo_in_use() {
        let behind = |path: &str| {
            let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
            let holds = |folder: &Path| folder.starts_with("/home");
            first_behind_debian(&folders, holds).cloned()
        };
        assert_eq!(behind("/bin:/home/me/bin:/usr/bin"), None);
        assert_eq!(
            behind("/usr/bin:/home/me/bin"),
            Some(PathBuf::from("/home/me/bin"))
        );
        // Where there is none at all, nothing is hidden.
        assert_eq!(behind("/usr/bin:/bin"), None);
    }
}

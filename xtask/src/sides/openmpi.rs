//! Open MPI over TCP, with whichever of its algorithms a caller asks for.
//!
//! Its launcher starts a daemon on each other host by an agent: ssh, or here a script that enters the host's namespace.

mod agent;
mod algorithm;
mod contain;

use std::fs;
use std::process::Command;

use serde::Deserialize;
use tempfile::TempDir;
use testnet::Host;

use crate::needs::find;
use crate::running::one;
pub(crate) use algorithm::Algorithm;
use contain::contained;

/// The one of `tributary bench allreduce --compare openmpi`.
const PROGRAM: &str = "tributary/src/peers/allreduce.c";

/// Names of its compiler and launcher: Debian's, where other MPIs may be installed beside it, then everybody's.
const NAMES: [(&str, &str); 2] = [("mpicc.openmpi", "mpirun.openmpi"), ("mpicc", "mpirun")];

const PACKAGES: &str = "`apt-get install openmpi-bin libopenmpi-dev gcc`";

/// TCP by the hosts' links, for control, too; no daemon that starts others. There may be more ranks than cores, so they yield,
/// and none is bound: each daemon has one rank only, and would bind it to the machine's first core. Two connections between
/// ranks: by one, two that send to each other at once do so in turns every other time, which takes twice as long.
const OPTIONS: &str = "--oversubscribe --bind-to none --mca plm rsh --mca plm_rsh_no_tree_spawn 1 --mca pml ob1 --mca btl \
                       tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca btl_tcp_links 2 \
                       --mca mpi_yield_when_idle 1 --mca coll_tuned_use_dynamic_rules 1";

/// Open MPI, and the program that is measured, built.
pub(crate) struct OpenMpi {
    launcher: &'static str,
    folder: TempDir,
}

/// What the program prints.
#[derive(Deserialize)]
struct Figures {
    bytes: u64,
    /// Of each iteration, those of its slowest rank.
    seconds: Vec<f64>,
}

impl OpenMpi {
    /// The one that is installed; else why there is none, and what to do.
    pub(crate) fn find() -> Result<Self, String> {
        let mut reasons = Vec::new();
        for (compiler, launcher) in NAMES {
            if find(launcher).is_none() {
                reasons.push(format!("there is no {launcher}"));
                continue;
            }
            let mut version = Command::new(launcher);
            version.arg("--version");
            match one(version) {
                Ok(output) if is_open_mpi(&output.stdout) => return Self::build(compiler, launcher),
                Ok(_) => reasons.push(format!("{launcher} is another MPI")),
                Err(error) => reasons.push(format!("{launcher}: {error}")),
            }
        }
        Err(format!("{}: {PACKAGES}", reasons.join("; ")))
    }

    fn build(compiler: &str, launcher: &'static str) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("trib-openmpi-").tempdir();
        let folder = folder.map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let mut compile = Command::new(compiler);
        compile.args(["-O2", PROGRAM, "-o"]);
        compile.arg(folder.path().join("allreduce"));
        one(compile).map_err(|error| format!("{compiler}: {error}: {PACKAGES}"))?;
        Ok(Self { launcher, folder })
    }

    /// Runs it with a rank on each host; the seconds of the slowest rank, of each iteration.
    pub(crate) fn run(
        &self,
        hosts: &[Host],
        bytes: u64,
        iterations: usize,
        algorithm: Algorithm,
    ) -> Result<Vec<f64>, String> {
        let agent = self.folder.path().join("agent");
        fs::write(&agent, agent::script(hosts))
            .map_err(|error| format!("cannot write {}: {error}", agent.display()))?;
        let addresses: Vec<String> = hosts.iter().map(|host| host.address().to_string()).collect();
        let mut launch = contained(&hosts[0]);
        launch.arg(self.launcher).args(OPTIONS.split_whitespace());
        // Namespaces need root, so it is root who runs it.
        launch.arg("--allow-run-as-root");
        launch.args(["--host", &addresses.join(","), "-np", &hosts.len().to_string()]);
        launch.args(["--mca", "plm_rsh_agent", &format!("sh {}", agent.display())]);
        let number = algorithm.number.to_string();
        launch.args(["--mca", "coll_tuned_allreduce_algorithm", &number]);
        // What it keeps beside its processes goes with the folder.
        launch.args(["--mca", "orte_tmpdir_base"]).arg(self.folder.path());
        launch
            .args(["-x", "PATH"])
            .arg(self.folder.path().join("allreduce"));
        launch.args(["f32", &format!("{bytes}:{iterations}")]);
        let output = one(launch).map_err(|error| format!("Open MPI: {error}"))?;
        seconds(&String::from_utf8_lossy(&output.stdout), bytes, iterations)
    }
}

/// Its launcher says the name it was called by, and only sometimes the project's.
fn is_open_mpi(version: &[u8]) -> bool {
    String::from_utf8_lossy(version).contains("open-mpi.org")
}

/// Of the only size, among what else the launcher may say.
fn seconds(said: &str, bytes: u64, iterations: usize) -> Result<Vec<f64>, String> {
    let line = said.lines().find(|line| line.starts_with('{'));
    let figures: Option<Figures> = line.and_then(|line| serde_json::from_str(line).ok());
    figures
        .filter(|figures| figures.bytes == bytes && figures.seconds.len() == iterations)
        .map(|figures| figures.seconds)
        .ok_or_else(|| {
            format!(
                "Open MPI printed no {iterations} times of {bytes} bytes: {}",
                said.trim()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_mpi_is_told_from_others_by_its_address() {
        // Debian 12's, by both of its names.
        for name in ["mpirun.openmpi (OpenRTE)", "mpirun (Open MPI)"] {
            let said = format!("{name} 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n");
            assert!(is_open_mpi(said.as_bytes()));
        }
        assert!(!is_open_mpi(b"HYDRA build details:\n    Version: 4.0.2\n"));
    }

    #[test]
    fn times_are_those_that_were_asked_for() {
        let line = r#"{"bytes": 4096, "cpu": 0.5, "sent": 10, "seconds": [0.25, 0.5]}"#;
        let said = format!("a word of the launcher\n{line}\n");
        assert_eq!(seconds(&said, 4096, 2), Ok(vec![0.25, 0.5]));
        for (said, bytes, iterations) in [(said.as_str(), 4096, 3), (&said, 8192, 2), ("", 4096, 2)] {
            let error = seconds(said, bytes, iterations).unwrap_err();
            assert!(
                error.contains(&format!("no {iterations} times of {bytes} bytes")),
                "{error}"
            );
        }
    }
}

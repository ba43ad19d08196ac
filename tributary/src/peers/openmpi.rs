//! Open MPI, over TCP as between machines. Which of its algorithms is the fastest depends on the size and on the ranks, and it
//! does not always choose that itself: so all are tried, and of each size the fastest counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::bench::{median, sorted};

use super::{PeerFigures, Task, figures, run_all};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

const PROGRAM: &str = include_str!("allreduce.c");

/// Names of its compiler and launcher: Debian's, where other MPIs may be installed beside it, then everybody's.
const NAMES: [(&str, &str); 2] = [("mpicc.openmpi", "mpirun.openmpi"), ("mpicc", "mpirun")];

/// TCP by the loopback interface. There may be more ranks than cores, so those that wait yield.
const OPTIONS: &str = "--oversubscribe --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo --mca \
                       oob_tcp_if_include lo --mca mpi_yield_when_idle 1 --mca coll_tuned_use_dynamic_rules 1";

/// Algorithms of its component `tuned`: its own choice, recursive doubling, ring, segmented ring, Rabenseifner's.
const ALGORITHMS: [u8; 5] = [0, 3, 4, 5, 6];

pub(super) fn run(task: &Task, interrupt: &Interrupt) -> Result<Result<Vec<PeerFigures>, String>, Failure> {
    let mut reasons = Vec::new();
    for (compiler, launcher) in NAMES {
        let mut version = Command::new(launcher);
        version.arg("--version");
        match run_all([version], interrupt)? {
            // The first line has the name it was called by, and only sometimes the project's.
            Ok(said) if said.contains("open-mpi.org") => {
                // Nobody else's: what is built there is run.
                let folder = tempfile::Builder::new().prefix("tributary-mpi-").tempdir();
                let folder = folder.map_err(Failure::io("make a temporary folder"))?;
                return match build(compiler, folder.path(), interrupt)? {
                    Ok(program) => launch(launcher, &program, task, interrupt),
                    Err(reason) => Ok(Err(reason)),
                };
            }
            Ok(said) => reasons.push(format!(
                "{launcher} is another MPI ({})",
                said.lines().next().unwrap_or_default()
            )),
            Err(reason) => reasons.push(reason),
        }
    }
    Ok(Err(format!(
        "{}: `apt-get install openmpi-bin libopenmpi-dev gcc`",
        reasons.join(", ")
    )))
}

fn build(compiler: &str, folder: &Path, interrupt: &Interrupt) -> Result<Result<PathBuf, String>, Failure> {
    let (source, program) = (folder.join("allreduce.c"), folder.join("allreduce"));
    fs::write(&source, PROGRAM).map_err(Failure::io("write a program for MPI"))?;
    let mut compile = Command::new(compiler);
    compile.arg("-O2").arg(&source).arg("-o").arg(&program);
    let built = run_all([compile], interrupt)?;
    Ok(built
        .map(|_| program)
        .map_err(|reason| format!("{reason}: `apt-get install libopenmpi-dev gcc`")))
}

fn launch(
    launcher: &str,
    program: &Path,
    task: &Task,
    interrupt: &Interrupt,
) -> Result<Result<Vec<PeerFigures>, String>, Failure> {
    let mut best: Option<Vec<PeerFigures>> = None;
    let mut reasons = Vec::new();
    for algorithm in ALGORITHMS {
        let mut command = Command::new(launcher);
        command.args(OPTIONS.split_whitespace());
        command.args(["--mca", "coll_tuned_allreduce_algorithm", &algorithm.to_string()]);
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-run-as-root");
        }
        command.args(["-np", &task.ranks.to_string()]);
        command.arg(program).arg(&task.dtype).args(task.sizes());
        let run = run_all([command], interrupt)?.and_then(|said| figures(&said, task));
        match (run, &mut best) {
            (Ok(run), Some(best)) => keep_fastest(best, run),
            (Ok(run), None) => best = Some(run),
            // Another version may not have it.
            (Err(reason), _) => reasons.push(format!("with its algorithm {algorithm}: {reason}")),
        }
    }
    Ok(best.ok_or_else(|| reasons.join("; ")))
}

/// Of each size the run that took less time.
fn keep_fastest(best: &mut [PeerFigures], run: Vec<PeerFigures>) {
    for (best, run) in best.iter_mut().zip(run) {
        if typical(&run) < typical(best) {
            *best = run;
        }
    }
}

fn typical(run: &PeerFigures) -> Duration {
    let times = run
        .seconds
        .iter()
        .map(|seconds| Duration::from_secs_f64(*seconds));
    median(&sorted(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_size_the_fastest_run_counts() {
        let run = |bytes, seconds: [f64; 3]| PeerFigures {
            bytes,
            seconds: seconds.to_vec(),
            cpu: 1.0,
            sent: 1,
        };
        let mut best = vec![run(4, [1.0, 2.0, 9.0]), run(8, [3.0, 3.0, 3.0])];
        keep_fastest(&mut best, vec![run(4, [0.5, 3.0, 3.0]), run(8, [5.0, 2.0, 1.0])]);
        assert_eq!(best, [run(4, [1.0, 2.0, 9.0]), run(8, [5.0, 2.0, 1.0])]);
    }
}

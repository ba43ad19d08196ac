//! What else sums tensors, measured beside Tributary: Gloo (through PyTorch) and Open MPI, all ranks on this machine.
//!
//! Neither is needed to build or run Tributary: what is not installed is said, and left out.

mod gloo;
mod openmpi;

use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How often it is looked whether a process has ended, or Ctrl-C was pressed.
const LOOK_UP: Duration = Duration::from_millis(20);

/// How long all sizes may take together. A peer that hangs must not hang the benchmark.
const LIMIT: Duration = Duration::from_secs(600);

/// How long its processes may take to end when they are asked to.
const FAREWELL: Duration = Duration::from_secs(2);

/// Something else that sums tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// PyTorch's, over TCP
    Gloo,
    /// Over TCP, with the fastest of its algorithms
    Openmpi,
}

impl Peer {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gloo => "gloo",
            Self::Openmpi => "openmpi",
        }
    }
}

/// What a peer is to do: what we did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Processes, each a rank.
    pub ranks: u32,
    /// `f32` or `i32`.
    pub dtype: String,
    /// Bytes of each tensor, and how often it is summed.
    pub sizes: Vec<(u64, u32)>,
    /// The Python that has torch.
    pub python: String,
}

impl Task {
    fn sizes(&self) -> impl Iterator<Item = String> {
        self.sizes
            .iter()
            .map(|(bytes, iterations)| format!("{bytes}:{iterations}"))
    }
}

/// What a peer did for one size.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerFigures {
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Of each iteration, that of its slowest rank.
    pub seconds: Vec<f64>,
    /// Processor seconds of all ranks in all iterations.
    pub cpu: f64,
    /// Bytes that left by the loopback interface meanwhile.
    pub sent: u64,
}

/// Has a peer do the task. `Ok(Err)`: it is not installed, or does not work here, and why.
///
/// # Errors
/// Ctrl-C.
pub fn run(
    peer: Peer,
    task: &Task,
    interrupt: &Interrupt,
) -> Result<Result<Vec<PeerFigures>, String>, Failure> {
    match peer {
        Peer::Gloo => gloo::run(task, interrupt),
        Peer::Openmpi => openmpi::run(task, interrupt),
    }
}

/// Processes that are ended with this.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    /// A launcher ends its own processes if it is asked to, and cannot if it is killed.
    fn drop(&mut self) {
        let runs = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        for child in &mut self.0 {
            // The number of one that has been waited for may be another's by now.
            if runs(child) {
                let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
            }
        }
        let deadline = Instant::now() + FAREWELL;
        while self.0.iter_mut().any(runs) && Instant::now() < deadline {
            thread::sleep(LOOK_UP);
        }
        for child in &mut self.0 {
            if runs(child) {
                let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}

/// Runs commands side by side to their end; returns what the first one says, or why one failed.
fn run_all(
    commands: impl IntoIterator<Item = Command>,
    interrupt: &Interrupt,
) -> Result<Result<String, String>, Failure> {
    let mut ranks = Ranks(Vec::new());
    let mut readers = Vec::new();
    for mut command in commands {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its own, so that what it starts ends with it; and Ctrl-C comes to us alone.
            .process_group(0)
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return Ok(Err(not_started(&command, &error))),
        };
        readers.push((reader(child.stdout.take()), reader(child.stderr.take())));
        ranks.0.push(child);
    }
    let deadline = Instant::now() + LIMIT;
    let mut failed = None;
    while failed.is_none() {
        interrupt.check()?;
        let mut left = false;
        for (rank, child) in ranks.0.iter_mut().enumerate() {
            match child.try_wait() {
                Ok(None) => left = true,
                Ok(Some(status)) if status.success() => {}
                Ok(Some(status)) => failed = Some((rank, status.to_string())),
                Err(error) => failed = Some((rank, error.to_string())),
            }
        }
        if !left {
            break;
        }
        if Instant::now() > deadline {
            return Ok(Err(format!("it has not ended after {} s", LIMIT.as_secs())));
        }
        thread::sleep(LOOK_UP);
    }
    // Their pipes end with them.
    drop(ranks);
    let mut said = readers.into_iter().map(|(output, errors)| {
        (
            output.join().unwrap_or_default(),
            errors.join().unwrap_or_default(),
        )
    });
    Ok(match failed {
        None => Ok(said.next().unwrap_or_default().0),
        Some((rank, status)) => {
            let errors = said.nth(rank).unwrap_or_default().1;
            let last = errors.lines().rev().find(|line| !line.trim().is_empty());
            Err(format!(
                "it ended with {status}: {}",
                last.unwrap_or("it did not say why").trim()
            ))
        }
    })
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    let program = command.get_program().display();
    if error.kind() == ErrorKind::NotFound {
        format!("there is no {program}")
    } else {
        format!("{program} does not start: {error}")
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            // What could be read is all there is to say.
            let _ = pipe.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// The figures among what a peer has said.
fn figures(said: &str, task: &Task) -> Result<Vec<PeerFigures>, String> {
    // Launchers may have something to say, too.
    let objects = said.lines().filter(|line| line.starts_with('{'));
    let figures: Vec<PeerFigures> = objects
        .map(|line| serde_json::from_str(line).map_err(|error| format!("it said {line:?}: {error}")))
        .collect::<Result<_, _>>()?;
    let expected: Vec<(u64, usize)> = task
        .sizes
        .iter()
        .map(|(bytes, iterations)| (*bytes, *iterations as usize))
        .collect();
    let found: Vec<(u64, usize)> = figures
        .iter()
        .map(|size| (size.bytes, size.seconds.len()))
        .collect();
    if found == expected {
        Ok(figures)
    } else {
        Err(format!(
            "it measured {found:?} (bytes, iterations) instead of {expected:?}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task {
            ranks: 2,
            dtype: "f32".to_owned(),
            sizes: vec![(4096, 2)],
            python: "python3".to_owned(),
        }
    }

    #[test]
    fn figures_are_those_that_were_asked_for() {
        let line = r#"{"bytes": 4096, "cpu": 0.5, "sent": 10, "seconds": [0.25, 0.5]}"#;
        let read = figures(&format!("a word of the launcher\n{line}\n"), &task()).unwrap();
        assert_eq!((read[0].sent, read[0].seconds.len()), (10, 2));
        assert!(
            figures("", &task())
                .unwrap_err()
                .contains("instead of [(4096, 2)]")
        );
        assert!(figures("{}", &task()).unwrap_err().contains("missing field"));
        assert!(figures(&line.replace("0.25, ", ""), &task()).is_err());
    }

    #[test]
    fn what_is_not_there_or_fails_says_why() {
        let interrupt = Interrupt::default();
        let missing = run_all([Command::new("no-such-program")], &interrupt).unwrap();
        assert_eq!(missing.unwrap_err(), "there is no no-such-program");
        let shell = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            shell
        };
        // The one that waits for the other ends, too.
        let began = Instant::now();
        let failed = run_all([shell("sleep 100"), shell("echo why >&2; exit 3")], &interrupt).unwrap();
        assert_eq!(failed.unwrap_err(), "it ended with exit status: 3: why");
        assert!(began.elapsed() < Duration::from_secs(50));
        let said = run_all([shell("echo first"), shell("echo second")], &interrupt).unwrap();
        assert_eq!(said.unwrap(), "first\n");
    }
}

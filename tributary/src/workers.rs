//! The parent's side of its worker processes: starts them, reads their lines, ends and reaps them.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How often the parent looks for Ctrl-C while workers are silent.
const LOOK_UP: Duration = Duration::from_millis(50);

/// What a worker's error line begins with.
const ERROR_PREFIX: &str = "tributary: ";

/// Running worker processes. Dropping it kills and reaps those that are left.
#[derive(Debug)]
pub struct Workers {
    workers: Vec<Worker>,
    events: Receiver<Event>,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    /// Held open: its end tells the worker that this process is gone.
    _stdin: Option<ChildStdin>,
}

#[derive(Debug)]
enum Event {
    Line {
        rank: usize,
        line: String,
    },
    /// The worker closed its output: it has ended, or is about to. With what it said on standard error.
    End {
        rank: usize,
        errors: String,
    },
}

impl Workers {
    /// Starts one process a setup, each with this hidden command of this very program.
    pub fn spawn<S: Serialize>(command: &str, setups: &[S]) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(Failure::io("find the program itself"))?;
        let (sender, events) = channel();
        let mut started = Self {
            workers: Vec::with_capacity(setups.len()),
            events,
        };
        for (rank, setup) in setups.iter().enumerate() {
            let setup = serde_json::to_string(setup).map_err(|reason| Failure::Protocol {
                line: "a setup to be written".to_owned(),
                reason,
            })?;
            let mut child = Command::new(&program)
                .arg(command)
                // Ctrl-C goes to a terminal's foreground group: to the parent alone, which then ends the workers.
                .process_group(0)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|source| Failure::Spawn { rank, source })?;
            let mut stdin = child.stdin.take();
            let pipes = (child.stdout.take(), child.stderr.take());
            if let Some(stdin) = &mut stdin {
                // A worker that is gone already is found by its end.
                let _ = writeln!(stdin, "{setup}");
            }
            started.workers.push(Worker { child, _stdin: stdin });
            if let (Some(stdout), Some(stderr)) = pipes {
                listen(rank, stdout, stderr, sender.clone())
                    .map_err(|source| Failure::Spawn { rank, source })?;
            }
        }
        Ok(started)
    }

    /// Hands every line to `on_line` until all workers have ended well. The first one that fails is the error.
    pub fn run(
        mut self,
        interrupt: &Interrupt,
        mut on_line: impl FnMut(usize, &str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut left = self.workers.len();
        while left > 0 {
            interrupt.check()?;
            match self.events.recv_timeout(LOOK_UP) {
                Ok(Event::Line { rank, line }) => on_line(rank, &line)?,
                Ok(Event::End { rank, errors }) => {
                    self.reap(rank, &errors)?;
                    left -= 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Every listener has sent its end: nothing can be left.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    }

    fn reap(&mut self, rank: usize, errors: &str) -> Result<(), Failure> {
        let child = &mut self.workers[rank].child;
        let status = child
            .wait()
            .map_err(Failure::io(format!("wait for worker {rank}")))?;
        if status.success() {
            return Ok(());
        }
        if let Some(line) = errors
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(ERROR_PREFIX))
        {
            return Err(Failure::Worker(line.to_owned()));
        }
        if !errors.trim().is_empty() {
            let said = errors.split_whitespace().collect::<Vec<_>>().join(" ");
            return Err(Failure::Worker(format!(
                "worker {rank} ended with {status}: {said}"
            )));
        }
        let advice = match status.signal() {
            Some(9) => "was it killed by hand, or for lack of memory?",
            _ => "run again to see whether it repeats",
        };
        Err(Failure::WorkerDied {
            rank,
            process: child.id(),
            status,
            advice,
        })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // One that has ended already needs no more.
            let _ = worker.child.kill();
        }
        for worker in &mut self.workers {
            let _ = worker.child.wait();
        }
    }
}

/// Reads a worker's output in threads of its own, so that no worker ever waits for another's reader.
fn listen(
    rank: usize,
    stdout: ChildStdout,
    mut stderr: ChildStderr,
    events: Sender<Event>,
) -> std::io::Result<()> {
    let errors = thread::Builder::new().spawn(move || {
        let mut text = Vec::new();
        // What could be read is all there is to say.
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })?;
    thread::Builder::new().spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let Ok(line) = line else { break };
            // A parent that listens no more is about to end this worker.
            let _ = events.send(Event::Line { rank, line });
        }
        let errors = errors.join().unwrap_or_default();
        let _ = events.send(Event::End { rank, errors });
    })?;
    Ok(())
}

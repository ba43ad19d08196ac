//! Programs that run beside each other: what the comparisons start, wait for and end.

use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::interrupted;

/// Nothing that is waited for may take longer.
const LIMIT: Duration = Duration::from_secs(300);

/// How often it is looked whether that time is over, or we are to stop.
const LOOK_UP: Duration = Duration::from_millis(50);

/// A program that is ended when this is dropped.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Whether it has not ended yet.
    pub(crate) fn still_runs(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl From<Child> for Running {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program whose output nobody reads.
pub(crate) fn start(mut command: Command) -> Result<Running, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
        .spawn()
        .map(Running)
        .map_err(|error| format!("{} does not start: {error}", command.get_program().display()))
}

/// Runs ranks to their end, side by side; what hangs is ended.
pub(crate) fn all(commands: impl IntoIterator<Item = Command>) -> Result<Vec<Output>, String> {
    let outputs = to_their_end(commands, LIMIT)?;
    match outputs.iter().position(|output| !output.status.success()) {
        Some(rank) => Err(format!("rank {rank} {}", failure(&outputs[rank]))),
        None => Ok(outputs),
    }
}

/// Runs one program to its end, likewise. The caller knows its name.
pub(crate) fn one(command: Command) -> Result<Output, String> {
    let output = to_their_end([command], LIMIT)?.swap_remove(0);
    if output.status.success() {
        Ok(output)
    } else {
        Err(failure(&output))
    }
}

fn failure(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    format!("failed ({}): {}", output.status, said.trim())
}

/// However they end. At the limit, or if we are to stop, all are killed, and that is an error.
fn to_their_end(commands: impl IntoIterator<Item = Command>, limit: Duration) -> Result<Vec<Output>, String> {
    let mut children = Vec::new();
    for mut command in commands {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", command.get_program().display()))?;
        children.push(child);
    }
    let pids: Vec<Pid> = children.iter().map(Pid::from_child).collect();
    let (done, watch) = channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let deadline = Instant::now() + limit;
        loop {
            // All have ended when `done` is dropped.
            if watch.recv_timeout(LOOK_UP) == Err(RecvTimeoutError::Disconnected) {
                return Ok(());
            }
            let reason = match interrupted() {
                Some(signal) => format!("stopped by signal {signal}"),
                None if Instant::now() >= deadline => format!("not done after {} s", limit.as_secs()),
                None => continue,
            };
            for pid in pids {
                let _ = kill_process(pid, Signal::KILL);
            }
            return Err(reason);
        }
    });
    let outputs: Result<Vec<Output>, _> = children.into_iter().map(Child::wait_with_output).collect();
    drop(done);
    watchdog.join().map_err(|_| "the watchdog panicked")??;
    outputs.map_err(|error| format!("a program cannot be waited for: {error}"))
}

/// The middle one; of an even number the upper.
pub(crate) fn median(mut values: Vec<f64>) -> Result<f64, String> {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() / 2)
        .copied()
        .ok_or_else(|| "no figures: ask for one turn or more".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_rank_that_fails_is_named() {
        let outputs = all([shell("echo 1"), shell("echo 2")]).unwrap();
        assert_eq!(outputs[1].stdout, b"2\n");
        let error = all([shell("true"), shell("echo why >&2; exit 3")]).unwrap_err();
        assert!(error.contains("rank 1") && error.contains("why"), "{error}");
        let error = one(shell("echo why >&2; exit 3")).unwrap_err();
        assert_eq!(error, "failed (exit status: 3): why");
        assert_eq!(
            (median(vec![3.0, 1.0, 2.0]), median(vec![]).is_err()),
            (Ok(2.0), true)
        );
    }
    #[test]
    fn at_the_limit_all_are_ended() {
        let ranks = [shell("exec sleep 600"), shell("exec sleep 600")];
        let error = to_their_end(ranks, Duration::from_millis(100)).unwrap_err();
        assert_eq!(error, "not done after 0 s");
    }
}

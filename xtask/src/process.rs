//! Runs one program: its output streams through and is kept, it has a deadline, and nothing it started outlives it.

use std::io::{BufRead, BufReader, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cleanup;

/// How often a running program is looked after.
const POLL: Duration = Duration::from_millis(50);

/// From SIGTERM to SIGKILL. nextest puts each test in a group of its own, which only nextest can end, and gives
/// it 10 s.
const GRACE: Duration = Duration::from_secs(12);

/// The signal that asked us to stop, or 0.
static INTERRUPTED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// How a program ended.
pub(crate) enum End {
    /// By itself.
    Exited(ExitStatus),
    /// We ended it at its deadline.
    Late,
    /// It never began.
    NotStarted(io::Error),
}

/// A program that ended, and what it printed (standard output and error as they came, without colours).
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) lines: Vec<String>,
}

impl Finished {
    /// Whether it ended by itself, with status 0.
    pub(crate) fn is_ok(&self) -> bool {
        matches!(&self.end, End::Exited(status) if status.success())
    }
}

/// Whether what a program prints shows up at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Streamed,
    Quiet,
}

/// From now on SIGINT, SIGTERM and SIGHUP end the running program, clear up, and then end us.
pub(crate) fn watch_signals() {
    let flag = INTERRUPTED.get_or_init(Default::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let watched = signal_hook::flag::register_usize(signal, Arc::clone(flag), signal as usize);
        if let Err(error) = watched {
            eprintln!("cannot watch signal {signal}: {error}; stopping us will leave child processes behind");
        }
    }
}

/// Runs a program to its end, or to the deadline.
pub(crate) fn run(mut command: Command, deadline: Instant, output: Output) -> Finished {
    let (mut group, lines) = match Group::start(&mut command) {
        Ok(started) => started,
        Err(error) => {
            return Finished {
                end: End::NotStarted(error),
                lines: Vec::new(),
            };
        }
    };
    // The command holds the pipe's writing end: while it lives, the reader never sees the end.
    drop(command);
    let mut kept = Vec::new();
    let mut keep = |line: String| {
        if output == Output::Streamed {
            println!("{line}");
        }
        kept.push(without_colours(&line));
    };
    let end = loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => keep(line),
            Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL),
            Err(RecvTimeoutError::Timeout) => {}
        }
        exit_if_interrupted(&mut group);
        if group.has_ended() {
            break group.stop().map_or_else(End::NotStarted, End::Exited);
        }
        if Instant::now() >= deadline {
            let _ = group.stop();
            break End::Late;
        }
    };
    // What is still in the pipe. A process that left the group may hold it open: do not wait for that one.
    while let Ok(line) = lines.recv_timeout(POLL) {
        keep(line);
    }
    Finished { end, lines: kept }
}

/// A child and all that it starts, as a process group of its own.
struct Group {
    child: Child,
    pid: Pid,
    stopped: bool,
}

impl Group {
    fn start(command: &mut Command) -> io::Result<(Self, Receiver<String>)> {
        let (reader, writer) = io::pipe()?;
        command
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0);
        if io::stdout().is_terminal() {
            // It sees a pipe and would print without colours.
            command.env("CARGO_TERM_COLOR", "always");
        }
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(reader);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                let text = String::from_utf8_lossy(&line)
                    .trim_end_matches(['\n', '\r'])
                    .to_owned();
                if sender.send(text).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Ok((
            Self {
                child,
                pid,
                stopped: false,
            },
            lines,
        ))
    }

    /// Whether the child has ended. It stays a zombie, so that its number cannot be another's when it is signalled.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.pid), options), Ok(None))
    }

    /// Ends what is left of the group, gently first, and collects the child.
    fn stop(&mut self) -> io::Result<ExitStatus> {
        let _ = kill_process_group(self.pid, Signal::TERM);
        let patience = Instant::now() + GRACE;
        while !self.has_ended() && Instant::now() < patience {
            thread::sleep(POLL);
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        self.stopped = true;
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only after a panic of ours.
        if !self.stopped {
            let _ = self.stop();
        }
    }
}

/// The signal that asked us to stop, if one did.
pub(crate) fn interrupted() -> Option<usize> {
    let signal = INTERRUPTED.get()?.load(Ordering::Relaxed);
    (signal != 0).then_some(signal)
}

fn exit_if_interrupted(group: &mut Group) {
    if let Some(signal) = interrupted() {
        eprintln!("stopped by signal {signal}");
        let _ = group.stop();
        cleanup::namespaces();
        // What a shell reports for a program that a signal ended.
        std::process::exit(128 + signal as i32);
    }
}

/// A line without its escape sequences (`ESC [ … letter`).
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(
            piece
                .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
                .get(1..)
                .unwrap_or_default(),
        );
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Finished {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, Instant::now() + limit, Output::Quiet)
    }

    #[test]
    fn output_and_errors_are_kept_in_order() {
        let finished = shell("echo one; echo two >&2; echo three", Duration::from_secs(10));
        assert!(finished.is_ok());
        assert_eq!(finished.lines, ["one", "two", "three"]);
    }

    #[test]
    fn a_status_other_than_zero_is_not_ok() {
        assert!(!shell("exit 3", Duration::from_secs(10)).is_ok());
    }

    #[test]
    fn the_deadline_ends_a_program_and_what_it_started() {
        let begin = Instant::now();
        let finished = shell("sleep 600 & echo $!; wait", Duration::from_millis(300));
        assert!(matches!(finished.end, End::Late));
        assert!(begin.elapsed() < Duration::from_secs(5));
        assert!(!runs(&finished.lines[0]));
    }

    #[test]
    fn what_a_program_leaves_behind_is_ended() {
        let finished = shell("sleep 600 & echo $!", Duration::from_secs(10));
        assert!(finished.is_ok());
        assert!(!runs(&finished.lines[0]));
    }

    #[test]
    fn colours_are_stripped() {
        assert_eq!(without_colours("\u{1b}[1m\u{1b}[32mok\u{1b}[0m."), "ok.");
    }

    /// Gives a killed process a moment to go; one that nobody waits for stays a zombie, which is dead enough.
    fn runs(process: &str) -> bool {
        thread::sleep(Duration::from_millis(100));
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        status
            .lines()
            .any(|line| line.starts_with("State:") && !line.contains("zombie"))
    }
}

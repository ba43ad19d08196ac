//! Processes that end with the test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Nothing in a test may take longer.
pub const LIMIT: Duration = Duration::from_secs(120);

/// How often it is looked whether a process has ended.
const POLL: Duration = Duration::from_millis(10);

/// A process that is ended with the test.
pub struct Process(Child);

impl Process {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        let child = command.spawn();
        Self(
            child.unwrap_or_else(|error| {
                panic!("{} does not start: {error}", command.get_program().display())
            }),
        )
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// SIGTERM, as a service manager ends it; returns how it ended.
    pub fn stop(&mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it runs");
        self.wait(LIMIT)
    }

    /// Ends what it reads on its standard input, a pipe.
    pub fn close_input(&mut self) {
        drop(self.0.stdin.take());
    }

    /// How it ends, which it does within this time.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < deadline, "a process runs on after {limit:?}");
            thread::sleep(POLL);
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_some()
    }

    /// What it has said on standard error, a pipe, to its end.
    pub fn complaint(&mut self) -> String {
        let mut text = String::new();
        let pipe = self.0.stderr.as_mut().expect("a pipe");
        pipe.read_to_string(&mut text).expect("text");
        text
    }

    /// What it says on a pipe, line by line.
    pub fn lines(&mut self, of: Output) -> Receiver<String> {
        let output: Box<dyn Read + Send> = match of {
            Output::Standard => Box::new(self.0.stdout.take().expect("a pipe")),
            Output::Error => Box::new(self.0.stderr.take().expect("a pipe")),
        };
        let (sender, lines) = channel();
        // Read to its end in any case: a full pipe would stop the process.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if is_verbose() {
                    eprintln!("{line}");
                }
                let _ = sender.send(line);
            }
        });
        lines
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Which of a process's outputs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// What it says.
    Standard,
    /// What it complains of.
    Error,
}

pub(crate) fn is_verbose() -> bool {
    std::env::var_os("TRIBUTARY_TEST_LOG").is_some()
}

/// Where what nobody reads goes.
pub(crate) fn unread() -> Stdio {
    if is_verbose() {
        Stdio::inherit()
    } else {
        Stdio::null()
    }
}

//! Running the command, and an aggregator to run it against.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Nothing here may take longer; whatever does is killed and fails its test.
const LIMIT: Duration = Duration::from_secs(40);

/// What a command did.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A running command. Killed with this value.
pub struct Running {
    child: Child,
    output: Option<(thread::JoinHandle<String>, thread::JoinHandle<String>)>,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn read_all(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    })
}

/// Starts a command.
pub fn start(args: &[&str]) -> Running {
    let mut child = command(args).spawn().unwrap();
    let output = (
        read_all(child.stdout.take().unwrap()),
        read_all(child.stderr.take().unwrap()),
    );
    Running {
        child,
        output: Some(output),
    }
}

/// Runs a command to its end.
pub fn run(args: &[&str]) -> Outcome {
    start(args).end()
}

/// Runs a command that must succeed; returns its standard output.
pub fn succeed(args: &[&str]) -> String {
    let outcome = run(args);
    assert!(outcome.status.success(), "{args:?}: {outcome:?}");
    outcome.stdout
}

/// Runs a command that must fail with this status; returns its one line of error.
pub fn fail(args: &[&str], status: i32) -> String {
    let outcome = run(args);
    assert_eq!(outcome.status.code(), Some(status), "{args:?}: {outcome:?}");
    outcome.error_line()
}

impl Outcome {
    /// The one line of error.
    pub fn error_line(&self) -> String {
        let lines: Vec<_> = self.stderr.lines().collect();
        assert!(
            lines.len() == 1 && lines[0].starts_with("tributary: "),
            "{self:?}"
        );
        lines[0].to_owned()
    }
}

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the end.
    pub fn end(mut self) -> Outcome {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "still running after {LIMIT:?}");
            thread::sleep(Duration::from_millis(10));
        };
        let (stdout, stderr) = self.output.take().unwrap();
        Outcome {
            status,
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
        }
    }

    /// Its worker processes, once there are so many.
    pub fn workers(&self, count: usize) -> Vec<Pid> {
        let begun = Instant::now();
        loop {
            let workers = children(self.pid());
            if workers.len() == count {
                return workers;
            }
            assert!(begun.elapsed() < LIMIT, "{} of {count} workers", workers.len());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// State and parent of a process, as /proc has them.
fn process_stat(pid: Pid) -> Option<(char, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name in front may hold anything, so count from its end.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn children(parent: Pid) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let pids = pids.filter_map(Pid::from_raw);
    let parent = parent.as_raw_nonzero().get();
    pids.filter(|pid| process_stat(*pid).is_some_and(|(_, of)| of == parent))
        .collect()
}

/// Waits until these processes run no more.
pub fn assert_all_end(pids: &[Pid]) {
    let begun = Instant::now();
    let runs = |pid: &&Pid| process_stat(**pid).is_some_and(|(state, _)| state != 'Z');
    while let Some(pid) = pids.iter().find(runs) {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "process {pid:?} still runs"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// A running aggregator on ports that the kernel chose. Killed with this value.
pub struct Server {
    child: Child,
    /// Where ranks register.
    pub control: String,
    /// Where shard 0 receives.
    pub data: String,
    rest: Option<thread::JoinHandle<String>>,
}

/// Starts an aggregator.
pub fn serve() -> Server {
    serve_with(&[])
}

/// Starts an aggregator with more arguments.
pub fn serve_with(more: &[&str]) -> Server {
    let args = [
        "serve",
        "--control-addr",
        "127.0.0.1:0",
        "--data-addr",
        "127.0.0.1:0",
        "--memory",
        "16",
    ];
    let mut child = command(&[&args, more].concat())
        .env("RUST_LOG", "off")
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let after = |word: &str| {
        let text = line
            .split_once(word)
            .unwrap_or_else(|| panic!("no '{word}' in '{line}'"))
            .1;
        text.split([',', ' ']).next().unwrap().to_owned()
    };
    let (control, data) = (after("control "), after("data "));
    Server {
        child,
        control,
        data,
        rest: Some(read_all(stderr)),
    }
}

impl Server {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; what it said after its first line.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        (status, self.rest.take().unwrap().join().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks again and again until what is seen will do.
pub fn wait_for(look: impl Fn() -> String, will_do: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let text = look();
        if will_do(&text) {
            return text;
        }
        assert!(begun.elapsed() < Duration::from_secs(15), "still:\n{text}");
        thread::sleep(Duration::from_millis(50));
    }
}

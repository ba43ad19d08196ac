//! Aggregators and ranks as processes in namespaces.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use testnet::Host;

/// Nothing here may take longer.
const LIMIT: Duration = Duration::from_secs(120);

/// A process that is ended with the test.
pub struct Process(Child);

impl Process {
    /// SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An aggregator on `host`, a leaf of `parent`'s if there is one.
pub fn serve(host: &Host, parent: Option<&Host>) -> Process {
    let config = std::env::temp_dir().join(format!("tributary-tree-{}.toml", std::process::id()));
    std::fs::write(&config, "[control]\nlost_after = 3\nheartbeat = 0.5\n").expect("a file");
    let address = host.address();
    let mut serve = host.command(env!("CARGO_BIN_EXE_tributary"));
    serve.args(["serve", "--control-addr", &format!("{address}:4600")]);
    serve.args(["--data-addr", &format!("{address}:4601"), "--config"]);
    serve.arg(config);
    if let Some(parent) = parent {
        serve.args(["--parent", &format!("{}:4600", parent.address())]);
    }
    let (process, lines) = start(&mut serve, Stdio::null(), Stdio::piped());
    loop {
        let line = lines.recv_timeout(LIMIT).expect("the aggregator starts");
        if line.starts_with("aggregating: ") {
            return process;
        }
    }
}

/// A rank that runs.
pub struct Rank {
    process: Process,
    lines: Receiver<String>,
}

/// What a rank has said.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The digest of each result.
    pub sums: Vec<String>,
    pub error: Option<String>,
}

impl Rank {
    pub fn start(mut command: Command) -> Self {
        let (process, lines) = start(&mut command, Stdio::piped(), Stdio::null());
        Self { process, lines }
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// What it says until it has `sums` results, or ends.
    pub fn hear(&self, sums: usize) -> Said {
        let deadline = Instant::now() + LIMIT;
        let mut said = Said::default();
        while said.sums.len() < sums {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                assert!(Instant::now() < deadline, "a rank hangs after {said:?}");
                break;
            };
            if line.starts_with("sum ") {
                said.sums.push(line);
            } else if let Some(error) = line.strip_prefix("error ") {
                said.error = Some(error.to_owned());
            }
        }
        said
    }

    /// All that it says to its end.
    pub fn hear_all(&self) -> Said {
        self.hear(usize::MAX)
    }
}

fn start(command: &mut Command, stdout: Stdio, stderr: Stdio) -> (Process, Receiver<String>) {
    let command = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let mut child = command.spawn().expect("a process starts");
    let output: Box<dyn std::io::Read + Send> = match (child.stdout.take(), child.stderr.take()) {
        (Some(stdout), _) => Box::new(stdout),
        (None, Some(stderr)) => Box::new(stderr),
        (None, None) => Box::new(std::io::empty()),
    };
    let verbose = std::env::var_os("TRIBUTARY_TREE_LOG").is_some();
    let (sender, lines) = channel();
    // Read to its end in any case: a full pipe would stop the process.
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if verbose {
                eprintln!("{line}");
            }
            let _ = sender.send(line);
        }
    });
    (Process(child), lines)
}

//! Aggregators.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use testnet::Host;

use crate::process::{LIMIT, Output, Process};
use crate::program::tributary;

/// Where ranks register.
pub const CONTROL_PORT: u16 = 4600;

/// Where packets are received.
pub const DATA_PORT: u16 = 4601;

/// After so many seconds aggregators see that somebody is gone.
const LOST_AFTER: u32 = 3;

/// The same where somebody is started again, which takes seconds on a busy machine.
const PATIENCE: u32 = 15;

/// How an aggregator is started.
#[derive(Clone, Debug)]
pub struct Server {
    program: PathBuf,
    arguments: Vec<String>,
    anywhere: bool,
    data: Option<IpAddr>,
    lost_after: u32,
}

impl Server {
    /// A program with its own arguments; those that all aggregators have are added.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            anywhere: false,
            data: None,
            lost_after: LOST_AFTER,
        }
    }

    /// The same with more arguments.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments
            .extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// The same at all addresses of its host.
    #[must_use]
    pub fn anywhere(mut self) -> Self {
        self.anywhere = true;
        self
    }

    /// The same with packets received at another address than that of its host.
    #[must_use]
    pub fn receiving_at(mut self, data: IpAddr) -> Self {
        self.data = Some(data);
        self
    }

    /// The same, but who is gone has time to come back.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.lost_after = PATIENCE;
        self
    }

    /// Starts it on a host, as a leaf of `parent`'s if there is one, and returns when it serves.
    pub fn start(&self, host: &Host, parent: Option<&Host>) -> Process {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let config = format!("tributary-testjob-{}-{number}.toml", std::process::id());
        let config = std::env::temp_dir().join(config);
        let settings = format!("[control]\nlost_after = {}\nheartbeat = 0.5\n", self.lost_after);
        fs::write(&config, settings).expect("a file");
        let address = if self.anywhere {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            host.address()
        };
        let mut serve = host.command(&self.program);
        serve.args(&self.arguments);
        let control = SocketAddr::new(address, CONTROL_PORT);
        let data = SocketAddr::new(self.data.unwrap_or(address), DATA_PORT);
        serve.args([
            "--control-addr",
            &control.to_string(),
            "--data-addr",
            &data.to_string(),
        ]);
        serve.arg("--config").arg(&config);
        if let Some(parent) = parent {
            let parent = SocketAddr::new(parent.address(), CONTROL_PORT);
            serve.args(["--parent", &parent.to_string()]);
        }
        serve
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = Process::start(&mut serve);
        let lines = process.lines(Output::Error);
        let deadline = Instant::now() + LIMIT;
        let mut said = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else {
                let _ = fs::remove_file(&config);
                panic!("the aggregator does not start; it says {said:#?}");
            };
            if line.starts_with("aggregating: ") {
                let _ = fs::remove_file(&config);
                return process;
            }
            said.push(line);
        }
    }
}

/// What the aggregator on a host has counted, by name.
pub fn counters(host: &Host) -> BTreeMap<String, u64> {
    let mut status = host.command(tributary());
    status.args(["status", "--json", "--aggregator"]);
    status.arg(SocketAddr::new(host.address(), CONTROL_PORT).to_string());
    let output = status.output().expect("the command line starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let status: Result<serde_json::Value, _> = serde_json::from_str(&text);
    let status = status.unwrap_or_else(|error| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        panic!("no status: {error}: {text} {stderr}")
    });
    let counters = status["total"].as_object().expect("counters").iter();
    counters
        .map(|(name, count)| (name.clone(), count.as_u64().expect("a count")))
        .collect()
}

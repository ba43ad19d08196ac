//! Aggregators in processes of their own, which can be killed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A `tributary serve`. Killed with this value.
pub struct Server {
    child: Child,
    shards: u16,
    parent: Option<String>,
    pub control: String,
    pub data: String,
}

impl Server {
    pub fn start(shards: u16) -> Self {
        Self::start_at(shards, None, "127.0.0.1:0", "127.0.0.1:0")
    }

    /// A leaf of another one.
    pub fn start_leaf(parent: &Server) -> Self {
        let shards = parent.shards;
        Self::start_at(shards, Some(parent.control.clone()), "127.0.0.1:0", "127.0.0.1:0")
    }

    fn start_at(shards: u16, parent: Option<String>, control: &str, data: &str) -> Self {
        static CONFIGS: AtomicU32 = AtomicU32::new(0);
        let number = CONFIGS.fetch_add(1, Ordering::Relaxed);
        let config = format!("tributary-failover-{}-{number}.toml", std::process::id());
        let config = std::env::temp_dir().join(config);
        std::fs::write(&config, "[control]\nlost_after = 3\nheartbeat = 0.5\n").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tributary"))
            .args(["serve", "--control-addr", control, "--data-addr", data])
            .args(["--shards", &shards.to_string(), "--config"])
            .arg(&config)
            .args(parent.iter().flat_map(|parent| ["--parent", parent]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let summary = loop {
            let before = said.len();
            assert!(lines.read_line(&mut said).unwrap() > 0, "no aggregator: {said}");
            if let Some(summary) = said[before..].strip_prefix("aggregating: ") {
                break summary.to_owned();
            }
        };
        std::fs::remove_file(&config).unwrap();
        let verbose = std::env::var_os("TRIBUTARY_FAILOVER_LOG").is_some();
        thread::spawn(move || {
            // A full pipe would stop it.
            for line in lines.by_ref().lines().map_while(Result::ok) {
                if verbose {
                    eprintln!("{line}");
                }
            }
        });
        let after = |word: &str| {
            let at = summary.find(word).unwrap() + word.len();
            summary[at..].split([',', ' ']).next().unwrap().to_owned()
        };
        Self {
            shards,
            parent,
            control: after("control "),
            data: after("data "),
            child,
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, as a service manager stops it.
    pub fn stop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }

    /// SIGSTOP, and SIGCONT after a while.
    pub fn stall(&self, time: Duration) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        thread::sleep(time);
        kill_process(pid, Signal::CONT).unwrap();
    }

    /// Another process on the same ports.
    pub fn restart(&mut self) {
        self.kill();
        let (control, data) = (self.control.clone(), self.data.clone());
        *self = Self::start_at(self.shards, self.parent.clone(), &control, &data);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

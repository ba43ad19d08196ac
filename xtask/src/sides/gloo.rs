//! Gloo, through PyTorch.

use std::process::{Command, Output};
use std::time::Duration;

use testnet::Host;

use crate::running::{all, one};

const PROGRAM: &str = "xtask/src/sides/gloo.py";

/// Whether a Python interpreter has it.
pub(crate) fn check(python: &str) -> Result<(), String> {
    let mut import = Command::new(python);
    import.args(["-c", "import torch.distributed"]);
    one(import)
        .map(drop)
        .map_err(|_| format!("{python} has no torch: `pip install torch`, or name another with --python"))
}

/// What Gloo does.
pub(crate) struct Gloo<'a> {
    pub(crate) python: &'a str,
    pub(crate) bytes: u64,
    pub(crate) iterations: usize,
    /// The last rank begins each operation so much later.
    pub(crate) delay: Duration,
}

impl Gloo<'_> {
    /// Runs it with a rank on each host; the seconds of each iteration, by rank.
    pub(crate) fn run(&self, hosts: &[Host], turn: usize) -> Result<Vec<Vec<f64>>, String> {
        let commands = hosts.iter().enumerate().map(|(rank, host)| {
            let mut gloo = host.command(self.python);
            gloo.env("MASTER_ADDR", hosts[0].address().to_string())
                .env("GLOO_SOCKET_IFNAME", "eth0");
            self.tell(gloo, rank, hosts.len(), turn)
        });
        Self::seconds(&all(commands)?)
    }

    /// Runs it with so many ranks on this machine; the seconds of each iteration, by rank.
    pub(crate) fn run_here(&self, ranks: usize, turn: usize) -> Result<Vec<Vec<f64>>, String> {
        let commands = (0..ranks).map(|rank| {
            let mut gloo = Command::new(self.python);
            gloo.env("MASTER_ADDR", "127.0.0.1")
                .env("GLOO_SOCKET_IFNAME", "lo");
            self.tell(gloo, rank, ranks, turn)
        });
        Self::seconds(&all(commands)?)
    }

    /// What is the same wherever a rank is.
    fn tell(&self, mut gloo: Command, rank: usize, ranks: usize, turn: usize) -> Command {
        let last = rank + 1 == ranks;
        let delay = if last { self.delay } else { Duration::ZERO };
        gloo.args([PROGRAM, &self.bytes.to_string(), &self.iterations.to_string()]);
        gloo.arg(delay.as_secs_f64().to_string());
        gloo.env("RANK", rank.to_string())
            .env("WORLD_SIZE", ranks.to_string())
            // Another port each turn: the last one's may linger.
            .env("MASTER_PORT", (29_500 + turn).to_string());
        gloo
    }

    fn seconds(outputs: &[Output]) -> Result<Vec<Vec<f64>>, String> {
        String::from_utf8_lossy(&outputs[0].stdout)
            .lines()
            .map(|line| serde_json::from_str(line).map_err(|_| format!("gloo printed: {line}")))
            .collect()
    }
}

/// The slowest rank of each iteration.
pub(crate) fn slowest(iterations: &[Vec<f64>]) -> Vec<f64> {
    let slowest = |seconds: &Vec<f64>| seconds.iter().copied().fold(0.0, f64::max);
    iterations.iter().map(slowest).collect()
}

//! The two sides of the comparisons, Tributary and Gloo, each with its ranks on hosts of a test network.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use testnet::Host;

use crate::running::{Running, all, start};
use crate::step::cargo;

pub(crate) const TRIBUTARY: &str = "target/release/tributary";
const GLOO: &str = "xtask/src/gloo.py";

/// Builds our side, and sees whether the other one is there.
pub(crate) fn prepare(python: Option<&str>) -> Result<(), String> {
    if let Some(python) = python {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".into());
        }
        let torch = Command::new(python)
            .args(["-c", "import torch.distributed"])
            .output();
        if !torch.is_ok_and(|output| output.status.success()) {
            return Err(format!(
                "{python} has no torch: `pip install torch`, or name another with --python"
            ));
        }
    }
    let build = cargo("build --release --package tributary").status();
    if build.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err("tributary does not build".into())
    }
}

/// The exit status of a command; what went wrong is said.
pub(crate) fn exit(command: &str, outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {command}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The control address of the aggregator on a host.
pub(crate) fn control(host: &Host) -> String {
    format!("{}:4600", host.address())
}

/// Starts an aggregator on a host. Ranks wait for it, so nobody else needs to.
pub(crate) fn serve(host: &Host, options: &[&str]) -> Result<Running, String> {
    let mut serve = host.command(TRIBUTARY);
    serve.args(["serve", "--control-addr", &control(host)]);
    serve.args(["--data-addr", &format!("{}:4601", host.address())]);
    serve.args(options);
    start(serve)
}

/// An aggregator on loopback.
pub(crate) struct Here {
    pub(crate) aggregator: Running,
    pub(crate) control: String,
    pub(crate) data: String,
    /// What it says of itself.
    pub(crate) said: String,
}

/// Starts an aggregator on loopback, on ports that the kernel chooses.
pub(crate) fn serve_here(options: &[&str]) -> Result<Here, String> {
    let mut command = Command::new(TRIBUTARY);
    command.args([
        "serve",
        "--control-addr",
        "127.0.0.1:0",
        "--data-addr",
        "127.0.0.1:0",
    ]);
    command.args(options);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child: Child = command
        .spawn()
        .map_err(|error| format!("the aggregator does not start: {error}"))?;
    let stderr = child.stderr.take();
    let aggregator = Running::from(child);
    let mut lines = BufReader::new(stderr.ok_or("the aggregator has no output")?).lines();
    let after = |line: &str, word: &str| {
        let rest = line.split(word).nth(1)?;
        rest.split([',', ' ']).next().map(str::to_owned)
    };
    for line in lines.by_ref().map_while(Result::ok) {
        if let (Some(control), Some(data)) = (after(&line, "control "), after(&line, "data ")) {
            // Read on: a full pipe would stop it.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(Here {
                aggregator,
                control,
                data,
                said: line,
            });
        }
    }
    Err("the aggregator ended without naming its addresses".into())
}

/// Runs `tributary bench` with a rank on each host; what rank 0 says. `aggregator` and `options` are asked for each rank.
pub(crate) fn bench(
    hosts: &[Host],
    aggregator: impl Fn(usize) -> String,
    options: impl Fn(usize) -> Vec<String>,
) -> Result<Value, String> {
    let commands = hosts.iter().enumerate().map(|(rank, host)| {
        let mut bench = host.command(TRIBUTARY);
        bench.args(["bench", "allreduce", "--json", "--world", "compare"]);
        bench.args(["--aggregator", &aggregator(rank)]);
        bench.args([
            "--rank",
            &rank.to_string(),
            "--world-size",
            &hosts.len().to_string(),
        ]);
        bench.args(options(rank));
        bench
    });
    let outputs = all(commands)?;
    figures(&outputs[0].stdout)
}

/// The object that `tributary bench --json` prints for one size.
pub(crate) fn figures(stdout: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(stdout)
        .map_err(|error| format!("no figures ({error}) in: {}", String::from_utf8_lossy(stdout)))
}

/// A number in them.
pub(crate) fn number(figures: &Value, name: &str) -> Result<f64, String> {
    figures[name]
        .as_f64()
        .ok_or_else(|| format!("no {name} in {figures}"))
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
        gloo.args([GLOO, &self.bytes.to_string(), &self.iterations.to_string()]);
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

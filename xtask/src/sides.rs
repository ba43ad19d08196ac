//! The sides of the comparisons, each with its ranks on hosts of a test network: Tributary here, its peers below.

pub(crate) mod gloo;
pub(crate) mod openmpi;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

use serde_json::Value;
use testnet::Host;

use crate::needs::is_root;
use crate::running::{Running, all, start};
use crate::step::cargo;

pub(crate) const TRIBUTARY: &str = "target/release/tributary";

/// Whether we may make network namespaces.
pub(crate) fn root() -> Result<(), String> {
    if is_root() {
        Ok(())
    } else {
        Err("network namespaces need root".into())
    }
}

/// Builds our side.
pub(crate) fn build() -> Result<(), String> {
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

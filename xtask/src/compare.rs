//! `cargo xtask compare`: Tributary and Gloo side by side, in one run, in network namespaces with limited links.
//!
//! Each rank has a namespace; its link has the given rate in both directions. The aggregator has a namespace with an
//! unlimited link: in-network aggregation presumes that the network's core is not the bottleneck. The two take turns,
//! so that a machine whose speed drifts harms both alike.

use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::Duration;

use testnet::{Host, Link, Net};

/// What to compare.
#[derive(clap::Args)]
pub(crate) struct Compare {
    /// Ranks, each on a host of its own.
    #[arg(long, default_value_t = 4)]
    ranks: usize,
    /// Rate of each rank's link, in tc's notation; `none` for unlimited.
    #[arg(long, default_value = "1gbit")]
    rate: String,
    /// Bytes of the tensor, a multiple of 4.
    #[arg(long, default_value_t = 100 << 20)]
    bytes: u64,
    /// Turns of each side; a turn measures 3 iterations.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Share of packets that Tributary's workers lose on purpose, each way. Gloo's are not touched.
    #[arg(long, default_value = "0%")]
    loss: String,
    /// A Python interpreter that has torch, for Gloo.
    #[arg(long, default_value = "python3")]
    python: String,
}

const ITERATIONS: usize = 3;
const TRIBUTARY: &str = "target/release/tributary";
const GLOO: &str = "xtask/src/gloo.py";

/// Builds, measures and prints; the exit status says whether both sides ran.
pub(crate) fn run(compare: &Compare) -> ExitCode {
    match measure(compare) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(compare: &Compare) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("network namespaces need root".into());
    }
    let torch = Command::new(&compare.python)
        .args(["-c", "import torch.distributed"])
        .output();
    if !torch.is_ok_and(|output| output.status.success()) {
        return Err(format!(
            "{} has no torch: `pip install torch`, or name another with --python",
            compare.python
        ));
    }
    let build = Command::new("cargo")
        .args(["build", "--release", "--package", "tributary"])
        .status();
    if !build.is_ok_and(|status| status.success()) {
        return Err("tributary does not build".into());
    }
    let mut net = Net::new("trib-cmp").map_err(|error| error.to_string())?;
    let mut host = |name: &str, link: Link| net.add_host(name, link).map_err(|error| error.to_string());
    let aggregator = host("agg", Link::default())?;
    let rate = (compare.rate != "none").then(|| compare.rate.clone());
    let ranks = (0..compare.ranks).map(|rank| {
        host(
            &format!("r{rank}"),
            Link {
                rate: rate.clone(),
                ..Link::default()
            },
        )
    });
    let ranks: Vec<Host> = ranks.collect::<Result<_, _>>()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..compare.turns {
        ours.extend(tributary(compare, &aggregator, &ranks)?);
        theirs.extend(gloo(compare, &ranks, turn)?);
    }
    let (ours, theirs) = (median(&mut ours)?, median(&mut theirs)?);
    println!(
        "{} ranks, {} a link, {} bytes of f32, loss {}: medians of {} iterations",
        compare.ranks,
        compare.rate,
        compare.bytes,
        compare.loss,
        compare.turns * ITERATIONS
    );
    let bandwidth = |seconds: f64| compare.bytes as f64 / seconds / 1e9;
    println!("  tributary {:.4} s  {:.4} GB/s", ours, bandwidth(ours));
    println!("  gloo      {:.4} s  {:.4} GB/s", theirs, bandwidth(theirs));
    let ring = 2.0 * (compare.ranks as f64 - 1.0) / compare.ranks as f64;
    println!(
        "  ratio     {:.2} (a ring moves {ring:.2} times the bytes)",
        theirs / ours
    );
    Ok(())
}

/// Ends what it holds when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tributary(compare: &Compare, aggregator: &Host, ranks: &[Host]) -> Result<Vec<f64>, String> {
    let address = aggregator.address();
    let control = format!("{address}:4600");
    let mut serve = aggregator.command(TRIBUTARY);
    serve.args([
        "serve",
        "--control-addr",
        &control,
        "--data-addr",
        &format!("{address}:4601"),
    ]);
    let serve = serve.stderr(Stdio::null()).stdout(Stdio::null()).spawn();
    let _serve = Running(serve.map_err(|error| format!("the aggregator does not start: {error}"))?);
    let mut medians = Vec::new();
    for _ in 0..ITERATIONS {
        let outputs = all(ranks, |rank, host| {
            let mut bench = host.command(TRIBUTARY);
            bench.args([
                "bench",
                "allreduce",
                "--json",
                "--world",
                "compare",
                "--aggregator",
                &control,
            ]);
            bench.args([
                "--rank",
                &rank.to_string(),
                "--world-size",
                &ranks.len().to_string(),
            ]);
            bench.args([
                "--bytes",
                &compare.bytes.to_string(),
                "--iterations",
                "1",
                "--loss",
                &compare.loss,
            ]);
            bench
        })?;
        let text = String::from_utf8_lossy(&outputs[0].stdout).into_owned();
        let seconds = text
            .split("\"median_seconds\":")
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        medians.push(
            seconds
                .and_then(|seconds| seconds.parse().ok())
                .ok_or(format!("no figures in: {text}"))?,
        );
    }
    Ok(medians)
}

fn gloo(compare: &Compare, ranks: &[Host], turn: usize) -> Result<Vec<f64>, String> {
    let outputs = all(ranks, |rank, host| {
        let mut gloo = host.command(&compare.python);
        gloo.args([GLOO, &compare.bytes.to_string(), &ITERATIONS.to_string()]);
        gloo.env("RANK", rank.to_string())
            .env("WORLD_SIZE", ranks.len().to_string());
        gloo.env("MASTER_ADDR", ranks[0].address().to_string());
        // Another port each turn: the last one's may linger.
        gloo.env("MASTER_PORT", (29_500 + turn).to_string())
            .env("GLOO_SOCKET_IFNAME", "eth0");
        gloo
    })?;
    let text = String::from_utf8_lossy(&outputs[0].stdout).into_owned();
    text.lines()
        .map(|line| line.parse().map_err(|_| format!("gloo printed: {line}")))
        .collect()
}

/// Runs one process a rank to their end; a process that hangs is ended.
fn all(ranks: &[Host], command: impl Fn(usize, &Host) -> Command) -> Result<Vec<Output>, String> {
    let children = ranks.iter().enumerate().map(|(rank, host)| {
        let mut command = command(rank, host);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .spawn()
            .map_err(|error| format!("rank {rank} does not start: {error}"))
    });
    let children = children.collect::<Result<Vec<_>, _>>()?;
    let pids: Vec<_> = children.iter().map(rustix::process::Pid::from_child).collect();
    let (done, watch) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        // Ended by `done` being dropped; else the time is over.
        if watch.recv_timeout(Duration::from_secs(180)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            for pid in pids {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    });
    let outputs: Result<Vec<_>, _> = children.into_iter().map(Child::wait_with_output).collect();
    drop(done);
    watchdog.join().map_err(|_| "the watchdog panicked")?;
    let outputs = outputs.map_err(|error| format!("a rank cannot be waited for: {error}"))?;
    match outputs.iter().position(|output| !output.status.success()) {
        Some(rank) => Err(format!(
            "rank {rank} failed: {}",
            String::from_utf8_lossy(&outputs[rank].stderr).trim()
        )),
        None => Ok(outputs),
    }
}

fn median(values: &mut [f64]) -> Result<f64, String> {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() / 2)
        .copied()
        .ok_or_else(|| "no figures: give --turns 1 or more".into())
}

//! Two ranks and an aggregator as processes of one machine: over DPDK's memif, over sockets of the kernel, and Gloo.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Output};

use crate::needs::DPDK;
use crate::running::{Running, all, median, start};
use crate::sides::gloo::{Gloo, slowest};
use crate::sides::{TRIBUTARY, figures};
use crate::step::cargo;

use super::{Compare, ITERATIONS};

const HOST: &str = "target/release/dpdk-host";
const WORKER: &str = "target/release/dpdk-worker";

const RANKS: usize = 2;

/// Three processes that poll may share two cores: who has nothing to do sleeps.
const IDLE: [&str; 2] = ["--idle", "sleep"];

/// Bytes of the largest IP packet on a memif: as with jumbo frames. Sockets over loopback and Gloo have 65 536.
const MTU: u32 = 9000;

/// DPDK without huge pages or cards; its core may be either of two.
const EAL: &str = "--no-huge -m 256 --no-pci --no-shconf --no-telemetry --log-level 3 --lcores 0@(0-1)";

pub(super) fn measure(compare: &Compare) -> Result<(), String> {
    if !DPDK.is_met() {
        return Err("DPDK is missing: apt-get install dpdk dpdk-dev libdpdk-dev".into());
    }
    let build = cargo("build --release --package dpdk-host --package dpdk-worker").status();
    if !build.is_ok_and(|status| status.success()) {
        return Err("dpdk-host and dpdk-worker do not build".into());
    }
    let gloo = Gloo {
        python: &compare.python,
        bytes: compare.bytes,
        iterations: ITERATIONS,
        delay: std::time::Duration::ZERO,
    };
    let (mut memif, mut kernel, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..compare.turns {
        memif.push(over_memif(compare)?);
        kernel.push(over_sockets(compare)?);
        theirs.push(median(slowest(&gloo.run_here(RANKS, turn)?))?);
    }
    let (memif, kernel, theirs) = (median(memif)?, median(kernel)?, median(theirs)?);
    println!(
        "{RANKS} ranks and an aggregator on one machine, {} bytes of f32: medians of {} turns' medians of {ITERATIONS} iterations",
        compare.bytes, compare.turns
    );
    for (side, seconds) in [("memif", memif), ("sockets", kernel), ("gloo", theirs)] {
        compare.row(side, seconds);
    }
    println!(
        "  ratios     sockets / memif {:.2}, gloo / memif {:.2}",
        kernel / memif,
        theirs / memif
    );
    Ok(())
}

/// Median seconds of one turn.
fn over_memif(compare: &Compare) -> Result<f64, String> {
    let control = free_port()?;
    let memif = |rank: usize, role| {
        let socket = format!("trib-cmp-{}-{rank}", std::process::id());
        format!("net_memif{rank},role={role},bsize=9216,socket={socket}")
    };
    let config = std::env::temp_dir().join(format!("trib-cmp-{}.toml", std::process::id()));
    // Ranks register over loopback, and have other addresses on their memifs.
    let settings = format!("mtu = {MTU}\nmbuf_room = 9216\n[control]\nallow_any_address = true\n");
    std::fs::write(&config, settings)
        .map_err(|error| format!("cannot write {}: {error}", config.display()))?;
    let mut serve = Command::new(HOST);
    serve.args([
        "serve",
        "--data-addr",
        "10.77.0.1:4601",
        "--control-addr",
        &control.to_string(),
    ]);
    serve.args(IDLE).arg("--config").arg(&config);
    serve.args((0..RANKS).flat_map(|rank| ["--port".to_owned(), format!("net_memif{rank}")]));
    serve.arg("--").args(EAL.split(' '));
    serve.args((0..RANKS).flat_map(|rank| ["--vdev".to_owned(), memif(rank, "server")]));
    let _serve = start(serve)?;
    let ranks = (0..RANKS).map(|rank| {
        let mut worker = worker(compare, control, rank);
        worker.args([
            "--address",
            &format!("10.77.0.{}:4700", 10 + rank),
            "--mtu",
            &MTU.to_string(),
        ]);
        worker
            .args(IDLE)
            .arg("--")
            .args(EAL.split(' '))
            .args(["--vdev", &memif(rank, "client")]);
        worker
    });
    let outputs = all(ranks);
    // Read by now, or never.
    let _ = std::fs::remove_file(&config);
    seconds(&outputs?)
}

fn over_sockets(compare: &Compare) -> Result<f64, String> {
    let control = free_port()?;
    let _serve = serve(control)?;
    let ranks = (0..RANKS).map(|rank| {
        let mut worker = worker(compare, control, rank);
        worker.arg("--kernel");
        worker
    });
    seconds(&all(ranks)?)
}

fn serve(control: SocketAddr) -> Result<Running, String> {
    let mut serve = Command::new(TRIBUTARY);
    serve.args([
        "serve",
        // This side is about sockets.
        "--no-shared-memory",
        "--data-addr",
        "127.0.0.1:0",
        "--control-addr",
        &control.to_string(),
    ]);
    start(serve)
}

fn worker(compare: &Compare, control: SocketAddr, rank: usize) -> Command {
    let mut worker = Command::new(WORKER);
    worker.args(["allreduce", "--json", "--aggregator", &control.to_string()]);
    worker.args(["--rank", &rank.to_string(), "--size", &RANKS.to_string()]);
    worker.args([
        "--bytes",
        &compare.bytes.to_string(),
        "--repeat",
        &ITERATIONS.to_string(),
    ]);
    worker
}

/// The median over the iterations of the slowest rank of each.
fn seconds(outputs: &[Output]) -> Result<f64, String> {
    let mut iterations = vec![Vec::new(); ITERATIONS];
    for output in outputs {
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().unwrap_or_default();
        let figures = figures(last.as_bytes())?;
        for (number, iteration) in iterations.iter_mut().enumerate() {
            let seconds = figures["seconds"][number].as_f64();
            iteration.push(seconds.ok_or_else(|| format!("no seconds in {last}"))?);
        }
    }
    median(slowest(&iterations))
}

/// Free now; the aggregator takes it a moment later.
fn free_port() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener
        .and_then(|listener| listener.local_addr())
        .map_err(|error| format!("no free port: {error}"))
}

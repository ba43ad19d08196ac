//! The aggregator as an XDP program and as a process, in one run: time, and what it costs the machine that aggregates.

use std::fs;

use rustix::process::Pid;
use testnet::{Host, Link};

use super::{Compare, ITERATIONS};
use crate::field::Field;
use crate::running::{Running, median, start};
use crate::sides::{control, serve};
use crate::step::cargo;

const BPF_HOST: &str = "target/release/bpf-host";

/// Where the kernel is told to measure how long BPF programs run.
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// What a side needed for its turns.
#[derive(Default)]
struct Side {
    seconds: Vec<f64>,
    /// CPU seconds of the aggregator itself, an operation.
    aggregator: Vec<f64>,
    /// CPU seconds of the whole machine, an operation.
    machine: Vec<f64>,
}

pub(super) fn measure(compare: &Compare) -> Result<(), String> {
    let build = cargo("build --release --package bpf-host").status();
    if !build.is_ok_and(|status| status.success()) {
        return Err("bpf-host does not build".into());
    }
    let _statistics = Statistics::enable()?;
    let wire = Link {
        xdp: true,
        ..Link::default()
    };
    let Field {
        aggregator, ranks, ..
    } = &compare.field("trib-xdp", wire)?;
    let (mut xdp, mut udp) = (Side::default(), Side::default());
    for _ in 0..compare.turns {
        let server = serve(aggregator, &[])?;
        turn(compare, &mut udp, ranks, aggregator, || {
            process_seconds(server.pid())
        })?;
        drop(server);
        let server = serve_xdp(aggregator)?;
        turn(compare, &mut xdp, ranks, aggregator, || {
            program_seconds(server.pid())
        })?;
    }
    compare.about();
    let xdp = xdp.medians()?;
    let udp = udp.medians()?;
    for (side, [seconds, aggregator, machine]) in [("xdp", xdp), ("udp", udp)] {
        compare.row(side, seconds);
        println!("             CPU an operation: aggregator {aggregator:.3} s, whole machine {machine:.3} s");
    }
    println!(
        "  ratios     udp / xdp: time {:.2}, the aggregator's CPU {:.1}, the machine's CPU {:.2}",
        udp[0] / xdp[0],
        udp[1] / xdp[1],
        udp[2] / xdp[2]
    );
    println!(
        "  The aggregator's CPU is that of its process, or the time that its programs ran; what the kernel does to receive \
         and send is in the machine's only, as the ranks are."
    );
    Ok(())
}

fn turn(
    compare: &Compare,
    side: &mut Side,
    ranks: &[Host],
    aggregator: &Host,
    spent: impl Fn() -> Result<f64, String>,
) -> Result<(), String> {
    let before = (spent()?, machine_seconds()?);
    side.seconds
        .push(compare.tributary(ranks, |_| control(aggregator))?);
    // The operation before those that are measured counts too.
    let operations = (ITERATIONS + 1) as f64;
    side.aggregator.push((spent()? - before.0) / operations);
    side.machine.push((machine_seconds()? - before.1) / operations);
    Ok(())
}

impl Side {
    fn medians(self) -> Result<[f64; 3], String> {
        Ok([
            median(self.seconds)?,
            median(self.aggregator)?,
            median(self.machine)?,
        ])
    }
}

fn serve_xdp(host: &Host) -> Result<Running, String> {
    let mut serve = host.command(BPF_HOST);
    serve.args(["serve", "--interface", "eth0", "--mode", "native"]);
    serve.args(["--control-addr", &control(host)]);
    serve.args(["--data-addr", &format!("{}:4601", host.address())]);
    start(serve)
}

/// Lets the kernel measure programs, while this lives.
struct Statistics(String);

impl Statistics {
    fn enable() -> Result<Self, String> {
        let before = read(STATISTICS)?;
        fs::write(STATISTICS, "1").map_err(|error| format!("cannot write {STATISTICS}: {error}"))?;
        Ok(Self(before))
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = fs::write(STATISTICS, &self.0);
    }
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

/// A second is so many ticks in `/proc`: USER_HZ, which is the same everywhere.
const TICKS: f64 = 100.0;

/// CPU seconds of a process (proc(5), `stat`).
fn process_seconds(pid: Pid) -> Result<f64, String> {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let text = read(&path)?;
    // The name before may have blanks; user and system time are the 12th and 13th after it.
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: Vec<f64> = after
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|number| number.parse().ok())
        .collect();
    match ticks[..] {
        [user, system] => Ok((user + system) / TICKS),
        _ => Err(format!("{path} has no times: {text}")),
    }
}

/// Seconds that the BPF programs of a process have run (`bpf_prog_show_fdinfo` of kernel/bpf/syscall.c).
fn program_seconds(pid: Pid) -> Result<f64, String> {
    let folder = format!("/proc/{}/fdinfo", pid.as_raw_nonzero());
    let files = fs::read_dir(&folder).map_err(|error| format!("cannot read {folder}: {error}"))?;
    let mut programs = std::collections::BTreeMap::new();
    for file in files.flatten() {
        // A descriptor may be closed by now.
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|number| number.trim().parse::<u64>().ok())
        };
        // Several descriptors may be of one program.
        if let (Some(id), Some(time)) = (field("prog_id:"), field("run_time_ns:")) {
            programs.insert(id, time);
        }
    }
    Ok(programs.values().sum::<u64>() as f64 / 1e9)
}

/// CPU seconds that the machine was not idle (proc(5), `/proc/stat`).
fn machine_seconds() -> Result<f64, String> {
    let text = read("/proc/stat")?;
    let ticks: Vec<f64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|number| number.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq
    match ticks[..] {
        [user, nice, system, _, _, irq, softirq, ..] => Ok((user + nice + system + irq + softirq) / TICKS),
        _ => Err(format!("/proc/stat has no times: {text}")),
    }
}

//! What others take for the same sums.

use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::AllReduce;
use crate::args::{OpArg, human};
use crate::bench::{Dtype, SizeReport, median, share, sorted, time};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::peers::{self, Peer, PeerFigures, Task};

/// One side's figures of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Side {
    operation: &'static str,
    /// Who.
    side: &'static str,
    /// Ranks, all on this machine.
    ranks: u32,
    dtype: Dtype,
    /// Bytes of the tensor.
    bytes: u64,
    iterations: u32,
    /// Of an iteration's slowest rank.
    median_seconds: f64,
    algbw_gbyte_per_second: f64,
    /// Processor seconds of all processes in an iteration, the aggregator's included.
    cpu_seconds: Option<f64>,
    /// Bytes that left by the loopback interface in an iteration.
    loopback_bytes: Option<u64>,
    /// Its median against ours.
    times_ours: f64,
}

/// Whether others can do what we are asked for.
pub fn check(args: &AllReduce) -> Result<(), Failure> {
    let is_theirs = args.reduce.op == OpArg::Sum && matches!(args.dtype, Dtype::F32 | Dtype::I32);
    if args.compare.is_empty() || is_theirs {
        return Ok(());
    }
    let op = args.reduce.op.to_possible_value();
    Err(Failure::NothingToCompare {
        op: op.map_or(String::new(), |op| op.get_name().to_owned()),
        dtype: args.dtype.to_string(),
    })
}

/// Has the others do what we did, and shows both side by side.
pub fn run(args: &AllReduce, ours: &[SizeReport], interrupt: &Interrupt) -> Result<(), Failure> {
    if args.compare.is_empty() || ours.is_empty() {
        return Ok(());
    }
    let task = Task {
        ranks: args.workers,
        dtype: args.dtype.to_string(),
        sizes: ours
            .iter()
            .map(|report| (report.bytes, report.iterations))
            .collect(),
        python: args.python.clone(),
    };
    let bits = args.reduce.wire.width().bits();
    if bits != 32 {
        output::note(&format!("our elements have {bits} bits on the wire, theirs 32"));
    }
    let mut theirs: Vec<(Peer, Vec<PeerFigures>)> = Vec::new();
    for peer in &args.compare {
        match peers::run(*peer, &task, interrupt)? {
            Ok(figures) => theirs.push((*peer, figures)),
            Err(reason) => output::note(&format!("{} is not measured: {reason}", peer.name())),
        }
    }
    let mut sides = Vec::new();
    for (number, report) in ours.iter().enumerate() {
        sides.push(our_side(report));
        let figures = theirs.iter().map(|(peer, figures)| (peer, &figures[number]));
        sides.extend(figures.map(|(peer, figures)| their_side(*peer, report, figures)));
    }
    if args.json {
        // Ours has been said.
        let theirs = sides.iter().filter(|side| side.side != OURS);
        return theirs.map(serde_json::to_string).try_for_each(|line| {
            output::line(&line.map_err(|reason| Failure::Protocol {
                line: "a report".to_owned(),
                reason,
            })?)
        });
    }
    output::line(&format!("\n{}", table(&sides)))
}

const OURS: &str = "tributary";

fn our_side(report: &SizeReport) -> Side {
    Side {
        operation: "allreduce",
        side: OURS,
        ranks: report.ranks,
        dtype: report.dtype,
        bytes: report.bytes,
        iterations: report.iterations,
        median_seconds: report.median_seconds,
        algbw_gbyte_per_second: report.algbw_gbyte_per_second,
        cpu_seconds: report
            .aggregator_cpu_seconds
            .map(|aggregator| aggregator + report.worker_cpu_seconds),
        loopback_bytes: report.loopback_bytes,
        times_ours: 1.0,
    }
}

fn their_side(peer: Peer, ours: &SizeReport, figures: &PeerFigures) -> Side {
    // A clock that was set back meanwhile has measured nothing.
    let time = |seconds: &f64| Duration::try_from_secs_f64(*seconds).unwrap_or_default();
    let times = sorted(figures.seconds.iter().map(time));
    let iterations = times.len().max(1);
    let median = median(&times).as_secs_f64();
    Side {
        side: peer.name(),
        iterations: times.len() as u32,
        median_seconds: median,
        algbw_gbyte_per_second: share(ours.bytes as f64 / 1e9, median),
        cpu_seconds: Some(figures.cpu / iterations as f64),
        loopback_bytes: Some(figures.sent / iterations as u64),
        times_ours: share(median, ours.median_seconds),
        ..our_side(ours)
    }
}

fn table(sides: &[Side]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["size", "", "median", "GB/s", "CPU", "on the wire", "time / ours"]);
    for side in sides {
        table.add_row([
            human(side.bytes),
            side.side.to_owned(),
            time(side.median_seconds),
            format!("{:.3}", side.algbw_gbyte_per_second),
            side.cpu_seconds.map_or("-".to_owned(), time),
            side.loopback_bytes.map_or("-".to_owned(), millions),
            format!("{:.2}", side.times_ours),
        ]);
    }
    for column in table.column_iter_mut().filter(|column| column.index != 1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// In 10⁶ bytes.
fn millions(bytes: u64) -> String {
    format!("{:.3} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides() -> Vec<Side> {
        let ours = Side {
            operation: "allreduce",
            side: OURS,
            ranks: 2,
            dtype: Dtype::F32,
            bytes: 1 << 20,
            iterations: 3,
            median_seconds: 0.25,
            algbw_gbyte_per_second: 4.0,
            cpu_seconds: None,
            loopback_bytes: Some(2_500_000),
            times_ours: 1.0,
        };
        vec![ours]
    }

    #[test]
    fn sides_stand_under_each_other() {
        let text = table(&sides());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[1].contains("tributary") && lines[1].contains("250 ms"),
            "{text}"
        );
        assert!(
            lines[1].contains("2.500 MB") && lines[1].ends_with("1.00"),
            "{text}"
        );
    }
}

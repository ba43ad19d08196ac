//! `cargo xtask sweep`: are the defaults the best configuration? Windows, chunk sizes and streams, each against the defaults.
//!
//! Every point is measured right after the defaults, in the same minute, and only the ratio of both times is shown: so a
//! machine whose speed drifts harms both alike. Of points whose ratio is below 1 the defaults were slower.

use std::process::{Command, ExitCode};

use testnet::Link;

use crate::field::Field;
use crate::running::{all, median};
use crate::sides::{TRIBUTARY, bench, build, control, exit, figures, number, serve};

/// Where, and how often.
#[derive(clap::Args)]
pub(crate) struct Sweep {
    /// Numbers of ranks.
    #[arg(long, value_delimiter = ',', default_value = "2,4")]
    ranks: Vec<u32>,
    /// Rate of each rank's link in the test network, in tc's notation.
    #[arg(long, default_value = "1gbit")]
    rate: String,
    /// Turns of each point; a point's ratio is the median of its turns'. Those that seem faster than the defaults have more.
    #[arg(long, default_value_t = 1)]
    turns: usize,
    /// Only on loopback: needs no root.
    #[arg(long)]
    loopback: bool,
    /// Only over limited links.
    #[arg(long, conflicts_with = "loopback")]
    network: bool,
}

/// Bytes of the tensors, and how many sums of each are measured.
const SIZES: [(u64, u32); 2] = [(1 << 20, 30), (100 << 20, 2)];

const WINDOWS: [u32; 6] = [16, 32, 64, 128, 256, 512];
const STREAMS: [u16; 2] = [1, 2];

/// Chunk sizes that loopback carries, and a network with an MTU of 1500.
const ON_LOOPBACK: [u32; 3] = [848, 2048, 8192];
const IN_NETWORK: [u32; 2] = [256, 352];

/// A point that takes less than this of the defaults' time is measured so many times more.
const DOUBTFUL: f64 = 0.95;
const AGAIN: usize = 4;

/// What is set other than by default.
#[derive(Clone, Copy, Debug)]
struct Point {
    lanes: u32,
    window: u32,
    streams: u16,
}

/// Builds, measures and prints; the exit status says whether it could measure, and every sum was right.
pub(crate) fn run(sweep: &Sweep) -> ExitCode {
    exit("sweep", build().and_then(|()| sweep.measure()))
}

impl Sweep {
    fn measure(&self) -> Result<(), String> {
        if !self.loopback && !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root; or give --loopback".into());
        }
        for &ranks in &self.ranks {
            for (bytes, iterations) in SIZES {
                if !self.network {
                    let title = format!("{ranks} ranks on loopback, {bytes} bytes");
                    // There the machine's scheduler scatters them.
                    let iterations = 3 * iterations;
                    let what = Sums { bytes, iterations };
                    self.table(&title, &ON_LOOPBACK, |point| on_loopback(ranks, what, point))?;
                }
                if !self.loopback {
                    let title = format!("{ranks} ranks, {} a link, {bytes} bytes", self.rate);
                    let what = Sums { bytes, iterations };
                    let links = (0..ranks).map(|_| Link::with_rate(&self.rate));
                    let field = Field::new("trib-sweep", Link::default(), links)?;
                    self.table(&title, &IN_NETWORK, |point| in_network(&field, what, point))?;
                }
            }
        }
        Ok(())
    }

    /// Measures all points of a case, and shows them, the fastest first.
    fn table(
        &self,
        title: &str,
        lanes: &[u32],
        seconds: impl Fn(Option<Point>) -> Result<f64, String>,
    ) -> Result<(), String> {
        let mut defaults = Vec::new();
        let mut measure = |point, turns| {
            let ratio = |_| {
                let default = seconds(None)?;
                defaults.push(default);
                Ok(seconds(Some(point))? / default)
            };
            (0..turns).map(ratio).collect::<Result<Vec<f64>, String>>()
        };
        let mut rows = Vec::new();
        for point in points(lanes) {
            let mut ratios = measure(point, self.turns)?;
            // Of many points one is the fastest by chance: whether it is shows when it is looked at again.
            if median(ratios.clone())? < DOUBTFUL {
                ratios.extend(measure(point, AGAIN)?);
            }
            rows.push((median(ratios)?, point));
        }
        rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        println!(
            "{title}: defaults {:.3} ms; time of each point in those of the defaults",
            median(defaults)? * 1e3
        );
        println!("| lanes | window | streams | time |");
        println!("|---:|---:|---:|---:|");
        for (ratio, point) in &rows {
            println!(
                "| {} | {} | {} | {ratio:.2} |",
                point.lanes, point.window, point.streams
            );
        }
        println!("{}\n", verdict(rows.first().map_or(1.0, |(best, _)| *best)));
        Ok(())
    }
}

fn points(lanes: &[u32]) -> impl Iterator<Item = Point> {
    lanes.iter().flat_map(|&lanes| {
        WINDOWS.into_iter().flat_map(move |window| {
            STREAMS.into_iter().map(move |streams| Point {
                lanes,
                window,
                streams,
            })
        })
    })
}

/// What the fastest point says of the defaults.
fn verdict(best: f64) -> String {
    if best >= 1.0 {
        "no point is faster than the defaults".to_owned()
    } else {
        let behind = (1.0 / best - 1.0) * 100.0;
        let is_near = if behind <= 10.0 { "within" } else { "NOT within" };
        format!("the defaults take {behind:.0} % longer than the fastest point: {is_near} 10 %")
    }
}

#[derive(Clone, Copy)]
struct Sums {
    bytes: u64,
    iterations: u32,
}

/// The options of `tributary bench`; those of a point may be none.
fn options(sums: Sums, point: Option<Point>) -> Vec<String> {
    let mut options = format!("--bytes {} --iterations {}", sums.bytes, sums.iterations);
    if let Some(point) = point {
        options += &format!(
            " --lanes {} --window {} --streams {}",
            point.lanes, point.window, point.streams
        );
    }
    options.split(' ').map(str::to_owned).collect()
}

/// An aggregator of its own for each run, with as many shards as there are streams.
fn on_loopback(ranks: u32, sums: Sums, point: Option<Point>) -> Result<f64, String> {
    let mut bench = Command::new(TRIBUTARY);
    bench.args(["bench", "allreduce", "--json", "--workers", &ranks.to_string()]);
    bench.args(options(sums, point));
    number(&figures(&all([bench])?[0].stdout)?, "median_seconds")
}

/// Each rank has a limited link, the aggregator an unlimited one.
fn in_network(field: &Field, sums: Sums, point: Option<Point>) -> Result<f64, String> {
    let shards = point.map_or(1, |point| point.streams).to_string();
    let _serve = serve(&field.aggregator, &["--shards", &shards])?;
    let said = bench(
        &field.ranks,
        |_| control(&field.aggregator),
        |_| options(sums, point),
    )?;
    number(&said, "median_seconds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_judged_by_the_fastest_point() {
        assert!(verdict(1.02).starts_with("no point"));
        assert!(verdict(0.95).ends_with("5 % longer than the fastest point: within 10 %"));
        assert!(verdict(0.8).contains("25 %") && verdict(0.8).contains("NOT within"));
        assert_eq!(points(&ON_LOOPBACK).count(), 36);
    }

    #[test]
    fn a_point_is_what_the_benchmark_is_told() {
        let sums = Sums {
            bytes: 4,
            iterations: 2,
        };
        let point = Point {
            lanes: 256,
            window: 32,
            streams: 2,
        };
        assert_eq!(options(sums, None).join(" "), "--bytes 4 --iterations 2");
        assert!(
            options(sums, Some(point))
                .join(" ")
                .ends_with("--lanes 256 --window 32 --streams 2")
        );
    }
}

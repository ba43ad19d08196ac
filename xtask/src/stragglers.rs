//! `cargo xtask stragglers`: what a slow rank costs the others, by policy and window, beside Gloo.
//!
//! Rank 3 of 4 is slow: it begins each operation late, or its link has half the others' rate. Each rank has a namespace; the
//! aggregator's link is unlimited. No barriers hold the ranks together, so that those under a quorum may run ahead.

use std::process::ExitCode;
use std::time::Duration;

use testnet::Link;

use crate::field::Field;
use crate::running::median;
use crate::sides::gloo::{self, Gloo, slowest};
use crate::sides::{bench, build, control, exit, number, root, serve};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Stragglers {
    /// Bytes of the tensor, a multiple of 4.
    #[arg(long, default_value_t = 8 << 20)]
    bytes: u64,
    /// Iterations of each cell, all in one turn.
    #[arg(long, default_value_t = 10)]
    iterations: usize,
    /// How late the late rank is, in milliseconds.
    #[arg(long, default_value_t = 200)]
    delay: u64,
    /// A Python interpreter that has torch, for Gloo.
    #[arg(long, default_value = "python3")]
    python: String,
}

const RANKS: usize = 4;

/// A way to sum.
struct Way {
    name: &'static str,
    serve: &'static [&'static str],
    /// Options of `tributary bench`.
    bench: &'static str,
    /// Chunks in flight: the whole tensor.
    whole: bool,
}

const WAYS: [Way; 9] = [
    Way {
        name: "All of f32, window 16",
        serve: &[],
        bench: "--window 16",
        whole: false,
    },
    Way {
        name: "All of f32, window 256 (default)",
        serve: &[],
        bench: "--window 256",
        whole: false,
    },
    Way {
        name: "All of f32, window: the whole tensor",
        serve: &[],
        bench: "--policy all",
        whole: true,
    },
    Way {
        name: "the same, 8 MiB of slots and a store (Spill)",
        serve: &["--memory", "8", "--store", "256"],
        bench: "--policy all",
        whole: true,
    },
    Way {
        name: "All of i32, window 256",
        serve: &[],
        bench: "--dtype i32 --window 256",
        whole: false,
    },
    Way {
        name: "All of i32, window: the whole tensor",
        serve: &[],
        bench: "--dtype i32",
        whole: true,
    },
    Way {
        name: "the same, 8 MiB of slots and a store (Spill)",
        serve: &["--memory", "8", "--store", "256"],
        bench: "--dtype i32",
        whole: true,
    },
    Way {
        name: "Quorum 3 of 4 of f32, no grace",
        serve: &[],
        bench: "--policy quorum:3,0",
        whole: false,
    },
    Way {
        name: "Quorum 3 of 4 of f32, grace 5 ms",
        serve: &[],
        bench: "--policy quorum:3,5",
        whole: false,
    },
];

/// What is slow about rank 3.
struct Slow {
    name: &'static str,
    late: bool,
    rate: &'static str,
    up: Option<&'static str>,
}

const SLOW: [Slow; 4] = [
    Slow {
        name: "nothing",
        late: false,
        rate: "1gbit",
        up: None,
    },
    Slow {
        name: "late",
        late: true,
        rate: "1gbit",
        up: None,
    },
    Slow {
        name: "half the rate",
        late: false,
        rate: "500mbit",
        up: None,
    },
    Slow {
        name: "half the rate up",
        late: false,
        rate: "1gbit",
        up: Some("500mbit"),
    },
];

/// Median seconds of an operation, of the slowest punctual rank and of the slowest of all; and the share of the punctual
/// ranks' time in which they could not send, where that is known.
struct Cell {
    punctual: f64,
    all: f64,
    stalled: Option<f64>,
}

/// Builds, measures and prints.
pub(crate) fn run(stragglers: &Stragglers) -> ExitCode {
    exit(
        "stragglers",
        root()
            .and_then(|()| gloo::check(&stragglers.python))
            .and_then(|()| build())
            .and_then(|()| stragglers.measure()),
    )
}

impl Slow {
    /// The ranks' links; the last one is slow.
    fn links(&self) -> impl Iterator<Item = Link> {
        (0..RANKS).map(|rank| {
            if rank + 1 == RANKS {
                Link {
                    up: self.up.map(str::to_owned),
                    ..Link::with_rate(self.rate)
                }
            } else {
                Link::with_rate("1gbit")
            }
        })
    }
}

impl Stragglers {
    fn measure(&self) -> Result<(), String> {
        let mut rows: Vec<String> = WAYS.iter().map(|way| format!("| {} |", way.name)).collect();
        rows.push("| Gloo, f32 |".into());
        for (turn, slow) in SLOW.iter().enumerate() {
            let field = Field::new("trib-slow", Link::default(), slow.links())?;
            for (row, way) in rows.iter_mut().zip(&WAYS) {
                let cell = self.ours(&field, slow, way);
                let cell = cell.map_err(|error| format!("{}, {}: {error}", way.name, slow.name))?;
                row.push_str(&cell.show());
            }
            if let Some(row) = rows.last_mut() {
                row.push_str(&self.gloo(&field, slow, turn)?.show());
            }
        }
        println!(
            "{RANKS} ranks, 1gbit a link, {} bytes, rank 3 slow, late: by {} ms; medians of {} operations",
            self.bytes, self.delay, self.iterations
        );
        println!(
            "time of an operation for the punctual ranks / for all, punctual ranks' send stalls in % of their time"
        );
        let names: Vec<&str> = SLOW.iter().map(|slow| slow.name).collect();
        println!("| rank 3: | {} |", names.join(" | "));
        println!("|---|{}", "---:|".repeat(SLOW.len()));
        for row in rows {
            println!("{row}");
        }
        Ok(())
    }

    fn ours(&self, field: &Field, slow: &Slow, way: &Way) -> Result<Cell, String> {
        let _serve = serve(&field.aggregator, way.serve)?;
        // A rank that is late by 1 ms tells the benchmark whom to leave out, and to hold nobody together by barriers.
        let delay = if slow.late { self.delay } else { 1 };
        let mut options = format!(
            "--bytes {} --iterations {} --straggler {}:{delay}ms {}",
            self.bytes,
            self.iterations,
            RANKS - 1,
            way.bench
        );
        if way.whole {
            // Of 352 values a chunk, what fits an MTU of 1500.
            options += &format!(" --lanes 352 --window {}", self.bytes.div_ceil(4 * 352));
        }
        let figures = bench(
            &field.ranks,
            |_| control(&field.aggregator),
            |_| options.split(' ').map(str::to_owned).collect(),
        )?;
        Ok(Cell {
            punctual: number(&figures, "punctual_median_seconds")?,
            all: number(&figures, "median_seconds")?,
            stalled: Some(number(&figures, "punctual_stalled_share")?),
        })
    }

    fn gloo(&self, field: &Field, slow: &Slow, turn: usize) -> Result<Cell, String> {
        let gloo = Gloo {
            python: &self.python,
            bytes: self.bytes,
            iterations: self.iterations,
            delay: Duration::from_millis(if slow.late { self.delay } else { 0 }),
        };
        let all = gloo.run(&field.ranks, turn)?;
        let punctual: Vec<Vec<f64>> = all.iter().map(|ranks| ranks[..RANKS - 1].to_vec()).collect();
        Ok(Cell {
            punctual: median(slowest(&punctual))?,
            all: median(slowest(&all))?,
            stalled: None,
        })
    }
}

impl Cell {
    fn show(&self) -> String {
        let stalled = self
            .stalled
            .map_or(String::new(), |share| format!(", {:.0} %", share * 100.0));
        format!(
            " {:.0} / {:.0} ms{stalled} |",
            self.punctual * 1e3,
            self.all * 1e3
        )
    }
}

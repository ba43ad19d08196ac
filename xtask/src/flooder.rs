//! `cargo xtask flooder`: what a job loses to another one, or to a flood, at an aggregator of one shard on loopback.
//!
//! The measure is the second line: two equal jobs at the same time. All share the machine's processors too, so a neighbour
//! with more processes takes more of these, whatever the aggregator does.

mod sender;

use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

use self::sender::{Flood, Packets};
use crate::running::{all, median, start};
use crate::sides::{Here, TRIBUTARY, build, exit, figures, number, serve_here};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Flooder {
    /// Bytes of the victim's tensor, a multiple of 4.
    #[arg(long, default_value_t = 4 << 20)]
    bytes: u64,
    /// Turns; each measures all lines of the table once.
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Iterations of the victim in a line and turn.
    #[arg(long, default_value_t = 100)]
    iterations: usize,
}

/// Who else is there.
enum Neighbour {
    Nobody,
    /// A job, with these options of `tributary bench`.
    Job(&'static str),
    Flood(Packets),
}

/// The line that others are measured by.
const FAIR: usize = 1;

/// How much slower than beside an equal job the victim may be.
const GOAL: f64 = 1.5;

const NEIGHBOURS: [(&str, Neighbour); 6] = [
    ("nobody", Neighbour::Nobody),
    ("a job like it", Neighbour::Job("--workers 2")),
    (
        "4 workers, window 4096",
        Neighbour::Job("--workers 4 --window 4096"),
    ),
    (
        "a flood of bytes that are no packets",
        Neighbour::Flood(Packets::Malformed),
    ),
    (
        "a flood of packets of one job that does not exist",
        Neighbour::Flood(Packets::OneKey),
    ),
    (
        "a flood of packets with random keys",
        Neighbour::Flood(Packets::RandomKeys),
    ),
];

/// Builds, measures and prints; the exit status says whether it could measure, and every sum was right.
pub(crate) fn run(flooder: &Flooder) -> ExitCode {
    exit("flooder", build().and_then(|()| flooder.measure()))
}

impl Flooder {
    fn measure(&self) -> Result<(), String> {
        let mut seconds = [const { Vec::new() }; NEIGHBOURS.len()];
        let mut sent = [0.0; NEIGHBOURS.len()];
        for _ in 0..self.turns {
            for (index, (name, neighbour)) in NEIGHBOURS.iter().enumerate() {
                // It is about the queues of sockets.
                let Here {
                    aggregator: _aggregator,
                    control,
                    data,
                    ..
                } = serve_here(&["--no-shared-memory"])?;
                let mut job = match neighbour {
                    Neighbour::Job(options) => Some(start(bench(&control, &self.endless(options)))?),
                    Neighbour::Nobody | Neighbour::Flood(_) => None,
                };
                let flood = match neighbour {
                    Neighbour::Flood(packets) => Some(Flood::start(&data, *packets)?),
                    Neighbour::Nobody | Neighbour::Job(_) => None,
                };
                // Until a job has registered and is at full speed.
                sleep(Duration::from_secs(1));
                let victim = format!(
                    "--workers 2 --bytes {} --iterations {}",
                    self.bytes, self.iterations
                );
                let output =
                    all([bench(&control, &victim)]).map_err(|error| format!("beside {name}: {error}"))?;
                seconds[index].push(number(&figures(&output[0].stdout)?, "median_seconds")?);
                if job.as_mut().is_some_and(|job| !job.still_runs()) {
                    return Err(format!("the neighbour ended early: {name}"));
                }
                drop(job);
                if let Some(flood) = flood {
                    sent[index] += flood.stop()? / self.turns as f64;
                }
            }
        }
        self.show(seconds, sent)
    }

    /// A job that lasts until it is killed.
    fn endless(&self, options: &str) -> String {
        format!("{options} --bytes {} --iterations 1000000", self.bytes)
    }

    fn show(
        &self,
        seconds: [Vec<f64>; NEIGHBOURS.len()],
        sent: [f64; NEIGHBOURS.len()],
    ) -> Result<(), String> {
        let medians = seconds.into_iter().map(median).collect::<Result<Vec<f64>, _>>()?;
        println!(
            "2 workers, {} bytes of f32, one shard, loopback: medians of {} turns' medians of {} iterations; goal {GOAL}",
            self.bytes, self.turns, self.iterations
        );
        println!("| beside | time | times that beside an equal job | sent to the aggregator |");
        println!("|---|---:|---:|---:|");
        for (((name, _), time), sent) in NEIGHBOURS.iter().zip(&medians).zip(sent) {
            let flood = if sent > 0.0 {
                format!("{:.2} Mpackets/s", sent / 1e6)
            } else {
                String::new()
            };
            println!(
                "| {name} | {:.2} ms | {:.2} | {flood} |",
                time * 1e3,
                time / medians[FAIR]
            );
        }
        println!("every sum was right");
        Ok(())
    }
}

fn bench(control: &str, options: &str) -> Command {
    let mut bench = Command::new(TRIBUTARY);
    bench.args(["bench", "allreduce", "--json", "--aggregator", control]);
    bench.args(options.split(' '));
    bench
}

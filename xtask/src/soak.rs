//! `cargo xtask soak`: memory that does not grow. A job of some ranks sums for minutes while the kernel's account of each
//! process's memory is read.
//!
//! What is judged is the peak (`VmHWM`, proc_pid_status(5)), which misses nothing between two looks: it may rise while
//! buffers fill, and then no more.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::running::{Running, start};
use crate::sides::{Here, TRIBUTARY, build, exit, serve_here};

/// How long, and how much.
#[derive(clap::Args)]
pub(crate) struct Soak {
    /// Minutes; of the first, or of half of one if it is only one, memory is not judged.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1440))]
    minutes: u32,
    /// Ranks, all on this machine.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: u32,
    /// Bytes of the tensor, a multiple of 4.
    #[arg(long, default_value_t = 4 << 20)]
    bytes: u64,
}

const LOOK: Duration = Duration::from_millis(500);

/// By how much a process's peak may rise once it is warm: the figures that a benchmark collects, and the allocator's grain.
const GROWTH_KIB: u64 = 2 << 10;

/// What an aggregator may have beside the slot memory that it states: its program, stacks, batches, and the control service.
const BESIDE_KIB: u64 = 32 << 10;

/// Iterations of one size, whose times a rank keeps; so many sizes that it outlasts any soak.
const ITERATIONS: u32 = 100;
const SIZES: usize = 10_000;

/// Runs and prints; the exit status says whether memory stayed as it was.
pub(crate) fn run(soak: &Soak) -> ExitCode {
    exit("soak", build().and_then(|()| soak.measure()))
}

impl Soak {
    fn measure(&self) -> Result<(), String> {
        let Here {
            aggregator,
            control,
            said,
            ..
        } = serve_here(&[])?;
        let stated =
            stated_kib(&said).ok_or_else(|| format!("the aggregator states no slot memory: {said}"))?;
        println!("{said}");
        let mut processes = vec![Process::new("aggregator".to_owned(), aggregator)];
        for rank in 0..self.ranks {
            let rank_process = start(self.rank(rank, &control))?;
            processes.push(Process::new(format!("rank {rank}"), rank_process));
        }
        let all = Duration::from_secs(60) * self.minutes;
        let warm = (all / 2).min(Duration::from_secs(60));
        let began = Instant::now();
        while began.elapsed() < all {
            sleep(LOOK);
            let is_warm = began.elapsed() >= warm;
            for process in &mut processes {
                process.look(is_warm)?;
            }
        }
        self.judge(&processes, stated)
    }

    /// A rank that sums until it is ended.
    fn rank(&self, rank: u32, control: &str) -> Command {
        let bytes = vec![self.bytes.to_string(); SIZES].join(",");
        let mut bench = Command::new(TRIBUTARY);
        bench.args([
            "bench",
            "allreduce",
            "--json",
            "--aggregator",
            control,
            "--world",
            "soak",
        ]);
        bench.args([
            "--rank",
            &rank.to_string(),
            "--world-size",
            &self.ranks.to_string(),
        ]);
        bench.args(["--bytes", &bytes, "--iterations", &ITERATIONS.to_string()]);
        bench
    }

    fn judge(&self, processes: &[Process], stated: u64) -> Result<(), String> {
        println!(
            "{} ranks, {} bytes of f32, {} min, resident memory in KiB after the first part of it:",
            self.ranks, self.bytes, self.minutes
        );
        let mut wrong = Vec::new();
        for process in processes {
            let (name, warm) = (&process.name, process.warm.unwrap_or_default());
            let growth = process.last.peak - warm.peak;
            println!(
                "  {name:<10} min {}, max {}; peak {}, {growth} more than when it was warm",
                process.least, process.most, process.last.peak
            );
            if growth > GROWTH_KIB {
                wrong.push(format!("{name} grew by {growth} KiB, more than {GROWTH_KIB}"));
            }
        }
        let (peak, most) = (processes[0].last.peak, stated + BESIDE_KIB);
        println!("  the aggregator states {stated} KiB of slot memory; its peak is {peak}");
        if peak > most {
            wrong.push(format!("the aggregator had {peak} KiB, more than {most}"));
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong.join("; "))
        }
    }
}

/// Resident memory of a process, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    now: u64,
    peak: u64,
}

impl Memory {
    /// As the kernel says it.
    fn read(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().strip_suffix("kB")?.trim().parse().ok()
        };
        Some(Self {
            now: field("VmRSS:")?,
            peak: field("VmHWM:")?,
        })
    }
}

struct Process {
    name: String,
    running: Running,
    /// The first look when it was warm.
    warm: Option<Memory>,
    last: Memory,
    least: u64,
    most: u64,
}

impl Process {
    fn new(name: String, running: Running) -> Self {
        Self {
            name,
            running,
            warm: None,
            last: Memory::default(),
            least: u64::MAX,
            most: 0,
        }
    }

    fn look(&mut self, is_warm: bool) -> Result<(), String> {
        let path = format!("/proc/{}/status", self.running.pid().as_raw_nonzero());
        let status = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
        let memory = Memory::read(&status).filter(|_| self.running.still_runs());
        // One that has ended has no memory.
        self.last = memory.ok_or_else(|| format!("{} ended early", self.name))?;
        if is_warm {
            self.warm.get_or_insert(self.last);
            self.least = self.least.min(self.last.now);
            self.most = self.most.max(self.last.now);
        }
        Ok(())
    }
}

/// The slot memory that an aggregator states when it starts, in KiB.
fn stated_kib(said: &str) -> Option<u64> {
    let (before, _) = said.split_once(" MiB of slot memory a shard")?;
    let mib: f64 = before.rsplit(' ').next()?.parse().ok()?;
    let (before, _) = said.split_once(" shard")?;
    let shards: f64 = before.rsplit('(').next()?.parse().ok()?;
    Some((mib * shards * 1024.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_and_the_aggregator_say_is_read() {
        let status = "Name:\ttributary\nVmPeak:\t  900 kB\nVmHWM:\t    123456 kB\nVmRSS:\t    1234 kB\n";
        let memory = Memory {
            now: 1234,
            peak: 123_456,
        };
        assert_eq!(Memory::read(status), Some(memory));
        assert_eq!(Memory::read("Name:\tzombie\n"), None);
        let said = "aggregating: control 127.0.0.1:1, data 127.0.0.1:2 (2 shards, 8 queues each), 64.0 MiB of slot memory a \
                    shard, receive buffer 8192 KiB, epoch 3";
        assert_eq!(stated_kib(said), Some(2 * 64 * 1024));
        assert_eq!(stated_kib("nothing"), None);
    }
}

//! `dpdk-worker allreduce`: sums a tensor again and again.

use std::error::Error;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Write, stdout};
use std::time::Instant;

use agg_worker::Communicator;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::args::{AllReduce, Dtype};
use crate::values::Values;

/// What a rank measured.
#[derive(Serialize)]
struct Figures {
    rank: u32,
    ranks: u32,
    bytes: u64,
    lanes: u32,
    window: u32,
    streams: u32,
    median_seconds: f64,
    seconds: Vec<f64>,
    /// Processor time of this rank in a measured sum, polling included; the median.
    cpu_seconds: f64,
    packets_sent: u64,
    resends: u64,
    /// Of all results, in hexadecimal: the same on every rank, whatever carries the packets.
    digest: String,
}

/// Runs a rank to its end.
pub(crate) fn run(told: &AllReduce) -> Result<(), Box<dyn Error>> {
    let mut world = Communicator::connect(told.config()?)?;
    let figures = match told.dtype {
        Dtype::F32 => measure::<f32>(told, &mut world),
        Dtype::I32 => measure::<i32>(told, &mut world),
    }?;
    world.close()?;
    let line = if told.json {
        serde_json::to_string(&figures)?
    } else {
        figures.line()
    };
    writeln!(stdout(), "{line}")?;
    Ok(())
}

fn measure<V: Values>(told: &AllReduce, world: &mut Communicator) -> Result<Figures, Box<dyn Error>> {
    let rank = world.rank();
    let mut tensor = vec![V::default(); (told.bytes / 4) as usize];
    let mut digest = DefaultHasher::new();
    let (mut seconds, mut cpu) = (Vec::new(), Vec::new());
    for round in 0..told.warmup + told.repeat {
        for (index, value) in tensor.iter_mut().enumerate() {
            *value = V::value(rank, round, index);
        }
        // All begin together.
        world.barrier()?;
        let (began, spent) = (Instant::now(), cpu_time());
        world.all_reduce(&mut tensor)?;
        let took = began.elapsed();
        if round >= told.warmup {
            seconds.push(took.as_secs_f64());
            cpu.push(cpu_time() - spent);
        }
        check(&tensor, &world.ranks(), round)?;
        tensor.iter().for_each(|value| digest.write_u32(value.bits()));
        if told.json {
            // Who waits for it sees how far this rank is.
            writeln!(stdout(), "{{\"round\":{round}}}")?;
        }
    }
    let stats = world.stats();
    Ok(Figures {
        rank,
        ranks: world.size(),
        bytes: told.bytes,
        lanes: stats.lanes,
        window: stats.window,
        streams: stats.streams,
        median_seconds: median(&seconds),
        seconds,
        cpu_seconds: median(&cpu),
        packets_sent: stats.packets_sent,
        resends: stats.resends,
        digest: format!("{:016x}", digest.finish()),
    })
}

/// Processor time of this process, in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn check<V: Values>(tensor: &[V], ranks: &[u32], round: u32) -> Result<(), String> {
    let wrong = |(index, value): &(usize, &V)| !value.is_sum(ranks, round, *index);
    match tensor.iter().enumerate().find(wrong) {
        Some((index, _)) => Err(format!("element {index} of sum {round} is wrong")),
        None => Ok(()),
    }
}

/// Of none: 0.
fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

impl Figures {
    fn line(&self) -> String {
        format!(
            "rank {} of {}: {} bytes in {:.4} s ({:.3} GB/s; processor {:.4} s), {} lanes, window {}, {} streams; {} packets sent, {} of them again",
            self.rank,
            self.ranks,
            self.bytes,
            self.median_seconds,
            self.bytes as f64 / self.median_seconds.max(f64::MIN_POSITIVE) / 1e9,
            self.cpu_seconds,
            self.lanes,
            self.window,
            self.streams,
            self.packets_sent,
            self.resends,
        )
    }
}

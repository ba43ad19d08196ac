//! The figures of one size.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::setup::{Dtype, Setup};

/// What a benchmark says while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// Warm-up is over: iterations that count begin.
    Timing,
    /// One size is done.
    Size(SizeReport),
}

/// The figures of one size, over all ranks. An iteration takes as long as its slowest rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeReport {
    /// What was measured.
    pub operation: String,
    /// Ranks.
    pub ranks: u32,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Measured iterations.
    pub iterations: u32,
    /// Median seconds of an iteration.
    pub median_seconds: f64,
    /// Seconds of the fastest.
    pub min_seconds: f64,
    /// Seconds of the slowest.
    pub max_seconds: f64,
    /// Bytes over median, in 10⁹ bytes a second.
    pub algbw_gbyte_per_second: f64,
    /// The same in 10⁹ bits.
    pub algbw_gbit_per_second: f64,
    /// Processor seconds of all ranks together in an iteration.
    pub worker_cpu_seconds: f64,
    /// Processor seconds of the aggregator in an iteration, the barrier before it included; none if it runs elsewhere.
    pub aggregator_cpu_seconds: Option<f64>,
    /// Packets that all ranks together sent in all measured iterations.
    pub packets_sent: u64,
    /// Chunks among them that were sent again.
    pub resends: u64,
    /// Values in a chunk.
    pub lanes: u32,
    /// Chunks in flight on each stream.
    pub window: u32,
    /// Streams.
    pub streams: u32,
    /// Share of packets lost on purpose in each direction.
    pub loss: f64,
    /// The aggregator.
    pub aggregator: String,
}

/// What one rank measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankFigures {
    /// Time of each iteration.
    pub times: Vec<Duration>,
    /// Processor time in them.
    pub cpu: Duration,
    /// Packets sent in them.
    pub packets: u64,
    /// Chunks sent again in them.
    pub resends: u64,
}

impl RankFigures {
    /// As plain numbers, to be gathered.
    pub fn to_numbers(&self) -> Vec<u64> {
        let mut numbers = vec![self.cpu.as_nanos() as u64, self.packets, self.resends];
        numbers.extend(self.times.iter().map(|time| time.as_nanos() as u64));
        numbers
    }
}

impl SizeReport {
    /// Sums up the numbers of all ranks, each from [`RankFigures::to_numbers`].
    pub fn new(setup: &Setup, bytes: u64, all: &[Vec<u64>], stats: &agg_worker::Stats) -> Self {
        const FIRST_TIME: usize = 3;
        let total = |index: usize| all.iter().filter_map(|rank| rank.get(index)).sum::<u64>();
        let iterations = all
            .first()
            .map_or(0, |rank| rank.len().saturating_sub(FIRST_TIME));
        let slowest = |iteration| {
            all.iter()
                .filter_map(|rank| rank.get(FIRST_TIME + iteration))
                .max()
                .copied()
        };
        let mut times: Vec<u64> = (0..iterations).filter_map(slowest).collect();
        times.sort_unstable();
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let median_seconds = seconds(median(&times));
        let rate = if median_seconds > 0.0 {
            bytes as f64 / median_seconds / 1e9
        } else {
            0.0
        };
        Self {
            operation: "allreduce".to_owned(),
            ranks: setup.size,
            dtype: setup.dtype,
            bytes,
            iterations: iterations as u32,
            median_seconds,
            min_seconds: seconds(times.first().copied().unwrap_or(0)),
            max_seconds: seconds(times.last().copied().unwrap_or(0)),
            algbw_gbyte_per_second: rate,
            algbw_gbit_per_second: 8.0 * rate,
            worker_cpu_seconds: seconds(total(0)) / iterations.max(1) as f64,
            aggregator_cpu_seconds: None,
            packets_sent: total(1),
            resends: total(2),
            lanes: stats.lanes,
            window: stats.window,
            streams: stats.streams,
            loss: setup.loss,
            aggregator: setup.aggregators.join(", "),
        }
    }
}

/// Of sorted times; between the two in the middle where their number is even.
fn median(sorted: &[u64]) -> u64 {
    let middle = sorted.len() / 2;
    match (
        sorted.get(middle),
        middle.checked_sub(1).and_then(|below| sorted.get(below)),
    ) {
        (Some(upper), Some(lower)) if sorted.len().is_multiple_of(2) => lower.midpoint(*upper),
        (Some(middle), _) => *middle,
        (None, _) => 0,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) fn setup() -> Setup {
        Setup {
            rank: 0,
            size: 2,
            world: "bench".to_owned(),
            aggregators: vec!["127.0.0.1:4600".to_owned()],
            bytes: vec![1000],
            dtype: Dtype::F32,
            iterations: None,
            warmup: 1,
            loss: 0.01,
            lanes: None,
            window: None,
            streams: None,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn an_iteration_takes_as_long_as_its_slowest_rank() {
        let rank = |times: [u64; 3]| RankFigures {
            times: times.map(Duration::from_micros).to_vec(),
            cpu: Duration::from_micros(30),
            packets: 7,
            resends: 1,
        };
        let all = [rank([10, 5, 6]).to_numbers(), rank([1, 20, 2]).to_numbers()];
        let report = SizeReport::new(&setup(), 1000, &all, &agg_worker::Stats::default());
        assert_eq!(
            [report.min_seconds, report.median_seconds, report.max_seconds],
            [6e-6, 10e-6, 20e-6]
        );
        assert!((report.algbw_gbit_per_second - 0.8).abs() < 1e-9);
        assert!((report.worker_cpu_seconds - 20e-6).abs() < 1e-12);
        assert_eq!(
            (report.packets_sent, report.resends, report.iterations),
            (14, 2, 3)
        );
    }

    #[test]
    fn medians() {
        assert_eq!(
            [median(&[]), median(&[3]), median(&[2, 6]), median(&[1, 2, 9])],
            [0, 3, 4, 2]
        );
    }
}

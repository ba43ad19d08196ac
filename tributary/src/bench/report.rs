//! The figures of one size.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::figures::RankFigures;
use super::setup::{Dtype, Setup};
use crate::args::OpArg;
use crate::failure::Failure;

/// What a benchmark says while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// Warm-up is over: iterations that count begin.
    Timing,
    /// Ranks were lost, and the job goes on.
    Lost {
        /// Which ones.
        lost: Vec<u32>,
        /// How many are left.
        left: u32,
    },
    /// One size is done. One rank says so.
    Size(Box<SizeReport>),
}

/// The figures of one size, over all ranks. An iteration takes as long as its slowest rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeReport {
    /// What was measured.
    pub operation: String,
    /// Ranks at the start.
    pub ranks: u32,
    /// Type of the elements.
    pub dtype: Dtype,
    /// What became of them.
    pub op: OpArg,
    /// Bits of an element on the wire.
    pub wire_bits: u32,
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
    /// Median seconds of an iteration, of the punctual ranks alone: not of the straggler, nor of ranks that were late for most.
    pub punctual_median_seconds: f64,
    /// Bytes over median, in 10⁹ bytes a second.
    pub algbw_gbyte_per_second: f64,
    /// The same in 10⁹ bits.
    pub algbw_gbit_per_second: f64,
    /// Send stalls: the part of the punctual ranks' time in operations, 0..=1, in which they had chunks to send, but had to wait
    /// for results first.
    pub punctual_stalled_share: f64,
    /// Processor seconds of all ranks together in an iteration.
    pub worker_cpu_seconds: f64,
    /// Processor seconds of the aggregator in an iteration, the barrier before it included; none if it runs elsewhere.
    pub aggregator_cpu_seconds: Option<f64>,
    /// Bytes that left by this machine's loopback interface in an iteration; none if ranks or the aggregator run elsewhere.
    pub loopback_bytes: Option<u64>,
    /// Packets that all ranks together sent in all measured iterations.
    pub packets_sent: u64,
    /// Chunks among them that were sent again.
    pub resends: u64,
    /// Results that the network has marked (ECN).
    pub marked: u64,
    /// How often a rank has put fewer chunks in flight, since the network was congested.
    pub congestion_decreases: u64,
    /// Chunks that may be in flight at the end, of the rank that may have the fewest, on its first stream.
    pub congestion_window: u64,
    /// Values in a chunk.
    pub lanes: u32,
    /// Chunks in flight on each stream, at most.
    pub window: u32,
    /// Streams.
    pub streams: u32,
    /// Share of packets lost on purpose in each direction.
    pub loss: f64,
    /// The aggregator.
    pub aggregator: String,
    /// When a sum was complete, as `--policy` has it.
    pub policy: String,
    /// The rank that was slow on purpose and by how much, as `--straggler` has it.
    pub straggler: Option<String>,
    /// Each rank that was left at the end.
    pub per_rank: Vec<RankReport>,
    /// Ranks that were lost.
    pub lost: Vec<u32>,
}

/// The figures of one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// The rank.
    pub rank: u32,
    /// It is neither slow on purpose nor was it late for most chunks.
    pub punctual: bool,
    /// Iterations.
    pub operations: u64,
    /// Those whose sum holds nothing of this rank's.
    pub late_operations: u64,
    /// Chunks of the sums that need not hold all ranks.
    pub chunks: u64,
    /// Those that do not hold this rank's.
    pub late_chunks: u64,
    /// Gradients that it made; while it was behind it made none.
    pub gradients: u64,
    /// Median seconds of an iteration.
    pub median_seconds: f64,
    /// Seconds in all iterations.
    pub busy_seconds: f64,
    /// Of those, seconds in which it had chunks to send, but had to wait for results first.
    pub stalled_seconds: f64,
}

impl RankReport {
    fn new(rank: u32, figures: &RankFigures, setup: &Setup) -> Self {
        let slow = setup.straggler.is_some_and(|straggler| straggler.rank == rank);
        Self {
            rank,
            punctual: !slow && figures.is_punctual(),
            operations: figures.times.len() as u64,
            late_operations: figures.late_operations,
            chunks: figures.chunks,
            late_chunks: figures.late_chunks,
            gradients: figures.gradients,
            median_seconds: median(&sorted(figures.times.iter().copied())).as_secs_f64(),
            busy_seconds: figures.busy.as_secs_f64(),
            stalled_seconds: figures.stalled.as_secs_f64(),
        }
    }
}

impl SizeReport {
    /// Sums up the numbers of all ranks, each from [`RankFigures::to_numbers`]. An error if they received different sums.
    pub fn new(
        setup: &Setup,
        bytes: u64,
        all: &[Vec<u64>],
        stats: &agg_worker::Stats,
    ) -> Result<Self, Failure> {
        let ranks = (0..).zip(all.iter().map(|numbers| RankFigures::from_numbers(numbers)));
        let (left, lost): (Vec<_>, Vec<_>) = ranks.partition(|(_, figures)| figures.is_some());
        let left: Vec<(u32, RankFigures)> = left
            .into_iter()
            .filter_map(|(rank, figures)| Some((rank, figures?)))
            .collect();
        same_sums(bytes, &left)?;
        let per_rank: Vec<_> = left
            .iter()
            .map(|(rank, figures)| RankReport::new(*rank, figures, setup))
            .collect();
        let total = |number: fn(&RankFigures) -> u64| left.iter().map(|(_, figures)| number(figures)).sum();
        let iterations = left.first().map_or(0, |(_, figures)| figures.times.len());
        let times = slowest(left.iter().map(|(_, figures)| figures));
        let punctual = left.iter().zip(&per_rank).filter(|(_, report)| report.punctual);
        let punctual: Vec<_> = punctual.map(|((_, figures), _)| figures).collect();
        let median_seconds = median(&times).as_secs_f64();
        let rate = share(bytes as f64 / 1e9, median_seconds);
        Ok(Self {
            operation: "allreduce".to_owned(),
            ranks: setup.size,
            dtype: setup.dtype,
            op: setup.reduce.op,
            wire_bits: setup.reduce.wire.width().bits(),
            bytes,
            iterations: iterations as u32,
            median_seconds,
            min_seconds: times.first().copied().unwrap_or_default().as_secs_f64(),
            max_seconds: times.last().copied().unwrap_or_default().as_secs_f64(),
            punctual_median_seconds: median(&slowest(punctual.iter().copied())).as_secs_f64(),
            algbw_gbyte_per_second: rate,
            algbw_gbit_per_second: 8.0 * rate,
            punctual_stalled_share: share(
                punctual.iter().map(|figures| figures.stalled.as_secs_f64()).sum(),
                punctual.iter().map(|figures| figures.busy.as_secs_f64()).sum(),
            ),
            worker_cpu_seconds: left
                .iter()
                .map(|(_, figures)| figures.cpu.as_secs_f64())
                .sum::<f64>()
                / iterations.max(1) as f64,
            aggregator_cpu_seconds: None,
            loopback_bytes: None,
            packets_sent: total(|figures| figures.packets),
            resends: total(|figures| figures.resends),
            marked: total(|figures| figures.marked),
            congestion_decreases: total(|figures| figures.decreases),
            congestion_window: left
                .iter()
                .map(|(_, figures)| figures.congestion_window)
                .min()
                .unwrap_or(0),
            lanes: stats.lanes,
            window: stats.window,
            streams: stats.streams,
            loss: setup.loss,
            aggregator: setup.aggregators.join(", "),
            policy: setup.terms.policy.to_string(),
            straggler: setup.straggler.map(|straggler| straggler.to_string()),
            per_rank,
            lost: lost.into_iter().map(|(rank, _)| rank).collect(),
        })
    }
}

/// Whatever a sum holds, it is the same for all ranks.
fn same_sums(bytes: u64, ranks: &[(u32, RankFigures)]) -> Result<(), Failure> {
    for pair in ranks.windows(2) {
        let [(other, first), (rank, second)] = pair else {
            continue;
        };
        if first.digest != second.digest {
            return Err(Failure::SumsDiffer {
                bytes,
                rank: *rank,
                other: *other,
            });
        }
    }
    Ok(())
}

/// The time of each iteration's slowest rank, sorted.
fn slowest<'a>(ranks: impl Iterator<Item = &'a RankFigures> + Clone) -> Vec<Duration> {
    let iterations = ranks.clone().map(|rank| rank.times.len()).min().unwrap_or(0);
    let of_iteration = |iteration: usize| ranks.clone().map(|rank| rank.times[iteration]).max();
    sorted((0..iterations).filter_map(of_iteration))
}

pub fn sorted(times: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times
}

/// Of sorted times; between the two in the middle where their number is even.
pub fn median(sorted: &[Duration]) -> Duration {
    let middle = sorted.len() / 2;
    let below = middle.checked_sub(1).and_then(|below| sorted.get(below));
    match (sorted.get(middle), below) {
        (Some(upper), Some(lower)) if sorted.len().is_multiple_of(2) => (*lower + *upper) / 2,
        (Some(middle), _) => *middle,
        (None, _) => Duration::ZERO,
    }
}

/// A ratio that is never infinite: JSON has no word for it.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::args::{ReduceArgs, Terms};

    pub(in crate::bench) fn setup() -> Setup {
        Setup {
            rank: 0,
            size: 2,
            world: "bench".to_owned(),
            aggregators: vec!["127.0.0.1:4600".to_owned()],
            bytes: vec![1000],
            dtype: Dtype::F32,
            reduce: ReduceArgs::default(),
            iterations: None,
            warmup: 1,
            in_flight: 1,
            loss: 0.01,
            lanes: None,
            window: None,
            streams: None,
            timeout: Duration::from_secs(1),
            wait: Duration::from_secs(1),
            terms: Terms::default(),
            straggler: None,
        }
    }

    fn rank(times: [u64; 3]) -> RankFigures {
        RankFigures {
            times: times.map(Duration::from_micros).to_vec(),
            cpu: Duration::from_micros(30),
            packets: 7,
            resends: 1,
            busy: Duration::from_micros(times.iter().sum()),
            ..RankFigures::default()
        }
    }

    fn report(setup: &Setup, ranks: &[RankFigures]) -> Result<SizeReport, Failure> {
        let all: Vec<_> = ranks.iter().map(RankFigures::to_numbers).collect();
        SizeReport::new(setup, 1000, &all, &agg_worker::Stats::default())
    }

    #[test]
    fn an_iteration_takes_as_long_as_its_slowest_rank() {
        let report = report(&setup(), &[rank([10, 5, 6]), rank([1, 20, 2])]).unwrap();
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
    fn punctual_ranks_are_shown_apart() {
        let late = RankFigures {
            chunks: 30,
            late_chunks: 16,
            late_operations: 2,
            gradients: 2,
            ..rank([100, 100, 100])
        };
        let punctual = RankFigures {
            chunks: 30,
            stalled: Duration::from_micros(6),
            gradients: 3,
            ..rank([10, 20, 30])
        };
        let report = report(&setup(), &[punctual, late]).unwrap();
        assert_eq!(
            (report.median_seconds, report.punctual_median_seconds),
            (100e-6, 20e-6)
        );
        assert!((report.punctual_stalled_share - 0.1).abs() < 1e-9);
        let [first, second] = &report.per_rank[..] else {
            panic!("{report:?}")
        };
        assert!(first.punctual && !second.punctual);
        assert_eq!((second.late_operations, second.late_chunks), (2, 16));

        let straggler = Setup {
            straggler: "0:1ms".parse().ok(),
            ..setup()
        };
        let ranks = [rank([1, 1, 1]), rank([2, 2, 2])];
        let report = super::tests::report(&straggler, &ranks).unwrap();
        assert_eq!(report.per_rank.iter().filter(|rank| rank.punctual).count(), 1);
        assert_eq!(report.straggler.as_deref(), Some("0:1ms"));
    }

    #[test]
    fn a_lost_rank_has_no_figures_and_other_sums_are_an_error() {
        let all = [vec![0; 14], rank([1, 2, 3]).to_numbers()];
        let report = SizeReport::new(&setup(), 1000, &all, &agg_worker::Stats::default()).unwrap();
        assert_eq!((report.lost, report.per_rank[0].rank), (vec![0], 1));

        let mut other = rank([1, 2, 3]);
        other.add_digest([1].into_iter());
        let error = super::tests::report(&setup(), &[rank([1, 2, 3]), other]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("rank 1 received other sums than rank 0"),
            "{error}"
        );
    }

    #[test]
    fn medians() {
        let median = |micros: &[u64]| {
            let times: Vec<_> = micros.iter().copied().map(Duration::from_micros).collect();
            median(&times).as_micros()
        };
        assert_eq!(
            [median(&[]), median(&[3]), median(&[2, 6]), median(&[1, 2, 9])],
            [0, 3, 4, 2]
        );
    }
}

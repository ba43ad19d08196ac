//! What a worker process tells its parent, one JSON object a line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::digest::ParameterDigest;
use super::train::{EpochRecord, StepRecord, TrainOutcome};

/// Single steps jump with the scheduler's mood; groups this coarse show the course of a training.
const GOODPUT_SAMPLES: usize = 40;

/// A line from a worker process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkerMessage {
    /// An epoch is done.
    Progress {
        /// The worker.
        rank: usize,
        /// Where it stands.
        record: EpochRecord,
    },
    /// Training is done.
    Report(WorkerReport),
}

/// What a quorum did without: how much of a worker is in the sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Gradients that the worker made. It made none while it was behind.
    pub gradients: u64,
    /// All-reduces whose sum holds something of this worker.
    pub contributed: u64,
    /// Chunks summed.
    pub chunks: u64,
    /// Those whose sum does not hold this worker's values.
    pub late_chunks: u64,
}

/// What the transport counted over the whole training. Zero for one process alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Packets sent, resends included.
    pub packets_sent: u64,
    /// Results taken, one a chunk.
    pub results: u64,
    /// Chunks sent again.
    pub resends: u64,
}

/// Speed of the all-reduce around one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GoodputSample {
    /// Seconds since the start of training.
    pub at: f64,
    /// Bytes of summed gradient per second in the all-reduce, waiting for slower workers included.
    pub bytes_per_second: f64,
}

/// The result of one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// The worker.
    pub rank: usize,
    /// Number of workers.
    pub world: usize,
    /// Fingerprint of the final network.
    pub digest: ParameterDigest,
    /// Share of unseen images recognised at the end, 0..=1.
    pub accuracy: f64,
    /// One record an epoch.
    pub epochs: Vec<EpochRecord>,
    /// Mean loss of each step.
    pub step_losses: Vec<f32>,
    /// All-reduces done.
    pub all_reduces: u64,
    /// Gradient bytes summed, over all of them.
    pub reduced_bytes: u64,
    /// What the transport counted.
    pub traffic: Traffic,
    /// What a quorum did without; `None` where every sum held all.
    pub lateness: Option<Lateness>,
    /// Seconds in gradients and optimiser.
    pub compute_seconds: f64,
    /// Seconds in all-reduces.
    pub reduce_seconds: f64,
    /// Seconds from the first step to the last evaluation.
    pub wall_seconds: f64,
    /// Goodput over time, a few dozen samples.
    pub goodput: Vec<GoodputSample>,
}

/// One data-parallel training, as its workers report it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// What sets it apart, for example "reordered".
    pub name: String,
    /// The reports, by rank.
    pub workers: Vec<WorkerReport>,
    /// What the aggregator counted meanwhile, by name, without zeros.
    pub counters: BTreeMap<String, u64>,
}

impl WorkerMessage {
    /// The message as one line of JSON, without the newline.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads a line written by [`to_line`](Self::to_line).
    pub fn parse_line(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }
}

impl WorkerReport {
    /// Sums up a finished training.
    pub fn new(rank: usize, world: usize, outcome: &TrainOutcome, traffic: Traffic) -> Self {
        let total = |seconds: fn(&StepRecord) -> f64| outcome.steps.iter().map(seconds).sum();
        Self {
            rank,
            world,
            digest: outcome.digest,
            accuracy: outcome.epochs.last().map_or(0.0, |record| record.accuracy),
            epochs: outcome.epochs.clone(),
            step_losses: outcome.steps.iter().map(|step| step.loss).collect(),
            all_reduces: outcome.steps.len() as u64,
            reduced_bytes: outcome.steps.len() as u64 * outcome.reduce_bytes,
            traffic,
            lateness: None,
            compute_seconds: total(|step| step.compute_seconds),
            reduce_seconds: total(|step| step.reduce_seconds),
            wall_seconds: outcome.wall_seconds,
            goodput: goodput(&outcome.steps, outcome.reduce_bytes),
        }
    }

    /// Mean seconds of a step.
    pub fn step_seconds(&self) -> f64 {
        (self.compute_seconds + self.reduce_seconds) / self.all_reduces.max(1) as f64
    }

    /// Mean loss of an image over the last epoch.
    pub fn final_loss(&self) -> f32 {
        self.epochs.last().map_or(f32::NAN, |record| record.loss)
    }

    /// Whether nothing went over a network: one process, no workers.
    pub fn is_alone(&self) -> bool {
        self.traffic.packets_sent == 0
    }

    /// Bytes of summed gradient per second in all-reduces, over the whole training; 0 for one process alone.
    pub fn mean_goodput(&self) -> f64 {
        if self.is_alone() {
            0.0
        } else {
            per_second(self.reduced_bytes, self.reduce_seconds)
        }
    }

    /// The part of the wall time spent in all-reduces, 0..=1.
    pub fn reduce_share(&self) -> f64 {
        if self.wall_seconds > 0.0 {
            self.reduce_seconds / self.wall_seconds
        } else {
            0.0
        }
    }
}

/// Goodput of groups of neighbouring steps: bytes over time, so that a slow step weighs what it took.
fn goodput(steps: &[StepRecord], reduce_bytes: u64) -> Vec<GoodputSample> {
    let group = steps.len().div_ceil(GOODPUT_SAMPLES).max(1);
    let sample = |steps: &[StepRecord]| {
        let seconds = steps.iter().map(|step| step.reduce_seconds).sum();
        let at = steps.iter().map(|step| step.ended_at).sum::<f64>() / steps.len() as f64;
        GoodputSample {
            at,
            bytes_per_second: per_second(steps.len() as u64 * reduce_bytes, seconds),
        }
    };
    steps.chunks(group).map(sample).collect()
}

/// A rate that is never infinite: JSON has no word for it.
fn per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 / seconds
    } else {
        0.0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::demo) fn outcome(steps: usize, parameters: Vec<f32>) -> TrainOutcome {
        let step = |index: usize| StepRecord {
            loss: 2.0 / (1.0 + index as f32 / 8.0),
            compute_seconds: 0.002,
            reduce_seconds: 0.001 + 0.0005 * (index as f64 * 0.7).sin(),
            ended_at: 0.003 * (index + 1) as f64,
        };
        let epochs = steps.div_ceil(15);
        let epoch = |index: usize| EpochRecord {
            epoch: index + 1,
            epochs,
            loss: step(index * 15).loss,
            accuracy: 1.0 - 1.0 / (index + 2) as f64,
        };
        TrainOutcome {
            epochs: (0..epochs).map(epoch).collect(),
            steps: (0..steps).map(step).collect(),
            reduce_bytes: 1000,
            digest: ParameterDigest::of(&parameters),
            parameters,
            wall_seconds: 0.003 * steps as f64,
        }
    }

    #[test]
    fn a_report_survives_its_line() {
        let report = WorkerReport::new(
            1,
            4,
            &outcome(225, vec![1.0]),
            Traffic {
                resends: 3,
                ..Traffic::default()
            },
        );
        let record = report.epochs[0];
        for message in [
            WorkerMessage::Report(report),
            WorkerMessage::Progress { rank: 1, record },
        ] {
            let line = message.to_line().unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(WorkerMessage::parse_line(&line).unwrap(), message);
        }
    }

    #[test]
    fn goodput_is_thinned_and_finite() {
        let traffic = Traffic {
            packets_sent: 1,
            ..Traffic::default()
        };
        let report = WorkerReport::new(0, 2, &outcome(1000, vec![]), traffic);
        assert!(report.goodput.len() <= GOODPUT_SAMPLES);
        assert_eq!(report.reduced_bytes, 1_000_000);
        assert!(
            (report.mean_goodput() - 1e6).abs() < 1e4,
            "{}",
            report.mean_goodput()
        );
        assert_eq!(per_second(10, 0.0), 0.0);
        assert!(goodput(&[], 8).is_empty());
    }
}

//! What a demo must show, as named checks.

use serde::Serialize;

use super::report::{Run, WorkerReport};
use super::train::TrainConfig;

/// One statement about a demo, and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The statement.
    pub name: String,
    /// Whether it holds.
    pub ok: bool,
    /// The numbers behind it.
    pub detail: String,
}

/// How close data-parallel training must come to one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckLimits {
    /// Accuracy that must be reached, 0..=1. The default suits the default training.
    pub accuracy: f64,
    /// How far accuracy may lie below one process's, 0..=1. The default is five of 360 images.
    pub accuracy_loss: f64,
    /// How far an epoch's mean loss may lie from one process's.
    pub loss_gap: f32,
}

impl Default for CheckLimits {
    fn default() -> Self {
        Self {
            accuracy: 0.96,
            accuracy_loss: 0.015,
            loss_gap: 0.01,
        }
    }
}

impl CheckLimits {
    /// The limits for the default training over this many epochs: a short one recognises less. Whatever the seed, it
    /// has some 2 % more than this after 1, 2, 3 and 5 epochs.
    pub fn for_epochs(epochs: usize) -> Self {
        let default = Self::default();
        if epochs >= TrainConfig::default().epochs {
            return default;
        }
        Self {
            accuracy: default.accuracy - 0.16 / epochs.max(1) as f64,
            ..default
        }
    }
}

/// Holds every run against the others and against the same training in one process.
pub fn compare(single: &WorkerReport, runs: &[Run], limits: CheckLimits) -> Vec<Check> {
    let mut checks: Vec<Check> = runs
        .iter()
        .flat_map(|run| {
            [
                same_parameters(run),
                every_step(run, single.all_reduces),
                accuracy(run, single, limits),
                loss(run, single, limits),
            ]
        })
        .collect();
    if runs.len() > 1 {
        checks.push(same_across_runs(runs));
    }
    checks
}

/// How far accuracy under a quorum, or with narrow elements, may lie below that of whole sums, 0..=1: a point, three of 360
/// images.
const APPROXIMATE_LOSS: f64 = 0.01;

/// Holds runs under a quorum against one with the same straggler whose sums wait for all. Other arrival orders give other bits
/// there, so that runs are not compared with each other. Without error feedback accuracy is shown, but no one says how much
/// is lost.
pub fn compare_quorum(whole: &Run, runs: &[Run], feedback: bool) -> Vec<Check> {
    approximate(whole, runs, feedback, "with sums over all")
}

/// Holds runs with narrow elements against one with all bits, and against each other: no order of arrival changes a bit.
pub fn compare_narrow(whole: &Run, runs: &[Run], feedback: bool) -> Vec<Check> {
    let mut checks = approximate(whole, runs, feedback, "with 32 bits");
    checks.push(same_across_runs(runs));
    checks
}

fn approximate(whole: &Run, runs: &[Run], feedback: bool, with: &str) -> Vec<Check> {
    let check = |run: &Run| {
        let (least, wanted) = (worst(run), worst(whole) - APPROXIMATE_LOSS);
        let detail = format!(
            "{:.2} % ({}: {:.2} %",
            100.0 * least,
            whole.name,
            100.0 * worst(whole)
        );
        let accuracy = Check {
            name: format!("{}: accuracy as {with}", run.name),
            ok: !feedback || (least.is_finite() && least >= wanted),
            detail: match feedback {
                true => format!("{detail}, wanted {:.2} %)", 100.0 * wanted),
                false => format!("{detail}; without feedback nothing is wanted)"),
            },
        };
        let steps = whole.workers.first().map_or(0, |worker| worker.all_reduces);
        [same_parameters(run), every_step(run, steps), accuracy]
    };
    runs.iter().flat_map(check).collect()
}

fn same_parameters(run: &Run) -> Check {
    let mut digests: Vec<String> = run.workers.iter().map(|worker| worker.digest.short()).collect();
    digests.sort();
    digests.dedup();
    Check {
        name: format!("{}: same bits in every worker", run.name),
        ok: digests.len() == 1,
        detail: format!("{} workers, digest {}", run.workers.len(), digests.join(" and ")),
    }
}

fn same_across_runs(runs: &[Run]) -> Check {
    let mut digests: Vec<_> = runs
        .iter()
        .flat_map(|run| &run.workers)
        .map(|worker| worker.digest.short())
        .collect();
    digests.sort();
    digests.dedup();
    Check {
        name: format!("all {} runs: the same bits", runs.len()),
        ok: digests.len() == 1,
        detail: format!("digest {}", digests.join(" and ")),
    }
}

fn every_step(run: &Run, steps: u64) -> Check {
    let done: Vec<u64> = run.workers.iter().map(|worker| worker.all_reduces).collect();
    Check {
        name: format!("{}: every worker took every step", run.name),
        ok: !done.is_empty() && done.iter().all(|&count| count == steps),
        detail: match (done.iter().min(), done.iter().max()) {
            (Some(least), Some(most)) if least != most => {
                format!("{least} to {most} all-reduces for {steps} steps")
            }
            (least, _) => format!("{} all-reduces for {steps} steps", least.unwrap_or(&0)),
        },
    }
}

/// Accuracy of the worst worker.
fn worst(run: &Run) -> f64 {
    let accuracies = run.workers.iter().map(|worker| worker.accuracy);
    accuracies.fold(f64::INFINITY, f64::min)
}

fn accuracy(run: &Run, single: &WorkerReport, limits: CheckLimits) -> Check {
    let worst = worst(run);
    let least = limits.accuracy.max(single.accuracy - limits.accuracy_loss);
    Check {
        name: format!("{}: accuracy as in one process", run.name),
        ok: worst.is_finite() && worst >= least,
        detail: format!(
            "{:.2} % (one process {:.2} %, wanted {:.2} %)",
            100.0 * worst,
            100.0 * single.accuracy,
            100.0 * least
        ),
    }
}

fn loss(run: &Run, single: &WorkerReport, limits: CheckLimits) -> Check {
    let same_length = run
        .workers
        .iter()
        .all(|worker| worker.epochs.len() == single.epochs.len());
    let gaps = run.workers.iter().flat_map(|worker| {
        worker
            .epochs
            .iter()
            .zip(&single.epochs)
            .map(|(epoch, single)| (epoch.loss - single.loss).abs())
    });
    let gap = gaps.fold(0.0, f32::max);
    Check {
        name: format!("{}: loss follows one process", run.name),
        ok: !run.workers.is_empty() && same_length && gap <= limits.loss_gap,
        detail: format!("largest gap {gap:.0e} nats an epoch, wanted {}", limits.loss_gap),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::report::{Traffic, tests::outcome};
    use super::*;

    fn run(name: &str, parameters: [f32; 2]) -> Run {
        let worker = |rank: usize| {
            WorkerReport::new(rank, 2, &outcome(60, vec![parameters[rank]]), Traffic::default())
        };
        Run {
            name: name.to_owned(),
            workers: vec![worker(0), worker(1)],
            counters: BTreeMap::new(),
        }
    }

    fn failed(runs: &[Run], limits: CheckLimits) -> Vec<String> {
        let single = WorkerReport::new(0, 1, &outcome(60, vec![0.5]), Traffic::default());
        compare(&single, runs, limits)
            .into_iter()
            .filter(|check| !check.ok)
            .map(|check| check.name)
            .collect()
    }

    #[test]
    fn each_difference_fails_its_own_check() {
        let limits = CheckLimits {
            accuracy: 0.5,
            ..CheckLimits::default()
        };
        let good = run("a", [1.0, 1.0]);
        assert_eq!(failed(&[good.clone(), good.clone()], limits), [""; 0]);
        assert_eq!(
            failed(&[run("a", [1.0, 2.0])], limits),
            ["a: same bits in every worker"]
        );
        assert_eq!(
            failed(&[good.clone(), run("b", [2.0, 2.0])], limits),
            ["all 2 runs: the same bits"]
        );
        assert_eq!(
            failed(
                std::slice::from_ref(&good),
                CheckLimits {
                    accuracy: 0.99,
                    ..limits
                }
            ),
            ["a: accuracy as in one process"]
        );
        let mut late = good.clone();
        late.workers[1].all_reduces -= 1;
        late.workers[0].epochs[2].loss += 0.1;
        assert_eq!(
            failed(&[late], limits),
            ["a: every worker took every step", "a: loss follows one process"]
        );
    }

    #[test]
    fn a_quorum_is_held_against_sums_over_all() {
        let all = run("all", [1.0, 1.0]);
        let failed = |run: &Run, feedback| {
            let checks = compare_quorum(&all, std::slice::from_ref(run), feedback);
            checks.iter().filter(|check| !check.ok).count()
        };
        let mut good = run("q", [2.0, 2.0]);
        good.workers[1].accuracy -= 0.009;
        assert_eq!(failed(&good, true), 0);
        good.workers[1].accuracy -= 0.002;
        assert_eq!((failed(&good, true), failed(&good, false)), (1, 0));
        assert_eq!(
            failed(&run("q", [1.0, 2.0]), true),
            1,
            "ranks must hold the same parameters"
        );
        good.workers[0].all_reduces += 1;
        assert_eq!(failed(&good, false), 1);
    }

    #[test]
    fn short_training_need_not_recognise_as_much() {
        let limit = |epochs| CheckLimits::for_epochs(epochs).accuracy;
        assert!(limit(1) < limit(3) && limit(3) < limit(15));
        assert_eq!(limit(15), CheckLimits::default().accuracy);
    }

    #[test]
    fn a_run_without_workers_fails() {
        let empty = Run {
            name: "a".to_owned(),
            workers: Vec::new(),
            counters: BTreeMap::new(),
        };
        assert_eq!(failed(&[empty], CheckLimits::default()).len(), 4);
    }
}

//! What a quorum gains and what it does without, as lines for a terminal.

use super::report::{Run, WorkerReport};

/// For each run: time of a step; under it each worker that was late, and the slow one, with how often it was in the sums.
pub fn render_lateness(runs: &[Run], slow: Option<usize>) -> String {
    let lines: Vec<_> = runs.iter().flat_map(|run| lines(run, slow)).collect();
    lines.join("\n")
}

fn lines(run: &Run, slow: Option<usize>) -> Vec<String> {
    // The others' time is what a quorum saves; a worker that is slow anyway steps through when it can.
    let others = run.workers.iter().filter(|worker| Some(worker.rank) != slow);
    let step = others.map(WorkerReport::step_seconds).fold(0.0, f64::max);
    let mut lines = vec![format!("{}: {:.2} ms a step", run.name, 1e3 * step)];
    for worker in &run.workers {
        let Some(late) = worker.lateness else { continue };
        if late.late_chunks > 0 || Some(worker.rank) == slow {
            lines.push(format!(
                "  worker {} is in {} of {} sums, late for {:.1} % of the chunks, {} gradients",
                worker.rank,
                late.contributed,
                worker.all_reduces,
                100.0 * late.late_chunks as f64 / late.chunks.max(1) as f64,
                late.gradients
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::report::{Lateness, Traffic, tests::outcome};
    use super::*;

    #[test]
    fn the_slow_worker_is_counted() {
        let worker = |rank| WorkerReport::new(rank, 2, &outcome(30, vec![2.0]), Traffic::default());
        let mut slow = worker(1);
        slow.lateness = Some(Lateness {
            gradients: 8,
            contributed: 7,
            chunks: 300,
            late_chunks: 210,
        });
        slow.compute_seconds = 100.0;
        let run = Run {
            name: "quorum".to_owned(),
            workers: vec![worker(0), slow],
            counters: BTreeMap::new(),
        };
        let text = render_lateness(std::slice::from_ref(&run), Some(1));
        assert!(
            text.contains("quorum: 3.")
                && text.contains("worker 1 is in 7 of 30 sums, late for 70.0 % of the chunks, 8"),
            "{text}"
        );
        let alike = Run {
            workers: vec![worker(0)],
            ..run
        };
        assert_eq!(render_lateness(&[alike], None).lines().count(), 1);
    }
}

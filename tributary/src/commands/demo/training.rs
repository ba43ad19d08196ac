//! One training: in this process alone, or by worker processes.

use tributary::demo::{AllReduce, Run, Traffic, TrainConfig, TrainError, WorkerMessage, WorkerReport, train};

use super::progress::Progress;
use crate::aggregator::{self, Aggregator};
use crate::commands::demo_worker::{self, Setup};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::workers::Workers;

/// One process's sum is its own vector, as [`NoReduce`](tributary::demo::NoReduce) has it; but Ctrl-C ends it.
struct Alone<'a>(&'a Interrupt);

impl AllReduce for Alone<'_> {
    type Error = Failure;

    fn sum(&mut self, _gradient: &mut [f32]) -> Result<(), Failure> {
        self.0.check()
    }
}

/// The same training in this process: what the others are held against.
pub fn alone(
    config: &TrainConfig,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<WorkerReport, Failure> {
    progress.start("one process");
    let outcome = train(config, 0, 1, &mut Alone(interrupt), |record| {
        progress.epoch("one process", record)
    });
    let outcome = outcome.map_err(|error| match error {
        TrainError::AllReduce { source, .. } => source,
        other => Failure::Training {
            who: "one process".to_owned(),
            reason: other.to_string(),
        },
    })?;
    Ok(WorkerReport::new(0, 1, &outcome, Traffic::default()))
}

/// A training by one process a setup.
pub fn together(
    name: &str,
    setups: &[Setup],
    aggregator: &Aggregator,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<Run, Failure> {
    progress.start(name);
    let before = aggregator.counters()?;
    let mut reports: Vec<Option<WorkerReport>> = vec![None; setups.len()];
    let workers = Workers::spawn(demo_worker::NAME, setups)?;
    workers.run(interrupt, |rank, line| {
        let message = WorkerMessage::parse_line(line).map_err(|reason| Failure::Protocol {
            line: line.to_owned(),
            reason,
        })?;
        match message {
            WorkerMessage::Progress { rank: 0, record } => progress.epoch(name, &record),
            WorkerMessage::Progress { .. } => {}
            WorkerMessage::Report(report) => reports[rank] = Some(report),
        }
        Ok(())
    })?;
    let counters = aggregator::counted(&before, &aggregator.counters()?);
    let reports = reports.into_iter().enumerate();
    let workers = reports
        .map(|(rank, report)| report.ok_or(Failure::NoReport { rank }))
        .collect::<Result<_, _>>()?;
    Ok(Run {
        name: name.to_owned(),
        workers,
        counters,
    })
}

//! What workers do: one operation after the other, each at its own pace.

use std::collections::VecDeque;

use agg_core::Failure;

use super::{Cluster, End, Event};
use crate::harness::{Data, Values};

/// What one worker does.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// What it still has to reduce.
    pub(super) ahead: VecDeque<Values>,
    /// What it was given for each operation so far.
    pub(super) given: Vec<Values>,
    /// What it began to reduce, with what was left of earlier operations, and what each came to.
    pub(super) begun: Vec<Values>,
    pub(super) ends: Vec<End>,
    /// What results have not held of its values so far (R-QUORUM-4).
    pub(super) residual: Vec<f32>,
}

impl Part {
    /// Whether it has something to do.
    pub(super) fn goes_on(&self) -> bool {
        let failed = matches!(self.ends.last(), Some(End::Failed(_)));
        !failed && (!self.ahead.is_empty() || self.ends.len() < self.begun.len())
    }
}

impl Cluster {
    /// Every worker reduces its part of each operation, one after the other; then everybody has the model's sums. The
    /// operations are given by the rank of their inputs.
    pub fn run_all(&mut self, operations: Vec<Vec<Values>>) {
        for inputs in operations {
            for (part, input) in self.parts.iter_mut().zip(inputs) {
                part.ahead.push_back(input);
            }
        }
        for rank in self.homes.clone().into_keys() {
            self.post(Event::Start(rank), Vec::new(), 0, 1 + self.site.weather.jitter);
        }
        self.advance();
    }

    /// Runs one operation to its end and checks that every worker has the model's sum.
    pub fn all_reduce(&mut self, inputs: Vec<Values>) {
        if let Err(failures) = self.run(inputs) {
            panic!("workers failed: {failures:?}");
        }
        self.check_sums();
    }

    /// Runs one operation to its end, on inputs that may disagree.
    pub fn run(&mut self, inputs: Vec<Values>) -> Result<(), Vec<(usize, Failure)>> {
        self.run_all(vec![inputs]);
        let ranks = self.homes.keys();
        let failures: Vec<_> = ranks
            .filter_map(|rank| Some((*rank, self.workers[*rank].failure()?)))
            .collect();
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures)
        }
    }

    /// A worker starts its next operation, if it has one; a worker that was asked how far it is waits.
    pub(super) fn start(&mut self, rank: usize) {
        if !self.homes.contains_key(&rank) || self.workers[rank].is_busy() {
            return;
        }
        if self.is_frozen(rank) {
            self.post(Event::Start(rank), Vec::new(), 100_000, 1);
            return;
        }
        let part = &mut self.parts[rank];
        let Some(mut input) = part.ahead.pop_front() else {
            return;
        };
        part.given.push(input.clone());
        if let Data::Feedback(values, _) = &mut input.data {
            part.residual.resize(values.len(), 0.0);
            for (value, residual) in values.iter_mut().zip(&part.residual) {
                *value += residual;
            }
        }
        part.begun.push(input.clone());
        if !self.workers[rank].start(input, self.now) {
            part.ends.push(End::Abandoned);
            self.post(Event::Start(rank), Vec::new(), 0, self.site.weather.jitter);
        }
    }

    /// A worker's user knows the next operation already, and says so (R-OP-7), sometimes.
    pub(super) fn announce(&mut self, rank: usize) {
        let Some(mut next) = self.parts[rank].ahead.front().cloned() else {
            return;
        };
        // What is left of earlier operations is added to the values of some.
        let changes = matches!(next.data, Data::Feedback(..));
        if !changes && !self.is_frozen_or_lost(rank) && self.random.permille(300) {
            self.announced += u64::from(self.workers[rank].announce(&mut next));
        }
    }

    fn is_frozen_or_lost(&self, rank: usize) -> bool {
        self.is_frozen(rank) || !self.homes.contains_key(&rank)
    }

    /// Notes what came of a worker's operation, once it has ended.
    pub(super) fn note_end(&mut self, rank: usize) {
        let (part, worker) = (&mut self.parts[rank], &self.workers[rank]);
        if part.ends.len() == part.begun.len() || worker.is_busy() {
            return;
        }
        let end = match worker.failure() {
            Some(failure) => End::Failed(failure),
            None if worker.was_abandoned() => End::Abandoned,
            None => End::Reduced(worker.values().clone()),
        };
        if let End::Reduced(values) = &end
            && let Data::Feedback(_, residual) = &values.data
        {
            part.residual.clone_from(residual);
        }
        part.ends.push(end);
        let slowness = self.delays.get(&rank).copied().unwrap_or(0);
        self.post(Event::Start(rank), Vec::new(), slowness, self.site.weather.jitter);
    }
}

//! Running operations over the streams.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use agg_core::{ElementType, OpKind, Operation, Tensor, operation};

use crate::element::Element;
use crate::feedback::{Contribution, Feedback};
use crate::shared::{Shared, lock};
use crate::stream::{Stopped, Stream};
use crate::turns::Ticket;
use crate::{Error, ReduceOptions};

/// What each stream carries of a tensor.
type Parts<'t> = Vec<(u64, Tensor<'t>)>;

impl Shared {
    /// Reduces `values` over the ranks, in place.
    pub(crate) fn reduce<E: Element>(
        &self,
        turn: Ticket<'_>,
        values: &mut [E],
        options: ReduceOptions,
    ) -> Result<(), Error> {
        let operation = self.operation(E::TYPE, values.len(), options)?;
        let mut rest = values;
        let parts = self.part_lengths(operation).map(|len| {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            (len as u64, E::tensor(part))
        });
        let parts = parts.collect();
        self.run(turn, operation, parts).map(|_| ())
    }

    /// Reduces `values` and what is left over of earlier ones over the ranks, in place. What the sum does not hold is left over.
    pub(crate) fn reduce_with_feedback(
        &self,
        turn: Ticket<'_>,
        values: &mut [f32],
        feedback: &mut Feedback,
        options: ReduceOptions,
    ) -> Result<Contribution, Error> {
        if feedback.len() != values.len() {
            return Err(Error::FeedbackLength {
                feedback: feedback.len(),
                values: values.len(),
            });
        }
        let operation = self.operation(ElementType::F32, values.len(), options)?;
        if !operation.kind.is_scaled() {
            return Err(Error::NothingToFeedBack { op: options.op });
        }
        let mut rest_residual = feedback.apply(values);
        let mut rest = values;
        let parts = self.part_lengths(operation).map(|len| {
            let (values, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            let (residual, after) = std::mem::take(&mut rest_residual).split_at_mut(len);
            rest_residual = after;
            (len as u64, Tensor::F32Feedback { values, residual })
        });
        let parts = parts.collect();
        let late = self.run(turn, operation, parts)?;
        Ok(Contribution {
            chunks: operation
                .elements
                .div_ceil(self.elements_of_chunk(operation.kind)),
            late,
        })
    }

    /// Waits for every rank.
    pub(crate) fn barrier(&self, turn: Ticket<'_>) -> Result<(), Error> {
        let parts = (0..self.streams.len()).map(|stream| (u64::from(stream == 0), Tensor::Empty));
        let operation = Operation {
            kind: OpKind::Barrier,
            elements: 1,
        };
        self.run(turn, operation, parts.collect()).map(|_| ())
    }

    /// The operation that reduces so many elements, or why there is none.
    pub(crate) fn operation(
        &self,
        element: ElementType,
        elements: usize,
        options: ReduceOptions,
    ) -> Result<Operation, Error> {
        Ok(Operation {
            kind: options.kind(element, self.size())?,
            elements: elements as u64,
        })
    }

    fn elements_of_chunk(&self, kind: OpKind) -> u64 {
        kind.elements_of(usize::from(self.terms.lanes)) as u64
    }

    pub(crate) fn part_lengths(&self, operation: Operation) -> impl Iterator<Item = usize> {
        let (per_chunk, streams) = (self.elements_of_chunk(operation.kind), self.streams.len() as u64);
        (0..streams).map(move |stream| {
            let part = operation::stream_part(operation.elements, per_chunk, streams, stream);
            (part.end - part.start) as usize
        })
    }

    /// Runs one operation on every stream: the first one here, others that have a part on threads of their own. Returns the
    /// number of chunks for which this rank was late.
    fn run(&self, turn: Ticket<'_>, operation: Operation, parts: Parts<'_>) -> Result<u64, Error> {
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        if let Some(reason) = self.ended.get() {
            return Err(self.fail(self.ended_error(reason.clone())));
        }
        let started = Instant::now();
        self.upcoming.pass(turn.number());
        let outcome = self.run_on_streams(turn.number(), operation, parts);
        if let Some(counted) = self.count() {
            *lock(&self.counted) = counted;
        }
        match outcome {
            Ok(late) => {
                drop(turn);
                let mut totals = lock(&self.totals);
                totals.operations += 1;
                totals.tensor_bytes += match operation.kind {
                    OpKind::Barrier => 0,
                    OpKind::Reduce(reduction) => reduction.element().bytes() * operation.elements,
                };
                totals.busy += started.elapsed();
                Ok(late)
            }
            // The one error after which the job goes on.
            Err(Stopped::Abandoned) => Err(self.ranks_lost()),
            // Before the turn is given back, so that the next operation finds it.
            Err(stopped) => Err(self.fail(self.explain(stopped))),
        }
    }

    fn run_on_streams(&self, place: u64, operation: Operation, parts: Parts<'_>) -> Result<u64, Stopped> {
        // One stream's failure is the operation's: the others need not wait for their own deadlines. Not so where ranks
        // were lost: every stream ends by itself then, in step with the other ranks.
        let failed = AtomicBool::new(false);
        let run = |stream: &Mutex<Stream>, elements, mut tensor: Tensor<'_>| {
            let mut stream = lock(stream);
            let late = stream.worker.stats().late;
            let over = || failed.load(Ordering::Relaxed) || self.ended.get().is_some();
            let next = || self.upcoming.get(place + 1);
            let outcome = stream.run(operation, elements, &mut tensor, over, next);
            let is_failure = !matches!(outcome, Ok(()) | Err(Stopped::Abandoned));
            failed.fetch_or(is_failure, Ordering::Relaxed);
            outcome.map(|()| stream.worker.stats().late - late)
        };
        std::thread::scope(|scope| {
            let mut parts = self.streams.iter().zip(parts);
            let first = parts.next();
            let mut outcome = Ok(0);
            let mut threads = Vec::new();
            for (stream, (elements, tensor)) in parts {
                if elements == 0 {
                    // Nothing to move, but the operation counts here too (R-OP-1).
                    outcome = both(outcome, run(stream, 0, tensor));
                } else {
                    threads.push(scope.spawn(move || run(stream, elements, tensor)));
                }
            }
            if let Some((stream, (elements, tensor))) = first {
                outcome = both(outcome, run(stream, elements, tensor));
            }
            threads.into_iter().fold(outcome, |outcome, thread| {
                both(outcome, thread.join().unwrap_or(Err(Stopped::Ended)))
            })
        })
    }
}

/// The outcome of two streams. A failure says more than that ranks were lost, that more than that a stream was cut short.
fn both(one: Result<u64, Stopped>, other: Result<u64, Stopped>) -> Result<u64, Stopped> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one + other),
        (Ok(_), Err(stopped)) | (Err(stopped), Ok(_)) => Err(stopped),
        (Err(Stopped::Ended), Err(stopped)) | (Err(stopped), Err(Stopped::Ended)) => Err(stopped),
        (Err(Stopped::Abandoned), Err(stopped)) | (Err(stopped), Err(_)) => Err(stopped),
    }
}

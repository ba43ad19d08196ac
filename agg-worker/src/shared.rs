//! What the threads of one communicator share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use agg_control::{ControlClient, ControlError, Member, Pulse};
use agg_core::{Failure, OpKind, Operation, Tensor, operation};

use crate::Error;
use crate::element::Element;
use crate::names::Members;
use crate::port::WorkerPort;
use crate::stats::Stats;
use crate::stream::{Stopped, Stream};
use crate::turns::{Ticket, Turns};

/// How long a call may take that only explains a failure, or tells others of it: the deadline has passed already.
const EXPLAIN: Duration = Duration::from_secs(1);

pub(crate) struct Shared {
    pub(crate) world: String,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) lanes: u64,
    pub(crate) window: u32,
    pub(crate) data_addr: SocketAddr,
    pub(crate) control: ControlClient,
    pub(crate) member: Member,
    pub(crate) members: Members,
    pub(crate) streams: Vec<Mutex<Stream>>,
    /// The streams' sockets, to wait on without holding a stream.
    pub(crate) ports: Vec<Arc<WorkerPort>>,
    pub(crate) turns: Turns,
    /// Threads are to stop.
    pub(crate) stop: AtomicBool,
    /// Why the job was ended from outside, once it was.
    pub(crate) ended: OnceLock<String>,
    /// The first error: every later operation has the same.
    pub(crate) failed: OnceLock<Error>,
    /// Chunks done, for the heartbeat.
    pub(crate) progress: AtomicU64,
    pub(crate) totals: Mutex<Totals>,
}

#[derive(Default)]
pub(crate) struct Totals {
    operations: u64,
    tensor_bytes: u64,
    busy: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Sums `values` over the ranks, in place.
    pub(crate) fn reduce<E: Element>(&self, turn: Ticket<'_>, values: &mut [E]) -> Result<(), Error> {
        let operation = Operation {
            kind: E::SUM,
            elements: values.len() as u64,
        };
        let mut rest = values;
        let mut parts = Vec::with_capacity(self.streams.len());
        for stream in 0..self.streams.len() as u64 {
            let part =
                operation::stream_part(operation.elements, self.lanes, self.streams.len() as u64, stream);
            let (part, after) = rest.split_at_mut((part.end - part.start) as usize);
            parts.push((part.len() as u64, E::tensor(part)));
            rest = after;
        }
        self.run(turn, operation, parts)
    }

    /// Waits for every rank.
    pub(crate) fn barrier(&self, turn: Ticket<'_>) -> Result<(), Error> {
        let parts = (0..self.streams.len())
            .map(|stream| (u64::from(stream == 0), Tensor::Empty))
            .collect();
        self.run(
            turn,
            Operation {
                kind: OpKind::Barrier,
                elements: 1,
            },
            parts,
        )
    }

    /// Runs one operation on every stream: the first one here, others that have a part on threads of their own.
    fn run(
        &self,
        turn: Ticket<'_>,
        operation: Operation,
        parts: Vec<(u64, Tensor<'_>)>,
    ) -> Result<(), Error> {
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        if let Some(reason) = self.ended.get() {
            return Err(self.fail(self.ended_error(reason.clone())));
        }
        let started = Instant::now();
        // One stream's failure is the operation's: the others need not wait for their own deadlines.
        let failed = AtomicBool::new(false);
        let run = |stream: &Mutex<Stream>, elements, mut tensor: Tensor<'_>| {
            let mut stream = lock(stream);
            let done = stream.worker.stats().results;
            let over = || failed.load(Ordering::Relaxed) || self.ended.get().is_some();
            let outcome = stream.run(operation, elements, &mut tensor, over);
            failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
            self.progress
                .fetch_add(stream.worker.stats().results - done, Ordering::Relaxed);
            outcome
        };
        let outcome = std::thread::scope(|scope| {
            let mut parts = self.streams.iter().zip(parts);
            let first = parts.next();
            let others: Vec<_> = parts
                .filter_map(|(stream, (elements, tensor))| {
                    if elements == 0 {
                        // Nothing to move, but the operation counts here too (R-OP-1).
                        return run(stream, 0, tensor).err().map(Err);
                    }
                    Some(Ok(scope.spawn(move || run(stream, elements, tensor))))
                })
                .collect();
            let mut outcome = first.map_or(Ok(()), |(stream, (elements, tensor))| {
                run(stream, elements, tensor)
            });
            for other in others {
                let other = match other {
                    Ok(thread) => thread.join().unwrap_or(Err(Stopped::Ended)),
                    Err(stopped) => Err(stopped),
                };
                // A failure says more than that another stream was cut short by it.
                outcome = match (outcome, other) {
                    (Ok(()) | Err(Stopped::Ended), Err(stopped)) => Err(stopped),
                    (outcome, _) => outcome,
                };
            }
            outcome
        });
        if let Err(stopped) = outcome {
            // Before the turn is given back, so that the next operation finds it.
            return Err(self.fail(self.explain(stopped)));
        }
        drop(turn);
        let mut totals = lock(&self.totals);
        totals.operations += 1;
        totals.tensor_bytes += if operation.kind == OpKind::Barrier {
            0
        } else {
            4 * operation.elements
        };
        totals.busy += started.elapsed();
        Ok(())
    }

    /// Remembers the first error and returns it.
    fn fail(&self, error: Error) -> Error {
        self.failed.get_or_init(|| error).clone()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// A panic in the caller's buffer: the operation did not take place here, so that this rank is out of step.
    pub(crate) fn fail_by_panic(&self) -> Error {
        if !self.has_failed() {
            self.tell_others("the buffer of a submitted operation panicked");
        }
        self.fail(Error::BufferPanicked {
            world: self.world.clone(),
            rank: self.rank,
        })
    }

    /// Ends the job for the other ranks, so that they need not wait for their own deadlines.
    pub(crate) fn tell_others(&self, reason: &str) {
        if let Err(error) = self.control.with_timeout(EXPLAIN).abort(self.member, reason) {
            tracing::debug!(%error, "could not tell the other ranks");
        }
    }

    fn ended_error(&self, reason: String) -> Error {
        Error::Ended {
            world: self.world.clone(),
            rank: self.rank,
            reason,
        }
    }

    /// The error for the caller; the other ranks are told through the control service, and it is asked what it knows.
    fn explain(&self, stopped: Stopped) -> Error {
        let failure = match stopped {
            Stopped::Socket(source) => {
                return Error::Socket {
                    world: self.world.clone(),
                    rank: self.rank,
                    aggregator: self.data_addr,
                    source: Arc::new(source),
                };
            }
            Stopped::Ended => {
                return self.ended_error(
                    self.ended
                        .get()
                        .cloned()
                        .unwrap_or_else(|| "an operation was cut short".into()),
                );
            }
            Stopped::Failed(failure) => failure,
        };
        let text = self.members.describe(&failure);
        let detail = match failure {
            Failure::Aborted(_) => self
                .why_aborted()
                .map_or_else(String::new, |reason| format!(" ({reason})")),
            Failure::AggregatorSilent { .. } => self.why_silent(),
            Failure::Excluded => String::new(),
            Failure::MembersMissing { .. }
            | Failure::OthersMissing { .. }
            | Failure::OperationDiffers { .. }
            | Failure::ScaleDiffers { .. } => {
                self.tell_others(&text);
                String::new()
            }
        };
        Error::Operation {
            world: self.world.clone(),
            rank: self.rank,
            aggregator: self.data_addr,
            failure: Box::new(failure),
            text,
            detail,
        }
    }

    /// What the control service says of the job, soon or not at all.
    fn ask_control(&self) -> Result<Pulse, ControlError> {
        let progress = self.progress.load(Ordering::Relaxed);
        self.control
            .with_timeout(EXPLAIN)
            .heartbeat(self.member, progress)
    }

    fn why_aborted(&self) -> Option<String> {
        match self.ask_control() {
            Ok(Pulse::Aborted(reason)) => Some(reason.text),
            Ok(Pulse::Ok | Pulse::UnknownJob | Pulse::Reform | Pulse::Excluded(_)) | Err(_) => None,
        }
    }

    /// What else is known of an aggregator that does not answer: packets that the kernel would not send, and whether its
    /// control service is there.
    fn why_silent(&self) -> String {
        let unsent: Vec<_> = self.streams.iter().map(|stream| lock(stream).unsent()).collect();
        if let Some((count, Some(error))) = unsent.into_iter().find(|(count, _)| *count > 0) {
            return format!("; the kernel refused {count} packets: {error}");
        }
        match self.ask_control() {
            Ok(Pulse::UnknownJob) => "; it was restarted and does not know the job".into(),
            Ok(Pulse::Aborted(reason) | Pulse::Excluded(reason)) => {
                format!("; the job was aborted: {}", reason.text)
            }
            Ok(Pulse::Ok | Pulse::Reform) => {
                "; its control service does answer: does a firewall drop UDP between here and there?".into()
            }
            Err(error) => format!("; {error}"),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let totals = lock(&self.totals);
        let mut stats = Stats {
            operations: totals.operations,
            tensor_bytes: totals.tensor_bytes,
            busy: totals.busy,
            lanes: self.lanes as u32,
            window: self.window,
            streams: self.streams.len() as u32,
            ..Stats::default()
        };
        drop(totals);
        for (index, stream) in self.streams.iter().enumerate() {
            let stream = lock(stream);
            let worker = stream.worker.stats();
            stats.packets_sent += stream.packets_sent();
            stats.packets_unsent += stream.unsent().0;
            stats.resends += worker.resent();
            stats.resends_timeout += worker.resent_timeout;
            stats.resends_overtaken += worker.resent_overtaken;
            stats.resends_wanted += worker.resent_wanted;
            stats.results += worker.results;
            stats.injected_losses += stream.port.lost();
            if index == 0 {
                stats.round_trip = Duration::from_nanos(stream.worker.rtt());
            }
        }
        stats
    }
}

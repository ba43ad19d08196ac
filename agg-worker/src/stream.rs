//! One stream: the sans-IO worker behind one port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agg_core::worker::StartError;
use agg_core::{Exponent, Failure, Nanos, Operation, Tensor};

use crate::moves::{Moves, Report, Trouble};
use crate::place::Place;
use crate::simd::{self, StreamWorker};
use crate::transport::{Link, LinkCounts, Ports};
use crate::upcoming::Announcement;

/// The longest sleep without a look whether the job has been ended from outside.
const LOOK_UP: Duration = Duration::from_millis(50);

pub(crate) struct Stream {
    index: usize,
    pub(crate) worker: StreamWorker,
    /// The rank's ports, and of those the stream's.
    ports: Arc<dyn Ports>,
    link: Box<dyn Link>,
    /// What became of packets at ports that it had before.
    before: LinkCounts,
    max_packet: usize,
    moves: Arc<Moves>,
    /// Of the place where this stream is.
    generation: u64,
    /// An operation fails when no part of its result came for this long.
    timeout: Nanos,
    /// Silence for so long is looked into.
    failover_after: Nanos,
    /// It looks for results so long before it sleeps.
    busy_poll: Nanos,
    aggregator: SocketAddr,
    /// The aggregator's socket is not bound to one address: it may answer from another than it was sent to, whichever its
    /// kernel picks. Its port and the job's key tell its packets then.
    aggregator_has_many_addresses: bool,
    /// Aggregators that the job has left: they may believe that it is still theirs, and say that it has ended.
    left: Vec<SocketAddr>,
    /// Time in which nothing could be sent although the operation had chunks left.
    stalled: Duration,
}

/// Why an operation stopped on a stream.
pub(crate) enum Stopped {
    Failed(Failure),
    /// Ranks were lost, and this is the operation that ends with them.
    Abandoned,
    Ended,
    Socket(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

impl Stream {
    pub(crate) fn new(
        index: usize,
        worker: StreamWorker,
        moves: &Arc<Moves>,
        max_packet: usize,
        timeout: Duration,
        failover_after: Duration,
        busy_poll: Duration,
    ) -> Self {
        let place = moves.place();
        let ports = Arc::clone(&place.ports);
        Self {
            index,
            generation: place.generation,
            timeout: nanos(timeout),
            failover_after: nanos(failover_after),
            // Only who sleeps looks after the job.
            busy_poll: nanos(busy_poll.min(LOOK_UP)),
            link: ports.link(index, max_packet),
            before: LinkCounts::default(),
            max_packet,
            stalled: Duration::ZERO,
            worker,
            ports,
            moves: Arc::clone(moves),
            aggregator: place.shard(index),
            aggregator_has_many_addresses: place.has_many_addresses,
            left: Vec::new(),
        }
    }

    /// Runs an operation to its end. `ended` is asked now and then whether the job is over, `next` which operation comes after
    /// this one.
    pub(crate) fn run(
        &mut self,
        operation: Operation,
        elements: u64,
        tensor: &mut Tensor<'_>,
        ended: impl Fn() -> bool,
        next: impl Fn() -> Option<Arc<Announcement>>,
    ) -> Result<(), Stopped> {
        self.wait_until_settled(operation, &ended)?;
        self.worker
            .start(operation, elements, self.moves.now())
            .map_err(|error| match error {
                StartError::Failed(failure) => Stopped::Failed(failure),
                StartError::Abandoned => Stopped::Abandoned,
                // The caller holds the stream from start to end, so that an operation under way was cut short.
                StartError::Busy => Stopped::Ended,
            })?;
        let mut last_heard = self.moves.now();
        let mut announced = false;
        while self.worker.is_busy() {
            let is_held = self.follow();
            if !self.worker.is_busy() {
                break;
            }
            let heard = if is_held {
                false
            } else {
                if !announced && let Some(next) = next() {
                    announced = self.announce(&next);
                }
                self.send_all(tensor)?;
                self.receive(tensor)? > 0
            };
            if ended() {
                return Err(Stopped::Ended);
            }
            let now = self.moves.now();
            let due = self.worker.next_timeout().unwrap_or(now);
            if now >= due {
                self.worker.handle_timeout(now);
            } else if is_held {
                self.moves.wait(Duration::from_nanos(due - now).min(LOOK_UP));
            } else if heard {
                last_heard = now;
            } else {
                let sleeps = now.saturating_sub(last_heard) >= self.busy_poll;
                if sleeps {
                    self.link.wait(Duration::from_nanos(due - now).min(LOOK_UP))?;
                } else {
                    // Who shares this core goes first.
                    std::thread::yield_now();
                }
                if self.worker.is_stalled() {
                    self.stalled += Duration::from_nanos(self.moves.now() - now);
                }
                if sleeps {
                    self.worry();
                }
            }
        }
        if announced && self.worker.failure().is_none() && !self.follow() {
            // What of the next operation became free with the last results.
            self.send_all(&Tensor::Empty)?;
        }
        match self.worker.failure() {
            Some(failure) => Err(Stopped::Failed(failure)),
            None if self.worker.was_abandoned() => Err(Stopped::Abandoned),
            None => Ok(()),
        }
    }

    /// Begins to agree on the exponents of the next operation; `false` if not now.
    fn announce(&mut self, next: &Announcement) -> bool {
        let Some((elements, exponents)) = next.parts.get(self.index) else {
            return false;
        };
        let exponent = |block| {
            let exponent = usize::try_from(block).ok().and_then(|block| exponents.get(block));
            exponent.copied().unwrap_or(Exponent::NONE)
        };
        self.worker.announce(next.operation, *elements, exponent)
    }

    /// While streams are held none may start an operation: what this rank has said of itself would not hold (R-REFORM-1).
    fn wait_until_settled(&mut self, operation: Operation, ended: impl Fn() -> bool) -> Result<(), Stopped> {
        let began = self.moves.now();
        while self.follow() {
            if ended() {
                return Err(Stopped::Ended);
            }
            if self.moves.now() - began >= self.timeout {
                let position = self.worker.position();
                return Err(Stopped::Failed(Failure::AggregatorSilent {
                    waited: self.timeout,
                    chunk: position.next_chunk,
                    op_seq: position.operations,
                    operation,
                }));
            }
            self.moves.wait(LOOK_UP);
        }
        Ok(())
    }

    /// Takes in what has come between operations, and answers it.
    pub(crate) fn serve(&mut self) -> io::Result<()> {
        if !self.follow() && self.receive(&mut Tensor::Empty)? > 0 {
            self.send_all(&Tensor::Empty)?;
            self.worry();
        }
        Ok(())
    }

    /// Moves to where this rank is now. Says how far the stream is if streams are held; returns whether they are.
    pub(crate) fn follow(&mut self) -> bool {
        let hold = self.moves.held();
        if self.moves.generation() != self.generation {
            let place = self.moves.place();
            self.adopt(&place);
        }
        if let Some(hold) = hold {
            let report = self.report();
            self.moves.report(hold, self.index, report);
        }
        hold.is_some()
    }

    fn report(&self) -> Report {
        Report {
            position: self.worker.position(),
            epoch: self.worker.epoch(),
        }
    }

    fn adopt(&mut self, place: &Place) {
        self.generation = place.generation;
        let aggregator = place.shard(self.index);
        if !self.left.contains(&self.aggregator) {
            self.left.push(self.aggregator);
        }
        self.left.retain(|left| *left != aggregator);
        self.aggregator = aggregator;
        self.aggregator_has_many_addresses = place.has_many_addresses;
        if !Arc::ptr_eq(&place.ports, &self.ports) {
            self.before = self.counts();
            self.link = place.ports.link(self.index, self.max_packet);
            self.ports = Arc::clone(&place.ports);
        }
        let boundary = place.boundary_on(self.index);
        self.worker.rejoin(&place.membership, boundary, self.moves.now());
    }

    /// Has it looked into if the aggregator is silent or wants a new registration.
    fn worry(&self) {
        if self.worker.wants_to_register() {
            self.moves.raise(Trouble::Reforming, self.generation);
            return;
        }
        if self.worker.wants_to_move() {
            self.moves.raise(Trouble::Departing, self.generation);
            return;
        }
        let now = self.moves.now();
        let silent = self.worker.silent_for(now).min(self.moves.unanswered_for(now));
        if silent > self.failover_after {
            self.moves.raise(Trouble::Silent, self.generation);
        }
    }

    fn send_all(&mut self, tensor: &Tensor<'_>) -> io::Result<()> {
        let now = self.moves.now();
        while let Some(room) = self.link.room()
            && let Some(len) = simd::transmit(&mut self.worker, now, tensor, room)
        {
            self.link.send(len, self.aggregator)?;
        }
        self.link.flush()
    }

    /// Takes in what has come; returns how many packets were the aggregator's.
    fn receive(&mut self, tensor: &mut Tensor<'_>) -> io::Result<usize> {
        let Self {
            link, worker, moves, ..
        } = self;
        let (aggregator, left) = (self.aggregator, &self.left);
        let has_many_addresses = self.aggregator_has_many_addresses;
        // When they have come, not when they are looked for.
        let mut now = None;
        let mut count = 0;
        link.receive(&mut |source, packet, ecn| {
            let is_expected = if has_many_addresses {
                source.port() == aggregator.port() && !left.contains(&source)
            } else {
                source == aggregator
            };
            if is_expected {
                let now = *now.get_or_insert_with(|| moves.now());
                simd::handle(worker, now, packet, ecn, tensor);
                count += 1;
            }
        })?;
        if count > 0 {
            self.moves.count(self.index, self.worker.stats().results);
        }
        Ok(count)
    }

    /// What became of packets.
    pub(crate) fn counts(&self) -> LinkCounts {
        self.before + self.link.counts()
    }

    /// Packets that could not be sent from the port, and why the last could not.
    pub(crate) fn unsent(&self) -> (u64, Option<io::Error>) {
        (self.link.counts().unsent, self.link.last_error())
    }

    /// Time in which nothing could be sent although the operation had chunks left.
    pub(crate) fn stalled(&self) -> Duration {
        self.stalled
    }
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

//! The handle of one rank.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::element::{Buffer, Element};
use crate::join::{self, Joined};
use crate::service::{self, Job};
use crate::shared::Shared;
use crate::{Config, Error, Pending, Stats};

/// One rank of a world: reduces tensors together with the others.
///
/// All ranks must call the same operations in the same order, with tensors of the same size and type; a rank that
/// does not gets an error, and so do the others. Operations run one at a time in the order in which they were called,
/// also those submitted in the background. After an error the communicator cannot be used any more.
#[derive(Debug)]
pub struct Communicator {
    shared: Arc<Shared>,
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    linger: Duration,
    closed: bool,
    /// The aggregator of a world on this machine, in rank 0. Dropped last.
    #[cfg(feature = "embedded")]
    _embedded: Option<udp_host::UdpHost>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "rank {} of {} in '{}' at {}",
            self.rank, self.size, self.world, self.data_addr
        )
    }
}

impl Communicator {
    /// Joins a world: finds the aggregator, registers, and waits for the other ranks.
    ///
    /// # Errors
    /// [`Error::Join`], which says what to do: no aggregator there, ranks that did not come, a world that is taken, sizes
    /// that disagree, a job that does not fit.
    pub fn connect(config: Config) -> Result<Self, Error> {
        let linger = config.linger;
        let Joined {
            shared,
            heartbeat,
            embedded: _embedded,
        } = join::join(config)?;
        let shared = Arc::new(shared);
        let (jobs, queue) = channel();
        let mut communicator = Self {
            shared: Arc::clone(&shared),
            jobs: Some(jobs),
            threads: Vec::new(),
            linger,
            closed: false,
            #[cfg(feature = "embedded")]
            _embedded,
        };
        communicator.spawn("submitted", move |shared| service::run_submitted(shared, &queue))?;
        communicator.spawn("idle", service::serve_idle)?;
        communicator.spawn("heartbeat", move |shared| {
            service::send_heartbeats(shared, heartbeat)
        })?;
        Ok(communicator)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce(&Shared) + Send + 'static) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name(format!("tributary-{name}"))
            .spawn(move || body(&shared));
        let thread = thread.map_err(|error| Error::Join {
            world: self.shared.world.clone(),
            rank: self.shared.rank,
            reason: format!("cannot start a thread: {error}"),
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.shared.rank
    }

    /// Ranks in the world.
    pub fn size(&self) -> u32 {
        self.shared.size
    }

    /// Sums `values` over all ranks, in place. Every rank ends with the same bits.
    ///
    /// # Errors
    /// [`Error::Operation`]: ranks that are missing at the deadline, an aggregator that does not answer, ranks that
    /// disagree on the operation, a job that was aborted. `values` is then undefined, but every element initialised.
    pub fn all_reduce<E: Element>(&mut self, values: &mut [E]) -> Result<(), Error> {
        let turn = self.shared.turns.wait(self.shared.turns.take());
        self.shared.reduce(turn, values)
    }

    /// Sums a buffer over all ranks in the background. Waiting for the result gives the buffer back.
    pub fn submit<B: Buffer>(&mut self, mut buffer: B) -> Pending<B> {
        let (done, outcome) = channel();
        let closed = Error::Closed {
            world: self.shared.world.clone(),
            rank: self.shared.rank,
        };
        let turn = self.shared.turns.take();
        let job: Job = Box::new(move |shared| {
            // The turn comes first: if the caller's code panics, the unwinding gives it back.
            let reduce = || {
                let turn = shared.turns.wait(turn);
                shared.reduce(turn, buffer.elements())
            };
            let result =
                catch_unwind(AssertUnwindSafe(reduce)).unwrap_or_else(|_| Err(shared.fail_by_panic()));
            // Nobody waits for it any more: that is the caller's to decide.
            let _ = done.send(result.map(|()| buffer));
        });
        if let Some(jobs) = &self.jobs {
            // The receiving thread lives as long as this sender.
            let _ = jobs.send(job);
        }
        Pending::new(outcome, closed)
    }

    /// Waits until every rank has called it.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`].
    pub fn barrier(&mut self) -> Result<(), Error> {
        let turn = self.shared.turns.wait(self.shared.turns.take());
        self.shared.barrier(turn)
    }

    /// Copies rank `root`'s `values` to every rank, bit for bit. It is a sum to which the others contribute zeros: as
    /// many bytes as an all-reduce.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`]; and [`Error::Root`] where there is no such rank.
    pub fn broadcast<E: Element>(&mut self, root: u32, values: &mut [E]) -> Result<(), Error> {
        if root >= self.shared.size {
            return Err(Error::Root {
                root,
                world: self.shared.world.clone(),
                size: self.shared.size,
            });
        }
        let words: &mut [i32] = bytemuck::cast_slice_mut(values);
        if root != self.shared.rank {
            words.fill(0);
        }
        self.all_reduce(words)
    }

    /// What was done so far. Waits for an operation that is under way.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Leaves the world: a last barrier, so that every rank has every result, then waits until all have left.
    ///
    /// # Errors
    /// As [`Communicator::barrier`].
    pub fn close(mut self) -> Result<(), Error> {
        self.barrier()?;
        self.closed = true;
        match self.shared.control.leave(self.shared.member, self.linger) {
            Ok(left) if left.remaining > 0 => {
                tracing::debug!(remaining = left.remaining, "left before others did");
            }
            Ok(_) => {}
            // Every rank has its results; that the aggregator went away first harms nobody.
            Err(error) => tracing::debug!(%error, "could not say that this rank leaves"),
        }
        Ok(())
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.closed {
            // Operations that were submitted end now, and others that may wait for this rank are told.
            let _ = self
                .shared
                .ended
                .set("this rank's communicator was dropped".into());
            if !self.shared.has_failed() {
                self.shared.tell_others("it left without closing");
            }
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

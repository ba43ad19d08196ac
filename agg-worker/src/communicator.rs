//! The handle of one rank.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use crate::element::{Buffer, Element};
use crate::join::{self, Joined};
use crate::keeper;
use crate::service::{self, Job};
use crate::shared::Shared;
use crate::turns::Ticket;
use crate::upcoming::Announcement;
use crate::{Config, Contribution, Error, Feedback, Pending, ReduceOptions, Stats};

/// One rank of a world: reduces tensors together with the others.
///
/// All ranks must call the same operations in the same order, with tensors of the same size and type; a rank that
/// does not gets an error, and so do the others. Operations run one at a time in the order in which they were called,
/// also those submitted in the background. After an error the communicator cannot be used any more, but for
/// [`Error::RanksLost`].
///
/// When the aggregator is lost the job moves by itself to the next one that all ranks have configured, or to the same one
/// when it is there again: operations take longer then, and end with the same bits.
#[derive(Debug)]
pub struct Communicator {
    shared: Arc<Shared>,
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
    /// The aggregator of a world on this machine, in rank 0, or the leaf of its ranks, in the first of them. Dropped last.
    _embedded: join::Embedded,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "rank {} of {} in '{}' at {}",
            self.config.rank,
            self.config.size,
            self.config.world,
            self.moves.place().data_addr
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
        let Joined {
            shared,
            embedded: _embedded,
        } = join::join(config)?;
        let shared = Arc::new(shared);
        let (jobs, queue) = channel();
        let mut communicator = Self {
            shared: Arc::clone(&shared),
            jobs: Some(jobs),
            threads: Vec::new(),
            closed: false,
            _embedded,
        };
        communicator.spawn("submitted", move |shared| service::run_submitted(shared, &queue))?;
        communicator.spawn("idle", service::serve_idle)?;
        communicator.spawn("keeper", keeper::keep)?;
        Ok(communicator)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce(&Shared) + Send + 'static) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name(format!("tributary-{name}"))
            .spawn(move || body(&shared));
        let thread = thread.map_err(|error| Error::Join {
            world: self.shared.config.world.clone(),
            rank: self.shared.config.rank,
            reason: format!("cannot start a thread: {error}"),
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.shared.config.rank
    }

    /// How many ranks take part: those of the world that were not lost.
    pub fn size(&self) -> u32 {
        self.shared.size()
    }

    /// The ranks that take part, ascending.
    pub fn ranks(&self) -> Vec<u32> {
        self.shared.ranks()
    }

    /// Sums `values` over all ranks, in place. Every rank ends with the same bits.
    ///
    /// # Errors
    /// [`Error::Operation`]: ranks that are missing at the deadline, an aggregator that does not answer, ranks that
    /// disagree on the operation, a job that was aborted. [`Error::RanksLost`], after which the others go on. `values` is then
    /// undefined, but every element initialised.
    pub fn all_reduce<E: Element>(&mut self, values: &mut [E]) -> Result<(), Error> {
        self.all_reduce_with(values, ReduceOptions::default())
    }

    /// Reduces `values` over all ranks, in place, as `options` say: sum, average, smallest or largest, and how narrow elements
    /// are on the wire. Every rank ends with the same bits, and must give the same options.
    ///
    /// Smallest and largest are exact, element by element; NaN wins, and -0 is below 0. Under a quorum sums and averages of
    /// floats may do without ranks that are late; everything else waits for all.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`]; and [`Error::Unsupported`] for options that these elements do not have.
    pub fn all_reduce_with<E: Element>(
        &mut self,
        values: &mut [E],
        options: ReduceOptions,
    ) -> Result<(), Error> {
        let turn = self.shared.turns.wait(self.shared.turns.take());
        self.shared.reduce(turn, values, options)
    }

    /// As [`Communicator::all_reduce`] of `f32`, with error feedback: what the sum does not hold of this rank's values is kept
    /// in `feedback` and added to the values of the next call with it. `feedback` is the tensor's own, of its length.
    ///
    /// Under a quorum a sum may do without a rank that is late; it is then an estimate of the whole sum. The late rank sees
    /// that in the answer. It catches up by cheap operations: as long as [`Contribution::was_late`], it calls the next ones
    /// with zeros, as the others call theirs with gradients, instead of computing another gradient itself. What it has not
    /// contributed yet is in `feedback`, and goes out with the first operation that it is in time for.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`], `feedback` being then as undefined as `values`; and [`Error::FeedbackLength`].
    pub fn all_reduce_with_feedback(
        &mut self,
        values: &mut [f32],
        feedback: &mut Feedback,
    ) -> Result<Contribution, Error> {
        self.all_reduce_feedback_with(values, feedback, ReduceOptions::default())
    }

    /// [`Communicator::all_reduce_with_feedback`] of sums and averages, also narrow ones: what rounding to few bits took of a
    /// value is in `feedback`, and goes out with the next one.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce_with_feedback`]; [`Error::Unsupported`] for options that there are not, and
    /// [`Error::NothingToFeedBack`] for smallest and largest, which are exact.
    pub fn all_reduce_feedback_with(
        &mut self,
        values: &mut [f32],
        feedback: &mut Feedback,
        options: ReduceOptions,
    ) -> Result<Contribution, Error> {
        let turn = self.shared.turns.wait(self.shared.turns.take());
        self.shared.reduce_with_feedback(turn, values, feedback, options)
    }

    /// Sums a buffer over all ranks in the background. Waiting for the result gives the buffer back.
    pub fn submit<B: Buffer>(&mut self, buffer: B) -> Pending<B> {
        self.submit_with(buffer, ReduceOptions::default())
    }

    /// [`Communicator::all_reduce_with`] in the background.
    pub fn submit_with<B: Buffer>(&mut self, mut buffer: B, options: ReduceOptions) -> Pending<B> {
        let look = || {
            let values = buffer.elements();
            let operation = self.shared.operation(B::Element::TYPE, values.len(), options);
            self.shared.announcement(values, operation.ok()?)
        };
        // If the caller's code panics, it does so again in its turn, and every rank learns of it.
        let announcement = catch_unwind(AssertUnwindSafe(look)).unwrap_or(None);
        let reduce = move |shared: &Shared, turn: Ticket<'_>| {
            shared.reduce(turn, buffer.elements(), options)?;
            Ok(buffer)
        };
        self.in_background_announced(announcement, reduce)
    }

    /// [`Communicator::all_reduce_with_feedback`] in the background.
    pub fn submit_with_feedback<B: Buffer<Element = f32>>(
        &mut self,
        values: B,
        feedback: Feedback,
    ) -> Pending<(B, Feedback, Contribution)> {
        self.submit_feedback_with(values, feedback, ReduceOptions::default())
    }

    /// [`Communicator::all_reduce_feedback_with`] in the background.
    pub fn submit_feedback_with<B: Buffer<Element = f32>>(
        &mut self,
        mut values: B,
        mut feedback: Feedback,
        options: ReduceOptions,
    ) -> Pending<(B, Feedback, Contribution)> {
        self.in_background(move |shared, turn| {
            let contribution =
                shared.reduce_with_feedback(turn, values.elements(), &mut feedback, options)?;
            Ok((values, feedback, contribution))
        })
    }

    /// [`Communicator::barrier`] in the background.
    pub fn submit_barrier(&mut self) -> Pending<()> {
        self.in_background(|shared, turn| shared.barrier(turn))
    }

    /// [`Communicator::broadcast`] in the background.
    ///
    /// # Errors
    /// [`Error::Root`] where there is no such rank; nothing is submitted then.
    pub fn submit_broadcast<B: Buffer>(&mut self, root: u32, mut buffer: B) -> Result<Pending<B>, Error> {
        self.check_root(root)?;
        let is_root = root == self.shared.config.rank;
        Ok(self.in_background(move |shared, turn| {
            copy_from_root(shared, turn, buffer.elements(), is_root)?;
            Ok(buffer)
        }))
    }

    /// Runs an operation in its turn, on the thread for submitted ones.
    fn in_background<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Shared, Ticket<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        self.in_background_announced(None, operation)
    }

    /// The same; what is known of it may be told to the other ranks before.
    fn in_background_announced<T: Send + 'static>(
        &self,
        announcement: Option<Announcement>,
        operation: impl FnOnce(&Shared, Ticket<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let (done, outcome) = channel();
        let closed = Error::Closed {
            world: self.shared.config.world.clone(),
            rank: self.shared.config.rank,
        };
        let turn = self.shared.turns.take();
        if let Some(announcement) = announcement {
            self.shared.upcoming.add(turn, announcement);
        }
        let job: Job = Box::new(move |shared| {
            // The turn comes first: if the caller's code panics, the unwinding gives it back.
            let run = || operation(shared, shared.turns.wait(turn));
            let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(shared.fail_by_panic()));
            // Nobody waits for it any more: that is the caller's to decide.
            let _ = done.send(result);
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
        self.check_root(root)?;
        let turn = self.shared.turns.wait(self.shared.turns.take());
        copy_from_root(&self.shared, turn, values, root == self.shared.config.rank)
    }

    fn check_root(&self, root: u32) -> Result<(), Error> {
        let ranks = self.shared.ranks();
        if ranks.contains(&root) {
            return Ok(());
        }
        Err(Error::Root {
            root,
            world: self.shared.config.world.clone(),
            ranks,
        })
    }

    /// What was done so far. While an operation is under way, as of the end of the one before.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Leaves the world: a last barrier, so that every rank has every result, then waits until all have left.
    ///
    /// # Errors
    /// As [`Communicator::barrier`].
    pub fn close(mut self) -> Result<(), Error> {
        // Ranks that are lost now are missed by nobody.
        while let Err(error) = self.barrier() {
            if !matches!(error, Error::RanksLost { .. }) {
                return Err(error);
            }
        }
        self.closed = true;
        self.shared.leave(self.shared.config.linger);
        Ok(())
    }
}

/// The sum by which a broadcast is made: of the root's bits and zeros.
fn copy_from_root<E: Element>(
    shared: &Shared,
    turn: Ticket<'_>,
    values: &mut [E],
    is_root: bool,
) -> Result<(), Error> {
    if !is_root {
        values.fill(E::zeroed());
    }
    let sum = ReduceOptions::default();
    if let Ok(words) = bytemuck::try_cast_slice_mut::<E, i32>(values) {
        return shared.reduce(turn, words, sum);
    }
    // 16-bit elements that do not fill words.
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
    let mut words = vec![0_i32; bytes.len().div_ceil(4)];
    bytemuck::cast_slice_mut::<i32, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
    shared.reduce(turn, &mut words, sum)?;
    bytes.copy_from_slice(&bytemuck::cast_slice::<i32, u8>(&words)[..bytes.len()]);
    Ok(())
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.closed {
            // Operations that were submitted end now, and others that may wait for this rank are told.
            self.shared.end("this rank's communicator was dropped".into());
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

//! What the threads of one communicator share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use agg_control::{Boundary, ControlError, Member, Pulse};

use crate::keeper::CALL;
use crate::moves::Moves;
use crate::place::Place;
use crate::stats::Stats;
use crate::stream::Stream;
use crate::turns::Turns;
use crate::upcoming::Upcoming;
use crate::{Config, Error};

pub(crate) struct Shared {
    pub(crate) config: Config,
    /// The configured aggregators, or the one of this machine.
    pub(crate) addresses: Vec<String>,
    /// Why this job moves to no other aggregator, if it does not.
    pub(crate) immovable: Option<&'static str>,
    pub(crate) member: Member,
    pub(crate) terms: JobTerms,
    /// An operation fails when no part of its result came for this long.
    pub(crate) timeout: Duration,
    pub(crate) streams: Vec<Mutex<Stream>>,
    pub(crate) moves: Arc<Moves>,
    pub(crate) turns: Turns,
    /// What is known of operations that have a turn to come.
    pub(crate) upcoming: Upcoming,
    /// Threads are to stop.
    pub(crate) stop: AtomicBool,
    /// This rank has all its results, and only answers others.
    pub(crate) leaving: AtomicBool,
    /// Why the job was ended from outside, once it was.
    pub(crate) ended: OnceLock<String>,
    /// The first error: every later operation has the same.
    pub(crate) failed: OnceLock<Error>,
    ranks: Mutex<Ranks>,
    pub(crate) totals: Mutex<Totals>,
    /// The streams' counts as of the last operation that ended.
    pub(crate) counted: Mutex<Stats>,
}

/// What a job keeps wherever it moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobTerms {
    pub(crate) lanes: u16,
    pub(crate) window: u16,
    pub(crate) generations: u16,
    pub(crate) streams: u16,
    pub(crate) lost_after: Duration,
}

#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) operations: u64,
    pub(crate) tensor_bytes: u64,
    pub(crate) busy: Duration,
}

/// Who takes part.
struct Ranks {
    live: Vec<u32>,
    /// Lost, but the operations that end with them have not been called here yet; ascending by operation.
    losses: Vec<Loss>,
}

/// Ranks that were lost, and the number of the operation that ends with them.
#[derive(Default)]
struct Loss {
    operation: u32,
    lost: Vec<u32>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(
        config: Config,
        addresses: Vec<String>,
        member: Member,
        terms: JobTerms,
        timeout: Duration,
        moves: Arc<Moves>,
        streams: Vec<Mutex<Stream>>,
    ) -> Self {
        let ranks = Ranks {
            live: (0..config.size).collect(),
            losses: Vec::new(),
        };
        let immovable = config.immovable();
        Self {
            config,
            addresses,
            immovable,
            member,
            terms,
            timeout,
            streams,
            moves,
            turns: Turns::default(),
            upcoming: Upcoming::default(),
            stop: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            ended: OnceLock::new(),
            failed: OnceLock::new(),
            ranks: Mutex::new(ranks),
            totals: Mutex::default(),
            counted: Mutex::default(),
        }
    }

    /// Whether the job goes on at another aggregator when this one is stopped.
    pub(crate) fn has_stand_by(&self) -> bool {
        self.immovable.is_none() && self.addresses.len() > 1
    }

    /// Nothing more can come of this communicator.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.ended.get().is_some() || self.has_failed()
    }

    /// The job is over, for a reason from outside.
    pub(crate) fn end(&self, reason: String) {
        let _ = self.ended.set(reason); // the first reason counts
    }

    /// Remembers the first error and returns it.
    pub(crate) fn fail(&self, error: Error) -> Error {
        self.failed.get_or_init(|| error).clone()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// The ranks that take part, ascending.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        lock(&self.ranks).live.clone()
    }

    /// How many these are: at most 4096.
    pub(crate) fn size(&self) -> u32 {
        lock(&self.ranks).live.len() as u32
    }

    /// The job goes on without some ranks, from a certain operation on.
    pub(crate) fn lose(&self, boundary: &Boundary) {
        let mut ranks = lock(&self.ranks);
        let mut loss = Loss {
            operation: boundary.failed_operation,
            lost: boundary.lost.clone(),
        };
        while let Some(later) = ranks.losses.pop_if(|other| other.operation >= loss.operation) {
            loss.lost.extend(later.lost);
        }
        loss.lost.sort_unstable();
        loss.lost.dedup();
        ranks.losses.push(loss);
    }

    /// The error of that operation.
    pub(crate) fn ranks_lost(&self) -> Error {
        let mut ranks = lock(&self.ranks);
        let next = (!ranks.losses.is_empty()).then(|| ranks.losses.remove(0));
        let Loss { operation, lost } = next.unwrap_or_default();
        ranks.live.retain(|rank| !lost.contains(rank));
        Error::RanksLost {
            world: self.config.world.clone(),
            rank: self.config.rank,
            operation,
            lost,
            left: ranks.live.len() as u32,
        }
    }

    /// Says that this rank lives, and asks whether the job does; soon or not at all.
    pub(crate) fn heartbeat(&self, place: &Place) -> Result<Pulse, ControlError> {
        place
            .control
            .with_timeout(CALL)
            .heartbeat(self.member, self.moves.progress())
    }

    pub(crate) fn stats(&self) -> Stats {
        let counted = self.count().unwrap_or_else(|| *lock(&self.counted));
        let totals = lock(&self.totals);
        Stats {
            operations: totals.operations,
            tensor_bytes: totals.tensor_bytes,
            busy: totals.busy,
            lanes: u32::from(self.terms.lanes),
            window: u32::from(self.terms.window),
            streams: self.streams.len() as u32,
            moves: self.moves.generation(),
            shared_memory: self.moves.place().rings.is_some(),
            ..counted
        }
    }

    /// The streams' counts, if no operation has a stream: nobody is to wait for its end only to ask.
    pub(crate) fn count(&self) -> Option<Stats> {
        let mut stats = Stats::default();
        for (index, stream) in self.streams.iter().enumerate() {
            let stream = match stream.try_lock() {
                Ok(stream) => stream,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            let worker = stream.worker.stats();
            let counts = stream.counts();
            stats.packets_sent += counts.sent;
            stats.packets_unsent += counts.unsent;
            stats.packets_invalid += worker.invalid + counts.too_long;
            stats.injected_losses += counts.lost;
            stats.resends += worker.resent();
            stats.resends_timeout += worker.resent_timeout;
            stats.resends_overtaken += worker.resent_overtaken;
            stats.resends_wanted += worker.resent_wanted;
            stats.marked += worker.marked;
            stats.congestion_decreases += worker.decreases;
            stats.results += worker.results;
            stats.late += worker.late;
            stats.predicted += worker.predicted;
            stats.mispredicted += worker.mispredicted;
            stats.announced += worker.announced;
            stats.stalled += stream.stalled() / self.streams.len() as u32; // at most 64
            if index == 0 {
                stats.round_trip = Duration::from_nanos(stream.worker.rtt());
                stats.congestion_window = u32::from(stream.worker.congestion_window());
            }
        }
        Some(stats)
    }
}

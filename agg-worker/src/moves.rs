//! How the streams of a rank and the thread that registers it again tell each other of a move (R-REFORM).
//!
//! Who registers states how far each stream is, and the answer builds on that: from the statement to the answer no stream
//! may take a result. So the streams are *held*, say how far they are, and go on when they have a new place, or none.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agg_core::worker::Position;
use agg_core::{Epoch, Nanos};

use crate::place::Place;

/// Why somebody thinks that this rank should register again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The aggregator says nothing.
    Silent,
    /// It refuses packets until all have registered again (refusal 7).
    Reforming,
    /// It is being stopped, and there is another one.
    Departing,
}

/// How far a stream is, and the epoch that it last used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    pub(crate) position: Position,
    pub(crate) epoch: Epoch,
}

pub(crate) struct Moves {
    state: Mutex<State>,
    changed: Condvar,
    /// The current place's.
    generation: AtomicU64,
    /// Numbers the times that streams were held; 0 while they are not.
    hold: AtomicU64,
    /// When the aggregator last showed that it is there, besides by data packets.
    answered_at: AtomicU64,
    troubled: AtomicBool,
    /// Results that each stream has taken.
    results: Vec<AtomicU64>,
    clock: Instant,
}

struct State {
    place: Arc<Place>,
    trouble: Option<Trouble>,
    holds: u64,
    reports: Vec<Option<Report>>,
    /// What each aggregator said that was asked since the last place was lost.
    tried: Vec<(String, String)>,
}

impl Moves {
    pub(crate) fn new(place: Place, clock: Instant) -> Self {
        let streams = place.ports.addresses().len();
        Self {
            generation: AtomicU64::new(place.generation),
            results: (0..streams).map(|_| AtomicU64::new(0)).collect(),
            state: Mutex::new(State {
                reports: vec![None; streams],
                place: Arc::new(place),
                trouble: None,
                holds: 0,
                tried: Vec::new(),
            }),
            changed: Condvar::new(),
            hold: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
            troubled: AtomicBool::new(false),
            clock,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.clock.elapsed().as_nanos() as Nanos
    }

    pub(crate) fn place(&self) -> Arc<Place> {
        Arc::clone(&self.lock().place)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A stream has taken so many results.
    pub(crate) fn count(&self, stream: usize, results: u64) {
        self.results[stream].store(results, Ordering::Relaxed);
    }

    /// Results that all streams have taken.
    pub(crate) fn progress(&self) -> u64 {
        let results = self.results.iter().map(|results| results.load(Ordering::Relaxed));
        results.sum()
    }

    /// The number of the hold, if streams are held. To be asked before [`Self::generation`]: who is not held any more then
    /// sees the new place.
    pub(crate) fn held(&self) -> Option<u64> {
        Some(self.hold.load(Ordering::Acquire)).filter(|hold| *hold > 0)
    }

    /// A stream says how far it is in a hold.
    pub(crate) fn report(&self, hold: u64, stream: usize, report: Report) {
        let mut state = self.lock();
        if state.holds == hold {
            state.reports[stream] = Some(report);
        }
    }

    pub(crate) fn reported(&self, stream: usize) -> Option<Report> {
        self.lock().reports[stream]
    }

    /// Sleeps until something changes, at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let waited = self.changed.wait_timeout(self.lock(), limit);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// A stream, or the thread that closes, thinks that something is wrong at the place of that generation.
    pub(crate) fn raise(&self, trouble: Trouble, generation: u64) {
        if self.troubled.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        if state.place.generation == generation {
            state.trouble = Some(trouble);
            self.changed.notify_all();
        } else {
            self.troubled.store(false, Ordering::Relaxed);
        }
    }

    /// What was raised; it can be raised again from now on.
    pub(crate) fn take_trouble(&self) -> Option<Trouble> {
        let trouble = self.lock().trouble.take();
        if trouble.is_some() {
            self.troubled.store(false, Ordering::Relaxed);
        }
        trouble
    }

    /// The aggregator's control service says that all is well.
    pub(crate) fn answered(&self) {
        self.answered_at.store(self.now(), Ordering::Relaxed);
    }

    /// How long ago the control service last said so.
    pub(crate) fn unanswered_for(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.answered_at.load(Ordering::Relaxed))
    }

    /// Holds the streams.
    pub(crate) fn hold(&self) {
        let mut state = self.lock();
        state.holds += 1;
        state.reports.fill(None);
        self.hold.store(state.holds, Ordering::Release);
        self.changed.notify_all();
    }

    /// Lets the streams go on where they are.
    pub(crate) fn release(&self) {
        let state = self.lock();
        self.hold.store(0, Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    /// Lets the streams go on at another place.
    pub(crate) fn publish(&self, place: Place) {
        let mut state = self.lock();
        self.generation.store(place.generation, Ordering::Release);
        state.place = Arc::new(place);
        state.trouble = None;
        state.tried.clear();
        self.troubled.store(false, Ordering::Relaxed);
        self.answered_at.store(self.now(), Ordering::Relaxed);
        self.hold.store(0, Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    /// Remembers what an aggregator said.
    pub(crate) fn tried(&self, address: &str, said: String) {
        let mut state = self.lock();
        match state.tried.iter_mut().find(|(known, _)| known == address) {
            Some((_, before)) => *before = said,
            None => state.tried.push((address.to_owned(), said)),
        }
    }

    /// What the aggregators said that were tried in vain, or nothing.
    pub(crate) fn tries(&self) -> Option<String> {
        let state = self.lock();
        let tries = state.tried.iter().map(|(address, said)| {
            // Many errors name it themselves.
            if said.contains(address.as_str()) {
                said.clone()
            } else {
                format!("{address}: {said}")
            }
        });
        let tries: Vec<_> = tries.collect();
        (!tries.is_empty()).then(|| tries.join("; "))
    }
}

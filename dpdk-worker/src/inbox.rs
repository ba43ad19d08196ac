//! Frames for a stream that came where another one looked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dpdk_host::dpdk::{Burst, Mbuf};

/// Frames that can wait for a stream. What is more is lost, as in a full ring.
const ROOM: usize = 1024;

/// Frames for a stream that came where another one looked: cards choose a queue as they like.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    frames: Mutex<VecDeque<Mbuf>>,
    /// How many these are, to be asked without the lock.
    count: AtomicUsize,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Mbuf>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Puts a frame in; `false`: it is full.
    pub(crate) fn push(&self, mbuf: Mbuf) -> bool {
        let mut frames = self.lock();
        let has_room = frames.len() < ROOM;
        if has_room {
            frames.push_back(mbuf);
            self.count.store(frames.len(), Ordering::Release);
        }
        has_room
    }

    /// Takes out as many as fit.
    pub(crate) fn take(&self, into: &mut Burst) {
        if self.is_empty() {
            return;
        }
        let mut frames = self.lock();
        while !into.is_full()
            && let Some(mbuf) = frames.pop_front()
        {
            // There is room.
            let _ = into.push(mbuf);
        }
        self.count.store(frames.len(), Ordering::Release);
    }
}

//! Frames that are received or sent together.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use super::Mbuf;

/// Frames that a burst holds at most. Drivers work on 32 or 64 at once.
pub const BURST: usize = 64;

/// Frames that are received or sent together, in order. Dropped, they go back to their pools.
#[derive(Debug)]
pub struct Burst {
    mbufs: [*mut c_void; BURST],
    len: usize,
}

// SAFETY: it owns its mbufs, which are `Send`.
unsafe impl Send for Burst {}

impl Default for Burst {
    fn default() -> Self {
        Self {
            mbufs: [ptr::null_mut(); BURST],
            len: 0,
        }
    }
}

impl Burst {
    /// Frames in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no more fit.
    pub fn is_full(&self) -> bool {
        self.len == BURST
    }

    /// Adds a frame behind the others; gives it back where it is full.
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        match self.mbufs.get_mut(self.len) {
            Some(place) => {
                *place = mbuf.into_raw();
                self.len += 1;
                Ok(())
            }
            None => Err(mbuf),
        }
    }

    /// Takes the last frame out.
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: what is in here is ours, and no longer in here.
        NonNull::new(self.mbufs[self.len]).map(|mbuf| unsafe { Mbuf::from_raw(mbuf) })
    }

    /// Takes all frames out, the first one first. Those that are not asked for go back to their pools.
    pub fn drain(&mut self) -> Drain<'_> {
        let len = std::mem::take(&mut self.len);
        Drain {
            mbufs: self.mbufs[..len].iter(),
        }
    }

    /// Has `fill` write up to `count` pointers to mbufs behind the others, if there is room for all, and say how many it
    /// did.
    pub(super) fn extend_raw(
        &mut self,
        count: usize,
        fill: impl FnOnce(&mut [*mut c_void]) -> usize,
    ) -> usize {
        let Some(spare) = self.mbufs.get_mut(self.len..self.len + count) else {
            return 0;
        };
        let filled = fill(spare).min(count);
        self.len += filled;
        filled
    }

    /// Has `take` take some mbufs from the front on, and say how many it did.
    pub(super) fn take_raw(&mut self, take: impl FnOnce(&mut [*mut c_void]) -> usize) -> usize {
        let taken = take(&mut self.mbufs[..self.len]).min(self.len);
        self.mbufs.copy_within(taken..self.len, 0);
        self.len -= taken;
        taken
    }
}

/// The frames that are taken out of a burst.
#[derive(Debug)]
pub struct Drain<'b> {
    mbufs: std::slice::Iter<'b, *mut c_void>,
}

impl Iterator for Drain<'_> {
    type Item = Mbuf;

    fn next(&mut self) -> Option<Mbuf> {
        let mbuf = NonNull::new(*self.mbufs.next()?)?;
        // SAFETY: it was the burst's, which has forgotten it.
        Some(unsafe { Mbuf::from_raw(mbuf) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.mbufs.size_hint()
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.drain().for_each(drop);
    }
}

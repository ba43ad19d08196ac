//! The side of a ring that writes it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::line::Line;
use crate::packet::LENGTH;
use crate::record::{TO_START, record_len};
use crate::{Broken, LONGEST_PACKET};

/// Sends packets over a [`Line`]. They are seen by the other side when they are [published](Self::publish).
pub struct Sender {
    line: Arc<Line>,
    /// Bytes written, ever.
    written: u64,
    /// Of these, bytes that the other side may read.
    published: u64,
    /// Bytes that the other side had taken out when that was last looked at.
    taken: u64,
    /// The other side's sleep that it was last woken from.
    woken: u32,
    broken: bool,
}

impl Sender {
    /// Not more than one for a line: it alone writes to the ring.
    pub(crate) fn new(line: Arc<Line>) -> Self {
        Self {
            line,
            written: 0,
            published: 0,
            taken: 0,
            woken: 0,
            broken: false,
        }
    }

    /// The line that it sends over.
    pub fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// Where a packet of up to `longest` bytes can be written; it has old bytes. `None` while the ring is too full, and for
    /// packets that are none.
    pub fn room(&mut self, longest: usize) -> Option<&mut [u8]> {
        let offset = self.place(longest)?;
        // SAFETY: only a line's one sender borrows of its ring, and this borrow holds the sender.
        unsafe { self.line.own.part(offset + LENGTH, longest) }
    }

    /// Sends the first `len` bytes of what was written to [`room`](Self::room), which was at least as long.
    pub fn commit(&mut self, len: usize) {
        let Some(offset) = self.place(len) else {
            return;
        };
        self.write_length(offset, len as u64);
        self.written += record_len(len) as u64;
    }

    /// Sends a copy of a packet; `false` where there is no room for it.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let Some(room) = self.room(packet.len()) else {
            return false;
        };
        room.copy_from_slice(packet);
        self.commit(packet.len());
        true
    }

    /// Lets the other side see all that was sent, and wakes it if it sleeps and would want to know.
    pub fn publish(&mut self) {
        let is_news = self.published != self.written;
        if is_news {
            self.published = self.written;
            self.line.own.sent().store(self.written, Ordering::Release);
        }
        self.line.wake(is_news, &mut self.woken);
    }

    /// Why nothing can be sent any more.
    ///
    /// # Errors
    /// [`Broken`], once the other side has said that it took out more than was sent.
    pub fn check(&self) -> Result<(), Broken> {
        if self.broken { Err(Broken) } else { Ok(()) }
    }

    /// The offset of a record for a packet of `len` bytes, for which there is room.
    fn place(&mut self, len: usize) -> Option<usize> {
        let ring = self.line.own.ring();
        let record = record_len(len);
        if len > LONGEST_PACKET || 2 * record > ring {
            return None;
        }
        let offset = self.written as usize & (ring - 1);
        let to_end = ring - offset;
        if record <= to_end {
            return self.is_free(record).then_some(offset);
        }
        if !self.is_free(to_end + record) {
            return None;
        }
        self.write_length(offset, TO_START);
        self.written += to_end as u64;
        Some(0)
    }

    fn is_free(&mut self, bytes: usize) -> bool {
        let ring = self.line.own.ring();
        let free = |taken| ring.saturating_sub(self.written.wrapping_sub(taken) as usize);
        if free(self.taken) < bytes {
            let taken = self.line.other.taken().load(Ordering::Relaxed);
            // What was there was read before its place is written to.
            fence(Ordering::Acquire);
            let kept = self.published.wrapping_sub(taken);
            if kept > self.published.wrapping_sub(self.taken) {
                self.broken = true;
            } else {
                self.taken = taken;
            }
        }
        !self.broken && free(self.taken) >= bytes
    }

    fn write_length(&mut self, offset: usize, length: u64) {
        // SAFETY: only a line's one sender borrows of its ring, and this borrow ends here.
        if let Some(word) = unsafe { self.line.own.part(offset, LENGTH) } {
            word.copy_from_slice(&length.to_ne_bytes());
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (written, taken) = (self.written, self.taken);
        write!(f, "Sender({written} bytes written, {taken} taken)")
    }
}

//! The side of a ring that reads it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::line::Line;
use crate::packet::LENGTH;
use crate::record::{TO_START, UNIT, record_len};
use crate::{Broken, PacketBuffer};

/// Receives packets over a [`Line`].
pub struct Receiver {
    line: Arc<Line>,
    /// Bytes taken out, ever.
    taken: u64,
    /// Bytes that the other side had sent when that was last looked at.
    sent: u64,
    oversized: u64,
}

impl Receiver {
    pub(crate) fn new(line: Arc<Line>) -> Self {
        Self {
            line,
            taken: 0,
            sent: 0,
            oversized: 0,
        }
    }

    /// The line that it receives from.
    pub fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// Packets that were too long for the buffer.
    pub fn oversized(&self) -> u64 {
        self.oversized
    }

    /// Takes the next packet out of the ring, into `buffer`; one that is too long for it is dropped and counted.
    ///
    /// # Errors
    /// What is in the ring cannot be.
    pub fn receive<'b>(&mut self, buffer: &'b mut PacketBuffer) -> Result<Option<&'b [u8]>, Broken> {
        self.line.answer();
        loop {
            let Some((offset, len)) = self.next()? else {
                return Ok(None);
            };
            let fits = buffer.bytes().get_mut(..len);
            let copied = fits.is_some_and(|bytes| self.line.other.copy(offset + LENGTH, bytes));
            self.take(record_len(len));
            if copied {
                return Ok(Some(buffer.packet(len)));
            }
            self.oversized += 1;
        }
    }

    /// The record that is next, checked to be in the ring: where it is, and the length of its packet.
    fn next(&mut self) -> Result<Option<(usize, usize)>, Broken> {
        let ring = self.line.other.ring();
        loop {
            if self.taken == self.sent && !self.look()? {
                return Ok(None);
            }
            let there = self.sent.wrapping_sub(self.taken) as usize;
            let offset = self.taken as usize & (ring - 1);
            let to_end = ring - offset;
            let length = self.line.other.word(offset).ok_or(Broken)?;
            let length = length.load(Ordering::Relaxed);
            if length == TO_START {
                if to_end > there {
                    return Err(Broken);
                }
                self.take(to_end);
                continue;
            }
            let len = usize::try_from(length).map_err(|_| Broken)?;
            if len > ring || record_len(len) > there.min(to_end) {
                return Err(Broken);
            }
            return Ok(Some((offset, len)));
        }
    }

    /// Looks whether something was sent since.
    fn look(&mut self) -> Result<bool, Broken> {
        let sent = self.line.other.sent().load(Ordering::Relaxed);
        // What is read after this was written before.
        fence(Ordering::Acquire);
        let there = sent.wrapping_sub(self.taken);
        if there > self.line.other.ring() as u64 || !there.is_multiple_of(UNIT as u64) {
            return Err(Broken);
        }
        self.sent = sent;
        Ok(there > 0)
    }

    fn take(&mut self, bytes: usize) {
        self.taken = self.taken.wrapping_add(bytes as u64);
        self.line.own.taken().store(self.taken, Ordering::Release);
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver({} bytes taken)", self.taken)
    }
}

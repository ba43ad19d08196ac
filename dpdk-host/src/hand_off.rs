//! Frames that came to another shard's queue are given to it: where a network card cannot steer, or a sender chose another
//! queue.

use crate::dpdk::{Burst, DpdkError, Eal, Mbuf, RingReceiver, RingSender, ring};
use crate::{FrameCounter, FrameCounters};

/// One shard's part in it. Each pair of shards has a ring each way, so that no core waits for another.
pub struct HandOff {
    /// This shard's number.
    own: usize,
    /// By shard; none to itself.
    to: Vec<Option<Way>>,
    from: Vec<RingReceiver>,
}

struct Way {
    ring: RingSender,
    burst: Burst,
}

impl HandOff {
    /// Of a shard that is alone.
    pub fn alone() -> Self {
        Self {
            own: 0,
            to: vec![None],
            from: Vec::new(),
        }
    }

    /// Among so many shards, by their numbers. Up to `size` frames, a power of two, wait on each way. No others have the same
    /// name.
    ///
    /// # Errors
    /// What DPDK said.
    pub fn among(eal: &Eal, name: &str, shards: usize, size: u32) -> Result<Vec<Self>, DpdkError> {
        let shard = |own| Self {
            own,
            to: (0..shards).map(|_| None).collect(),
            from: Vec::new(),
        };
        let mut all: Vec<Self> = (0..shards).map(shard).collect();
        for from in 0..shards {
            for to in (0..shards).filter(|to| *to != from) {
                let (sender, receiver) = ring(eal, &format!("{name}_{from}_{to}"), size, None)?;
                all[from].to[to] = Some(Way {
                    ring: sender,
                    burst: Burst::default(),
                });
                all[to].from.push(receiver);
            }
        }
        Ok(all)
    }

    /// Whose a datagram is that came to this UDP port, where `ours` is this shard's; `None`: no shard's.
    pub(crate) fn shard(&self, ours: u16, port: u16) -> Option<usize> {
        let number = (self.own + usize::from(port)).checked_sub(ours.into())?;
        (number < self.to.len()).then_some(number)
    }

    /// What the others give, to be looked at by who polls.
    pub(crate) fn receivers(&mut self) -> Vec<RingReceiver> {
        std::mem::take(&mut self.from)
    }

    /// This shard's number.
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// Gives a frame that came from a port to another shard: with the next [`Self::flush`].
    pub(crate) fn push(&mut self, shard: usize, mut mbuf: Mbuf, port: usize, frames: &mut FrameCounters) {
        let Some(Some(way)) = self.to.get_mut(shard) else {
            return frames.add(FrameCounter::Foreign, 1);
        };
        mbuf.set_port(port as u16);
        if let Err(mbuf) = way.burst.push(mbuf) {
            way.flush(frames);
            // There is room now.
            let _ = way.burst.push(mbuf);
        }
    }

    /// What does not fit the other shard's ring is dropped: its core is behind, and would be even more.
    pub(crate) fn flush(&mut self, frames: &mut FrameCounters) {
        for way in self.to.iter_mut().flatten() {
            if !way.burst.is_empty() {
                way.flush(frames);
            }
        }
    }
}

impl Way {
    fn flush(&mut self, frames: &mut FrameCounters) {
        let sent = self.ring.send(&mut self.burst);
        frames.add(FrameCounter::HandedOver, sent);
        let left = self.burst.drain().count();
        frames.add(FrameCounter::HandOffFull, left);
    }
}

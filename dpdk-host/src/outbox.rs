//! What is to be sent, until the port takes it.

use std::net::SocketAddrV4;

use agg_core::Verdict;
use agg_host::frame::{End, FRAMING, Way};

use crate::dpdk::{Burst, Mbuf, Pool, Queue};
use crate::shard::State;
use crate::{FrameCounter, FrameCounters, Neighbours};

/// How often a full port is tried again before frames are given up. Their receivers ask for them again.
const ATTEMPTS: u32 = 1000;

/// What is to be sent. Answers are written into mbufs at once; who shares one with others gets a copy of his own.
pub(crate) struct Outbox {
    pool: Pool,
    /// Where its frames come from.
    local: End,
    /// Whether the port writes checksums.
    checksums: bool,
    /// For the next answer.
    spare: Option<Mbuf>,
    burst: Burst,
}

impl Outbox {
    pub(crate) fn new(pool: Pool, local: End, checksums: bool) -> Self {
        Self {
            pool,
            local,
            checksums,
            spare: None,
            burst: Burst::default(),
        }
    }

    /// Whose frames these are.
    pub(crate) fn local(&self) -> &End {
        &self.local
    }

    /// An mbuf for an answer; `None` where none is free. What is not needed is to be given back by [`Self::keep`].
    pub(crate) fn answer(&mut self) -> Option<Mbuf> {
        self.spare.take().or_else(|| self.pool.take())
    }

    /// An mbuf that was not needed.
    pub(crate) fn keep(&mut self, mbuf: Mbuf) {
        self.spare = Some(mbuf);
    }

    /// Where in an mbuf an answer is written.
    pub(crate) fn packet(answer: &mut Mbuf) -> &mut [u8] {
        answer.room_mut().get_mut(FRAMING..).unwrap_or_default()
    }

    /// Sends what a verdict says, to whom it says; `source` is who gets a reply.
    pub(crate) fn deliver(
        &mut self,
        verdict: Verdict,
        answer: Mbuf,
        source: End,
        state: &mut State,
        queue: &mut Queue,
    ) {
        let State {
            routes,
            neighbours,
            frames,
            ..
        } = state;
        match verdict {
            Verdict::Quiet => self.keep(answer),
            Verdict::Reply { len } => self.address(answer, len, source, frames, queue),
            Verdict::Broadcast { key, len } => {
                let members = routes.get(&key).map_or(&[][..], |route| &route.members);
                let ends = members.iter().map(|member| reach(*member, neighbours));
                self.send_all(answer, len, ends, frames, queue);
            }
            Verdict::Forward { key, len } => {
                let parent = routes.get(&key).and_then(|route| route.parent);
                let ends = parent.iter().map(|parent| reach(*parent, neighbours));
                self.send_all(answer, len, ends, frames, queue);
            }
        }
    }

    /// Everybody but the last one gets a copy, the last one what was written.
    fn send_all(
        &mut self,
        answer: Mbuf,
        len: usize,
        ends: impl Iterator<Item = Option<End>>,
        frames: &mut FrameCounters,
        queue: &mut Queue,
    ) {
        let mut last = None;
        for end in ends {
            let Some(end) = end else {
                frames.add(FrameCounter::NoNeighbour, 1);
                continue;
            };
            if let Some(before) = last.replace(end) {
                let Some(mut copy) = self.pool.take() else {
                    frames.add(FrameCounter::NotCopied, 1);
                    continue;
                };
                let written = answer.room_bytes().get(FRAMING..).unwrap_or_default();
                Self::packet(&mut copy)[..len].copy_from_slice(&written[..len]);
                self.address(copy, len, before, frames, queue);
            }
        }
        match last {
            Some(end) => self.address(answer, len, end, frames, queue),
            None => self.keep(answer),
        }
    }

    /// Writes the headers in front of a packet, and sends it.
    fn address(
        &mut self,
        mut mbuf: Mbuf,
        len: usize,
        to: End,
        frames: &mut FrameCounters,
        queue: &mut Queue,
    ) {
        let way = Way { from: self.local, to };
        mbuf.set_len(FRAMING + len);
        if let Some(headers) = mbuf.bytes_mut().first_chunk_mut() {
            way.write(len, headers);
        }
        if self.checksums {
            mbuf.offload_checksums();
        }
        self.push(mbuf, frames, queue);
    }

    /// Sends a frame as it is.
    pub(crate) fn push(&mut self, mbuf: Mbuf, frames: &mut FrameCounters, queue: &mut Queue) {
        if let Err(mbuf) = self.burst.push(mbuf) {
            self.flush(frames, queue);
            // There is room now.
            let _ = self.burst.push(mbuf);
        }
    }

    /// Sends a frame of these bytes.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8], frames: &mut FrameCounters, queue: &mut Queue) {
        let Some(mut mbuf) = self.pool.take() else {
            return frames.add(FrameCounter::NotCopied, 1);
        };
        mbuf.set_len(bytes.len());
        mbuf.bytes_mut().copy_from_slice(bytes);
        self.push(mbuf, frames, queue);
    }

    /// Gives all frames to the port. What it does not take in time is given up.
    pub(crate) fn flush(&mut self, frames: &mut FrameCounters, queue: &mut Queue) {
        let mut attempts = 0;
        while !self.burst.is_empty() && attempts < ATTEMPTS {
            let sent = queue.send(&mut self.burst);
            frames.add(FrameCounter::Sent, sent);
            attempts = if sent == 0 { attempts + 1 } else { 0 };
        }
        let left = self.burst.drain().count();
        frames.add(FrameCounter::RingFull, left);
    }
}

/// How somebody is reached, if that is known.
fn reach(address: SocketAddrV4, neighbours: &Neighbours) -> Option<End> {
    let mac = neighbours.mac(*address.ip())?;
    Some(End { mac, address })
}

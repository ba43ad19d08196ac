//! What is to be sent, until the port takes it.

use std::net::SocketAddrV4;

use agg_core::Verdict;
use agg_host::frame::{End, FRAMING};

use crate::dpdk::{Burst, Mbuf, Pool};
use crate::link::Exit;
use crate::shard::State;
use crate::{FrameCounter, FrameCounters, Neighbours};

/// How often a full port is tried again before frames are given up. Their receivers ask for them again.
const ATTEMPTS: u32 = 1000;

/// What is to be sent. Answers are written into mbufs at once; who shares one with others gets a copy of his own.
pub(crate) struct Outbox {
    pool: Pool,
    /// By port.
    ways: Vec<Way>,
    /// For the next answer.
    spare: Option<Mbuf>,
}

/// One port's.
struct Way {
    /// Where its frames come from.
    local: End,
    /// Whether the port writes checksums.
    checksums: bool,
    exit: Exit,
    burst: Burst,
}

impl Outbox {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            pool,
            ways: Vec::new(),
            spare: None,
        }
    }

    /// Adds a way, to the port of the next number.
    pub(crate) fn add(&mut self, local: End, checksums: bool, exit: Exit) {
        self.ways.push(Way {
            local,
            checksums,
            exit,
            burst: Burst::default(),
        });
    }

    /// Whose frames these are, at a port.
    pub(crate) fn local(&self, port: usize) -> &End {
        &self.ways[port].local
    }

    /// How many ports there are.
    pub(crate) fn ports(&self) -> usize {
        self.ways.len()
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

    /// Sends what a verdict says, to whom it says; `source` is who gets a reply, and at which port.
    pub(crate) fn deliver(
        &mut self,
        verdict: Verdict,
        answer: Mbuf,
        source: (usize, End),
        state: &mut State,
    ) {
        let State {
            routes,
            neighbours,
            frames,
            ..
        } = state;
        match verdict {
            Verdict::Quiet => self.keep(answer),
            Verdict::Reply { len } => self.address(answer, len, source, frames),
            Verdict::Broadcast { key, len } => {
                let members = routes.get(&key).map_or(&[][..], |route| &route.members);
                let ends = members.iter().map(|member| reach(*member, neighbours));
                self.send_all(answer, len, ends, frames);
            }
            Verdict::Forward { key, len } => {
                let parent = routes.get(&key).and_then(|route| route.parent);
                let ends = parent.iter().map(|parent| reach(*parent, neighbours));
                self.send_all(answer, len, ends, frames);
            }
        }
    }

    /// Everybody but the last one gets a copy, the last one what was written.
    fn send_all(
        &mut self,
        answer: Mbuf,
        len: usize,
        ends: impl Iterator<Item = Option<(usize, End)>>,
        frames: &mut FrameCounters,
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
                self.address(copy, len, before, frames);
            }
        }
        match last {
            Some(end) => self.address(answer, len, end, frames),
            None => self.keep(answer),
        }
    }

    /// Writes the headers in front of a packet, and sends it.
    fn address(&mut self, mut mbuf: Mbuf, len: usize, (port, to): (usize, End), frames: &mut FrameCounters) {
        let Some(out) = self.ways.get(port) else {
            return frames.add(FrameCounter::NoNeighbour, 1);
        };
        let way = agg_host::frame::Way { from: out.local, to };
        mbuf.set_len(FRAMING + len);
        if let Some(headers) = mbuf.bytes_mut().first_chunk_mut() {
            way.write(len, headers);
        }
        if out.checksums {
            mbuf.offload_checksums();
        }
        self.push(port, mbuf, frames);
    }

    /// Sends a frame as it is, by a port.
    pub(crate) fn push(&mut self, port: usize, mbuf: Mbuf, frames: &mut FrameCounters) {
        let way = &mut self.ways[port];
        if let Err(mbuf) = way.burst.push(mbuf) {
            way.flush(frames);
            // There is room now.
            let _ = way.burst.push(mbuf);
        }
    }

    /// Sends a frame of these bytes by a port.
    pub(crate) fn push_bytes(&mut self, port: usize, bytes: &[u8], frames: &mut FrameCounters) {
        let Some(mut mbuf) = self.pool.take() else {
            return frames.add(FrameCounter::NotCopied, 1);
        };
        mbuf.set_len(bytes.len());
        mbuf.bytes_mut().copy_from_slice(bytes);
        self.push(port, mbuf, frames);
    }

    /// Gives all frames to the ports. What a port does not take in time is given up.
    pub(crate) fn flush(&mut self, frames: &mut FrameCounters) {
        for way in &mut self.ways {
            way.flush(frames);
        }
    }
}

impl Way {
    fn flush(&mut self, frames: &mut FrameCounters) {
        let mut attempts = 0;
        while !self.burst.is_empty() && attempts < ATTEMPTS {
            let sent = self.exit.send(&mut self.burst);
            frames.add(FrameCounter::Sent, sent);
            attempts = if sent == 0 { attempts + 1 } else { 0 };
        }
        let left = self.burst.drain().count();
        frames.add(FrameCounter::RingFull, left);
    }
}

/// How somebody is reached, if that is known, and by which port.
fn reach(address: SocketAddrV4, neighbours: &Neighbours) -> Option<(usize, End)> {
    let (port, mac) = neighbours.at(*address.ip())?;
    Some((port, End { mac, address }))
}

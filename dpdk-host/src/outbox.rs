//! What is to be sent, until the ports take it.

use std::net::SocketAddr;

use agg_core::{Nanos, Verdict};
use agg_host::frame::{End, Framing, Sum, Way};

use crate::dpdk::{Burst, Mbuf, Pool};
use crate::neighbours::Hop;
use crate::shard::State;
use crate::{FrameCounter, FrameCounters, Link};

/// How often a full port is tried again before frames are given up. Their receivers ask for them again.
const ATTEMPTS: u32 = 1000;

/// What is to be sent. Answers are written into mbufs at once; who shares one with others gets a copy of his own.
pub(crate) struct Outbox {
    pool: Pool,
    /// Where its frames come from.
    address: SocketAddr,
    /// What is in front of its packets.
    framing: Framing,
    links: Vec<Link>,
    /// For each link.
    bursts: Vec<Burst>,
    /// For the next answer.
    spare: Option<Mbuf>,
}

impl Outbox {
    pub(crate) fn new(links: Vec<Link>, pool: Pool, address: SocketAddr, vlan: Option<u16>) -> Self {
        Self {
            pool,
            address,
            framing: Framing::new(&address, vlan),
            bursts: links.iter().map(|_| Burst::default()).collect(),
            links,
            spare: None,
        }
    }

    /// The ports that frames go to.
    pub(crate) fn links(&self) -> &[Link] {
        &self.links
    }

    /// What is in front of packets.
    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// Whose frames these are.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// An mbuf for an answer; `None` where none is free. What is not needed is to be given back by [`Self::keep`].
    pub(crate) fn answer(&mut self) -> Option<Mbuf> {
        self.spare.take().or_else(|| self.pool.take())
    }

    /// An mbuf for a frame that came in several; `None` where none is free.
    pub(crate) fn empty(&self) -> Option<Mbuf> {
        self.pool.take()
    }

    /// An mbuf that was not needed.
    pub(crate) fn keep(&mut self, mbuf: Mbuf) {
        self.spare = Some(mbuf);
    }

    /// Where in an mbuf an answer is written.
    pub(crate) fn packet(answer: &mut Mbuf, framing: Framing) -> &mut [u8] {
        answer.room_mut().get_mut(framing.len()..).unwrap_or_default()
    }

    /// Sends what a verdict says, to whom it says; `source` is who gets a reply, and by which way.
    pub(crate) fn deliver(
        &mut self,
        verdict: Verdict,
        answer: Mbuf,
        source: (Hop, SocketAddr),
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
            Verdict::Reply { len } => {
                let sum = self.sum(&answer, len);
                self.send(answer, len, sum, source, frames);
            }
            Verdict::Broadcast { key, len } => {
                let routed = routes.get_mut(&key).into_iter();
                let members = routed.flat_map(|routed| routed.members(neighbours));
                self.send_all(answer, len, members, frames);
            }
            Verdict::Forward { key, len } => {
                let parent = routes.get_mut(&key).and_then(|routed| routed.parent(neighbours));
                self.send_all(answer, len, parent.into_iter(), frames);
            }
        }
    }

    /// Asks a parent what gets to it and back, if that is to be known.
    pub(crate) fn ask_parent(&mut self, state: &mut State, now: Nanos) {
        let State {
            trial: Some(trial),
            neighbours,
            frames,
            ..
        } = state
        else {
            return;
        };
        let Some(hop) = neighbours.hop(trial.parent.ip()) else {
            return;
        };
        trial.prober.handle_timeout(now);
        while let Some(mut question) = self.answer() {
            let room = Self::packet(&mut question, self.framing);
            let Some(len) = trial.prober.transmit(room) else {
                return self.keep(question);
            };
            let sum = self.sum(&question, len);
            self.send(question, len, sum, (hop, trial.parent), frames);
        }
    }

    /// Everybody but the last one gets a copy, the last one what was written.
    fn send_all(
        &mut self,
        answer: Mbuf,
        len: usize,
        ends: impl Iterator<Item = Option<(Hop, SocketAddr)>>,
        frames: &mut FrameCounters,
    ) {
        let sum = self.sum(&answer, len);
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
                let framing = self.framing;
                Self::packet(&mut copy, framing)[..len].copy_from_slice(&written(&answer, framing)[..len]);
                self.send(copy, len, sum, before, frames);
            }
        }
        match last {
            Some(end) => self.send(answer, len, sum, end, frames),
            None => self.keep(answer),
        }
    }

    /// The sum over a packet that was written, where a checksum is needed that a port does not write: once for all copies.
    fn sum(&self, answer: &Mbuf, len: usize) -> Option<Sum> {
        let is_needed = self.framing.is_ipv6() && self.links.iter().any(|link| !link.checksums);
        is_needed.then(|| Sum::of(&written(answer, self.framing)[..len]))
    }

    /// Writes the headers in front of a packet, and sends it.
    fn send(
        &mut self,
        mut mbuf: Mbuf,
        len: usize,
        sum: Option<Sum>,
        (hop, address): (Hop, SocketAddr),
        frames: &mut FrameCounters,
    ) {
        let link = &self.links[hop.port];
        let from = End {
            mac: link.mac,
            address: self.address,
        };
        let to = End {
            mac: hop.mac,
            address,
        };
        let Some(way) = Way::between(&from, &to) else {
            return frames.add(FrameCounter::NoNeighbour, 1);
        };
        mbuf.set_len(self.framing.len() + len);
        let sum = sum.filter(|_| !link.checksums);
        way.write(self.framing.vlan(), len, sum, mbuf.bytes_mut());
        if link.checksums {
            mbuf.offload_checksums(self.framing);
        }
        self.push(hop.port, mbuf, frames);
    }

    /// Sends a frame as it is.
    pub(crate) fn push(&mut self, port: usize, mbuf: Mbuf, frames: &mut FrameCounters) {
        if let Err(mbuf) = self.bursts[port].push(mbuf) {
            self.flush_port(port, frames);
            // There is room now.
            let _ = self.bursts[port].push(mbuf);
        }
    }

    /// Sends a frame of these bytes.
    pub(crate) fn push_bytes(&mut self, port: usize, bytes: &[u8], frames: &mut FrameCounters) {
        let Some(mut mbuf) = self.pool.take() else {
            return frames.add(FrameCounter::NotCopied, 1);
        };
        mbuf.set_len(bytes.len());
        mbuf.bytes_mut().copy_from_slice(bytes);
        self.push(port, mbuf, frames);
    }

    /// Gives all frames to the ports. What they do not take in time is given up.
    pub(crate) fn flush(&mut self, frames: &mut FrameCounters) {
        for port in 0..self.links.len() {
            self.flush_port(port, frames);
        }
    }

    fn flush_port(&mut self, port: usize, frames: &mut FrameCounters) {
        let (exit, burst) = (&self.links[port].send, &mut self.bursts[port]);
        let mut attempts = 0;
        while !burst.is_empty() && attempts < ATTEMPTS {
            let sent = exit.send(burst);
            frames.add(FrameCounter::Sent, sent);
            attempts = if sent == 0 { attempts + 1 } else { 0 };
        }
        let left = burst.drain().count();
        frames.add(FrameCounter::RingFull, left);
    }
}

/// What was written where [`Outbox::packet`] says.
fn written(answer: &Mbuf, framing: Framing) -> &[u8] {
    answer.room_bytes().get(framing.len()..).unwrap_or_default()
}

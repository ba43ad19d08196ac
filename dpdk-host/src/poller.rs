//! A core at a queue: it receives, aggregates and sends, one burst after the other.

use std::sync::atomic::{AtomicBool, Ordering};

use agg_core::{Endpoint, Nanos, Verdict};
use agg_host::ShardAggregator;
use agg_host::frame::{Datagram, End, Ip, TYPE_IPV4, ethernet};

use crate::arp::{Arp, Operation, TYPE_ARP};
use crate::dpdk::{BURST, Burst, Mbuf, Pool, Queue};
use crate::outbox::Outbox;
use crate::shard::{Shard, State};
use crate::{FrameCounter, Idle, echo};

/// How often it is looked whether neighbours are to be asked for, in ns.
const NEIGHBOURS: Nanos = 10_000_000;

/// A core at a queue.
pub struct Poller {
    queue: Queue,
    received: Burst,
    outbox: Outbox,
    /// When it is looked next whether neighbours are to be asked for.
    ask: Nanos,
}

impl Poller {
    /// Works at a queue. Packets are received and sent as `local`; `pool`'s mbufs hold a frame with the largest packet
    /// of any job. `checksums`: the port was started to write them.
    pub fn new(queue: Queue, pool: Pool, local: End, checksums: bool) -> Self {
        Self {
            queue,
            received: Burst::default(),
            outbox: Outbox::new(pool, local, checksums),
            ask: 0,
        }
    }

    /// Works for a shard until told to stop.
    pub fn run(&mut self, shard: &Shard, idle: Idle, stop: &AtomicBool) {
        let mut empty = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            if self.turn(shard, shard.now(), BURST) > 0 {
                empty = 0;
            } else {
                empty = empty.saturating_add(1);
                idle.wait(empty);
            }
        }
    }

    /// Receives up to `limit` frames, does what they ask for and sends what comes of it; returns how many came.
    pub fn turn(&mut self, shard: &Shard, now: Nanos, limit: usize) -> usize {
        self.turn_with(shard, now, limit, agg_host::handle)
    }

    /// The same with something else in the place of [`agg_host::handle`]: to measure how much of the time is the core's.
    pub fn turn_with<H>(&mut self, shard: &Shard, now: Nanos, limit: usize, handle: H) -> usize
    where
        H: FnMut(&mut ShardAggregator, &[u8], &Endpoint, Nanos, &mut [u8]) -> Verdict,
    {
        let came = self.queue.receive(limit, &mut self.received);
        let asks = now >= self.ask;
        if came == 0 && !asks {
            return 0;
        }
        let Self {
            queue,
            received,
            outbox,
            ..
        } = self;
        let mut state = shard.lock();
        let mut turn = Turn {
            state: &mut state,
            outbox,
            queue,
            now,
            handle,
        };
        turn.state.frames.add(FrameCounter::Received, came);
        for mbuf in received.drain() {
            turn.frame(mbuf);
        }
        if asks {
            turn.ask_for_neighbours();
        }
        outbox.flush(&mut state.frames, queue);
        if asks {
            self.ask = now + NEIGHBOURS;
        }
        came
    }
}

/// One burst beside all that it needs.
struct Turn<'t, H> {
    state: &'t mut State,
    outbox: &'t mut Outbox,
    queue: &'t mut Queue,
    now: Nanos,
    handle: H,
}

impl<H> Turn<'_, H>
where
    H: FnMut(&mut ShardAggregator, &[u8], &Endpoint, Nanos, &mut [u8]) -> Verdict,
{
    fn frame(&mut self, mbuf: Mbuf) {
        if mbuf.segments() != 1 {
            return self.count(FrameCounter::Scattered);
        }
        match ethernet(mbuf.bytes()) {
            Some((_, _, TYPE_IPV4)) => self.ipv4(mbuf),
            Some((_, _, TYPE_ARP)) => self.arp(mbuf),
            _ => self.count(FrameCounter::Foreign),
        }
    }

    fn ipv4(&mut self, mut mbuf: Mbuf) {
        let local = *self.outbox.local();
        let frame = mbuf.bytes();
        let Some(ip) = Ip::read(frame).filter(|ip| ip.to == *local.address.ip()) else {
            return self.count(FrameCounter::Foreign);
        };
        match Datagram::read(frame, &ip) {
            Some(datagram) if datagram.to.port() == local.address.port() => self.packet(&mbuf, datagram),
            None if echo::answer(mbuf.bytes_mut(), &ip, local.mac) => {
                self.count(FrameCounter::EchoAnswered);
                self.outbox.push(mbuf, &mut self.state.frames, self.queue);
            }
            _ => self.count(FrameCounter::Foreign),
        }
    }

    /// The packet is merged from where it was received.
    fn packet(&mut self, mbuf: &Mbuf, datagram: Datagram) {
        // First: what can have no answer changes nothing, and will come again.
        let Some(mut answer) = self.outbox.answer() else {
            return self.count(FrameCounter::NoMbuf);
        };
        let frame = mbuf.bytes();
        let source = Endpoint::from(std::net::SocketAddr::V4(datagram.from));
        let verdict = (self.handle)(
            &mut self.state.aggregator,
            &frame[datagram.payload],
            &source,
            self.now,
            Outbox::packet(&mut answer),
        );
        let mac = ethernet(frame).map_or([0; 6], |(_, from, _)| from);
        let address = datagram.from;
        self.outbox
            .deliver(verdict, answer, End { mac, address }, self.state, self.queue);
    }

    fn arp(&mut self, mut mbuf: Mbuf) {
        let local = *self.outbox.local();
        let Some(arp) = Arp::read(mbuf.bytes()) else {
            return self.count(FrameCounter::Foreign);
        };
        let (mac, who) = arp.sender;
        self.state.neighbours.learn(who, mac, self.now);
        if arp.operation == Operation::Request && arp.target.1 == *local.address.ip() {
            let answer = arp.answer(local.mac).frame();
            mbuf.set_len(answer.len());
            mbuf.bytes_mut().copy_from_slice(&answer);
            self.count(FrameCounter::ArpAnswered);
            self.outbox.push(mbuf, &mut self.state.frames, self.queue);
        }
    }

    fn ask_for_neighbours(&mut self) {
        let local = self.outbox.local();
        let sender = (local.mac, *local.address.ip());
        let State {
            neighbours, frames, ..
        } = &mut *self.state;
        for who in neighbours.due(self.now) {
            let request = Arp::request(sender, who).frame();
            self.outbox.push_bytes(&request, frames, self.queue);
        }
    }

    fn count(&mut self, counter: FrameCounter) {
        self.state.frames.add(counter, 1);
    }
}

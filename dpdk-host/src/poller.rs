//! A core at its queues: it receives, aggregates and sends, one burst after the other.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering};

use agg_core::{Endpoint, Nanos, Verdict};
use agg_host::ShardAggregator;
use agg_host::frame::{Datagram, End, Ip, TYPE_IPV4, ethernet};

use crate::arp::{Arp, Operation, TYPE_ARP};
use crate::dpdk::{BURST, Burst, Mbuf, Pool, ReceiveQueue, RingReceiver};
use crate::outbox::Outbox;
use crate::shard::{Shard, State};
use crate::{FrameCounter, HandOff, Idle, Link, echo};

/// How often it is looked whether neighbours are to be asked for, in ns.
const NEIGHBOURS: Nanos = 10_000_000;

/// A core at its queues.
pub struct Poller {
    inputs: Vec<Input>,
    hand_off: HandOff,
    outbox: Outbox,
    /// When it is looked next whether neighbours are to be asked for.
    ask: Nanos,
}

/// Where frames come from, and those that came last.
struct Input {
    source: Source,
    received: Burst,
}

enum Source {
    /// A queue of the port of this number.
    Port(usize, ReceiveQueue),
    /// Another shard: each frame has the number of its port in it.
    Shard(RingReceiver),
}

impl Input {
    fn new(source: Source) -> Self {
        let received = Burst::default();
        Self { source, received }
    }

    fn receive(&mut self, limit: usize) -> usize {
        match &mut self.source {
            Source::Port(_, queue) => queue.receive(limit, &mut self.received),
            Source::Shard(ring) => ring.receive(limit, &mut self.received),
        }
    }
}

impl Poller {
    /// Works at links, by their ports' numbers. Packets are received and sent as `address`, the shard's own; `pool`'s mbufs hold
    /// a frame with the largest packet of any job.
    pub fn new(links: Vec<Link>, mut hand_off: HandOff, pool: Pool, address: SocketAddrV4) -> Self {
        let mut outbox = Outbox::new(pool);
        let mut inputs = Vec::new();
        for (port, link) in links.into_iter().enumerate() {
            let mac = link.mac;
            outbox.add(End { mac, address }, link.checksums, link.send);
            inputs.extend(link.receive.map(|queue| Input::new(Source::Port(port, queue))));
        }
        let rings = hand_off.receivers().into_iter();
        inputs.extend(rings.map(|ring| Input::new(Source::Shard(ring))));
        Self {
            inputs,
            hand_off,
            outbox,
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

    /// Receives up to `limit` frames from each queue, does what they ask for and sends what comes of it; returns how many came.
    pub fn turn(&mut self, shard: &Shard, now: Nanos, limit: usize) -> usize {
        self.turn_with(shard, now, limit, agg_host::handle)
    }

    /// The same with something else in the place of [`agg_host::handle`]: to measure how much of the time is the core's.
    pub fn turn_with<H>(&mut self, shard: &Shard, now: Nanos, limit: usize, handle: H) -> usize
    where
        H: FnMut(&mut ShardAggregator, &[u8], &Endpoint, Nanos, &mut [u8]) -> Verdict,
    {
        let came = self.inputs.iter_mut().map(|input| input.receive(limit)).sum();
        let asks = now >= self.ask;
        if came == 0 && !asks {
            return 0;
        }
        let mut state = shard.lock();
        state.neighbours.refresh();
        let mut turn = Turn {
            state: &mut state,
            outbox: &mut self.outbox,
            hand_off: &mut self.hand_off,
            now,
            handle,
        };
        for input in &mut self.inputs {
            turn.input(input);
        }
        if asks {
            turn.ask_for_neighbours();
            self.ask = now + NEIGHBOURS;
        }
        self.outbox.flush(&mut state.frames);
        self.hand_off.flush(&mut state.frames);
        came
    }
}

/// One burst beside all that it needs.
struct Turn<'t, H> {
    state: &'t mut State,
    outbox: &'t mut Outbox,
    hand_off: &'t mut HandOff,
    now: Nanos,
    handle: H,
}

impl<H> Turn<'_, H>
where
    H: FnMut(&mut ShardAggregator, &[u8], &Endpoint, Nanos, &mut [u8]) -> Verdict,
{
    fn input(&mut self, input: &mut Input) {
        match input.source {
            Source::Port(port, _) => {
                self.state
                    .frames
                    .add(FrameCounter::Received, input.received.len());
                for mbuf in input.received.drain() {
                    self.frame(mbuf, port);
                }
            }
            Source::Shard(_) => {
                for mbuf in input.received.drain() {
                    let port = mbuf.port().into();
                    self.frame(mbuf, port);
                }
            }
        }
    }

    fn frame(&mut self, mbuf: Mbuf, port: usize) {
        if mbuf.segments() != 1 {
            return self.count(FrameCounter::Scattered);
        }
        match ethernet(mbuf.bytes()) {
            Some((_, _, TYPE_IPV4)) => self.ipv4(mbuf, port),
            Some((_, _, TYPE_ARP)) => self.arp(mbuf, port),
            _ => self.count(FrameCounter::Foreign),
        }
    }

    fn ipv4(&mut self, mut mbuf: Mbuf, port: usize) {
        let local = *self.outbox.local(port);
        let frame = mbuf.bytes();
        let Some(ip) = Ip::read(frame).filter(|ip| ip.to == *local.address.ip()) else {
            return self.count(FrameCounter::Foreign);
        };
        let Some(datagram) = Datagram::read(frame, &ip) else {
            if !echo::answer(mbuf.bytes_mut(), &ip, local.mac) {
                return self.count(FrameCounter::Foreign);
            }
            self.count(FrameCounter::EchoAnswered);
            return self.outbox.push(port, mbuf, &mut self.state.frames);
        };
        match self.hand_off.shard(local.address.port(), datagram.to.port()) {
            Some(shard) if shard == self.hand_off.own() => self.packet(&mbuf, port, datagram),
            Some(shard) => self.hand_off.push(shard, mbuf, port, &mut self.state.frames),
            None => self.count(FrameCounter::Foreign),
        }
    }

    /// The packet is merged from where it was received.
    fn packet(&mut self, mbuf: &Mbuf, port: usize, datagram: Datagram) {
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
            .deliver(verdict, answer, (port, End { mac, address }), self.state);
    }

    /// It is answered by whoever it came to.
    fn arp(&mut self, mut mbuf: Mbuf, port: usize) {
        let local = *self.outbox.local(port);
        let Some(arp) = Arp::read(mbuf.bytes()) else {
            return self.count(FrameCounter::Foreign);
        };
        let (mac, who) = arp.sender;
        self.state.neighbours.learn(who, port, mac, self.now);
        if arp.operation == Operation::Request && arp.target.1 == *local.address.ip() {
            let answer = arp.answer(local.mac).frame();
            mbuf.set_len(answer.len());
            mbuf.bytes_mut().copy_from_slice(&answer);
            self.count(FrameCounter::ArpAnswered);
            self.outbox.push(port, mbuf, &mut self.state.frames);
        }
    }

    /// By all ports: the answer says which it is.
    fn ask_for_neighbours(&mut self) {
        for who in self.state.neighbours.due(self.now) {
            for port in 0..self.outbox.ports() {
                let local = self.outbox.local(port);
                let request = Arp::request((local.mac, *local.address.ip()), who).frame();
                self.outbox.push_bytes(port, &request, &mut self.state.frames);
            }
        }
    }

    fn count(&mut self, counter: FrameCounter) {
        self.state.frames.add(counter, 1);
    }
}

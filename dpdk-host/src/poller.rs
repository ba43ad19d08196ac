//! A core at its queues: it receives, aggregates and sends, one burst after the other.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use agg_core::{Endpoint, Nanos, Verdict};
use agg_host::ShardAggregator;
use agg_host::frame::{Datagram, Ethernet, Ip, TYPE_IPV4, TYPE_IPV6};

use crate::arp::{Arp, Operation, TYPE_ARP};
use crate::dpdk::{BURST, Burst, Mbuf, Pool};
use crate::nd::Message;
use crate::neighbours::Hop;
use crate::outbox::Outbox;
use crate::shard::{Shard, State};
use crate::{FrameCounter, Idle, Link, echo, nd};

/// How often it is looked whether neighbours are to be asked for, in ns.
const NEIGHBOURS: Nanos = 10_000_000;

/// A core at its queues, one of each port.
pub struct Poller {
    received: Burst,
    outbox: Outbox,
    /// When it is looked next whether neighbours are to be asked for.
    ask: Nanos,
}

impl Poller {
    /// Works at these ports. Packets are received and sent as `address`, in frames of this VLAN (`None`: in none); `pool`'s
    /// mbufs hold a frame with the largest packet of any job.
    pub fn new(links: Vec<Link>, pool: Pool, address: SocketAddr, vlan: Option<u16>) -> Self {
        Self {
            received: Burst::default(),
            outbox: Outbox::new(links, pool, address, vlan),
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

    /// Receives up to `limit` frames at each port, does what they ask for and sends what comes of it; returns how many came.
    pub fn turn(&mut self, shard: &Shard, now: Nanos, limit: usize) -> usize {
        self.turn_with(shard, now, limit, agg_host::handle)
    }

    /// The same with something else in the place of [`agg_host::handle`]: to measure how much of the time is the core's.
    pub fn turn_with<H>(&mut self, shard: &Shard, now: Nanos, limit: usize, mut handle: H) -> usize
    where
        H: FnMut(&mut ShardAggregator, &[u8], &Endpoint, Nanos, &mut [u8]) -> Verdict,
    {
        let Self {
            received,
            outbox,
            ask,
        } = self;
        let mut all = 0;
        for port in 0..outbox.links().len() {
            let came = outbox.links()[port].queue.receive(limit, received);
            if came > 0 {
                all += came;
                let mut state = shard.lock();
                state.frames.add(FrameCounter::Received, came);
                let mut turn = Turn {
                    state: &mut state,
                    outbox,
                    port,
                    now,
                    handle: &mut handle,
                };
                received.drain().for_each(|mbuf| turn.frame(mbuf));
                outbox.flush(&mut state.frames);
            }
        }
        if now >= *ask {
            let mut state = shard.lock();
            ask_for_neighbours(&mut state, outbox, now);
            outbox.flush(&mut state.frames);
            *ask = now + NEIGHBOURS;
        }
        all
    }
}

/// Asks at every port: the answer says which one it is.
fn ask_for_neighbours(state: &mut State, outbox: &mut Outbox, now: Nanos) {
    let State {
        neighbours, frames, ..
    } = state;
    let (ours, vlan) = (outbox.address().ip(), outbox.framing().vlan());
    for who in neighbours.due(now) {
        for port in 0..outbox.links().len() {
            let mac = outbox.links()[port].mac;
            let request = match (ours, who) {
                (IpAddr::V4(ours), IpAddr::V4(who)) => Arp::request((mac, ours), who).frame(vlan),
                (IpAddr::V6(ours), IpAddr::V6(who)) => nd::solicit((mac, ours), who, vlan),
                // No way there is of another family.
                _ => continue,
            };
            outbox.push_bytes(port, &request, frames);
        }
    }
}

/// One burst of a port beside all that it needs.
struct Turn<'t, H> {
    state: &'t mut State,
    outbox: &'t mut Outbox,
    port: usize,
    now: Nanos,
    handle: &'t mut H,
}

impl<H> Turn<'_, H>
where
    H: FnMut(&mut ShardAggregator, &[u8], &Endpoint, Nanos, &mut [u8]) -> Verdict,
{
    fn frame(&mut self, mbuf: Mbuf) {
        if mbuf.segments() != 1 {
            return self.count(FrameCounter::Scattered);
        }
        let Some(ethernet) = Ethernet::read(mbuf.bytes()) else {
            return self.count(FrameCounter::Foreign);
        };
        // A tag for the priority only is in no VLAN.
        if ethernet.vlan.filter(|vlan| *vlan != 0) != self.outbox.framing().vlan() {
            return self.count(FrameCounter::OtherVlan);
        }
        match ethernet.kind {
            TYPE_IPV4 | TYPE_IPV6 => self.ip(mbuf, &ethernet),
            TYPE_ARP => self.arp(mbuf, &ethernet),
            _ => self.count(FrameCounter::Foreign),
        }
    }

    fn ip(&mut self, mut mbuf: Mbuf, ethernet: &Ethernet) {
        let ours = self.outbox.address();
        let frame = mbuf.bytes();
        let Some(ip) = Ip::read(frame, ethernet) else {
            return self.count(FrameCounter::Foreign);
        };
        if ip.protocol == nd::PROTOCOL_ICMPV6
            && let Some(message) = Message::read(frame, &ip)
        {
            return self.discovery(mbuf, ethernet, message);
        }
        if ip.to() != ours.ip() {
            return self.count(FrameCounter::Foreign);
        }
        let mac = self.mac();
        match Datagram::read(frame, &ip) {
            Some(datagram) if datagram.to.port() == ours.port() => self.packet(&mbuf, ethernet, datagram),
            None if echo::answer(mbuf.bytes_mut(), ethernet, &ip, mac) => {
                self.count(FrameCounter::EchoAnswered);
                self.outbox.push(self.port, mbuf, &mut self.state.frames);
            }
            _ => self.count(FrameCounter::Foreign),
        }
    }

    /// The packet is merged from where it was received.
    fn packet(&mut self, mbuf: &Mbuf, ethernet: &Ethernet, datagram: Datagram) {
        // First: what can have no answer changes nothing, and will come again.
        let Some(mut answer) = self.outbox.answer() else {
            return self.count(FrameCounter::NoMbuf);
        };
        let verdict = (self.handle)(
            &mut self.state.aggregator,
            &mbuf.bytes()[datagram.payload],
            &Endpoint::from(datagram.from),
            self.now,
            Outbox::packet(&mut answer, self.outbox.framing()),
        );
        let source = (self.hop(ethernet.from), datagram.from);
        self.outbox.deliver(verdict, answer, source, self.state);
    }

    fn arp(&mut self, mbuf: Mbuf, ethernet: &Ethernet) {
        let Some(arp) = Arp::read(&mbuf.bytes()[ethernet.len()..]) else {
            return self.count(FrameCounter::Foreign);
        };
        let (mac, who) = arp.sender;
        self.learn(who.into(), mac);
        if arp.operation == Operation::Request && self.outbox.address().ip() == arp.target.1 {
            let answer = arp.answer(self.mac()).frame(self.outbox.framing().vlan());
            self.answer_with(mbuf, &answer);
        }
    }

    /// What ARP is for IPv4.
    fn discovery(&mut self, mbuf: Mbuf, ethernet: &Ethernet, message: Message) {
        let (target, sender) = match message {
            Message::Advertisement { target, mac } => return self.learn(target.into(), mac),
            Message::Solicitation { target, sender } => (target, sender),
        };
        if let Some((who, Some(mac))) = sender {
            self.learn(who.into(), mac);
        }
        if self.outbox.address().ip() == target {
            let asker = sender.map(|(who, mac)| (mac.unwrap_or(ethernet.from), who));
            let answer = nd::advertise((self.mac(), target), asker, self.outbox.framing().vlan());
            self.answer_with(mbuf, &answer);
        }
    }

    fn learn(&mut self, who: IpAddr, mac: [u8; 6]) {
        let hop = self.hop(mac);
        self.state.neighbours.learn(who, hop, self.now);
    }

    /// Answers who asked for our Ethernet address, in the mbuf that he asked in.
    fn answer_with(&mut self, mut mbuf: Mbuf, answer: &[u8]) {
        mbuf.set_len(answer.len());
        mbuf.bytes_mut().copy_from_slice(answer);
        self.count(FrameCounter::ArpAnswered);
        self.outbox.push(self.port, mbuf, &mut self.state.frames);
    }

    /// Our Ethernet address here.
    fn mac(&mut self) -> [u8; 6] {
        self.outbox.links()[self.port].mac
    }

    /// How somebody is reached from whom a frame came.
    fn hop(&self, mac: [u8; 6]) -> Hop {
        Hop { port: self.port, mac }
    }

    fn count(&mut self, counter: FrameCounter) {
        self.state.frames.add(counter, 1);
    }
}

//! A core at its queues: it receives, aggregates and sends, one burst after the other.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use agg_core::wire::Ecn;
use agg_core::{Endpoint, Nanos, Verdict};
use agg_host::ShardAggregator;
use agg_host::frame::{Datagram, Ethernet, Ip, TYPE_IPV4, TYPE_IPV6};

use crate::discovery::{self, Heard, Ours};
use crate::dpdk::{Arrival, BURST, Burst, Mbuf, Pool, ReceiveQueue, RingReceiver};
use crate::neighbours::Hop;
use crate::outbox::Outbox;
use crate::shard::{Shard, State};
use crate::{FrameCounter, HandOff, Idle, Link, echo, nd};

/// How often it is looked whether neighbours are to be asked for, in ns.
const NEIGHBOURS: Nanos = 10_000_000;

/// A core at its queues, one of each port.
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
    /// Works at these ports. Packets are received and sent as `address`, the shard's own, in frames of this VLAN (`None`: in
    /// none); `pool`'s mbufs hold a frame with the largest packet of any job.
    pub fn new(
        mut links: Vec<Link>,
        mut hand_off: HandOff,
        pool: Pool,
        address: SocketAddr,
        vlan: Option<u16>,
    ) -> Self {
        let queues = links.iter_mut().enumerate();
        let ports = queues.filter_map(|(port, link)| Some(Source::Port(port, link.receive.take()?)));
        let shards = hand_off.receivers().into_iter().map(Source::Shard);
        Self {
            inputs: ports.chain(shards).map(Input::new).collect(),
            hand_off,
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

    /// Receives up to `limit` frames from each queue, does what they ask for and sends what comes of it; returns how many came.
    pub fn turn(&mut self, shard: &Shard, now: Nanos, limit: usize) -> usize {
        self.turn_with(shard, now, limit, agg_host::handle)
    }

    /// The same with something else in the place of [`agg_host::handle`]: to measure how much of the time is the core's.
    pub fn turn_with<H>(&mut self, shard: &Shard, now: Nanos, limit: usize, handle: H) -> usize
    where
        H: FnMut(&mut ShardAggregator, &[u8], Ecn, &Endpoint, Nanos, &mut [u8]) -> Verdict,
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
            port: 0,
            now,
            handle,
        };
        for input in &mut self.inputs {
            turn.input(input);
        }
        if asks {
            ask_for_neighbours(&mut state, &mut self.outbox, now);
            self.outbox.ask_parent(&mut state, now);
            self.ask = now + NEIGHBOURS;
        }
        self.outbox.flush(&mut state.frames);
        self.hand_off.flush(&mut state.frames);
        came
    }
}

/// Asks at every port: the answer says which one it is.
fn ask_for_neighbours(state: &mut State, outbox: &mut Outbox, now: Nanos) {
    let State {
        neighbours, frames, ..
    } = state;
    let (ip, vlan) = (outbox.address().ip(), outbox.framing().vlan());
    for who in neighbours.due(now) {
        for port in 0..outbox.links().len() {
            let mac = outbox.links()[port].mac;
            let ours = Ours { mac, ip, vlan };
            // No way there is of another family.
            let Some(question) = discovery::ask(&ours, who) else {
                continue;
            };
            outbox.push_bytes(port, &question, frames);
        }
    }
}

/// What has come, beside all that it needs.
struct Turn<'t, H> {
    state: &'t mut State,
    outbox: &'t mut Outbox,
    hand_off: &'t mut HandOff,
    /// Which port the frame came from.
    port: usize,
    now: Nanos,
    handle: H,
}

impl<H> Turn<'_, H>
where
    H: FnMut(&mut ShardAggregator, &[u8], Ecn, &Endpoint, Nanos, &mut [u8]) -> Verdict,
{
    fn input(&mut self, input: &mut Input) {
        let received = input.received.drain();
        match input.source {
            Source::Port(port, _) => {
                self.port = port;
                self.state.frames.add(FrameCounter::Received, received.len());
                received.for_each(|mbuf| self.frame(mbuf));
            }
            Source::Shard(_) => received.for_each(|mbuf| {
                self.port = mbuf.port().into();
                self.frame(mbuf);
            }),
        }
    }

    fn frame(&mut self, mbuf: Mbuf) {
        let arrival = mbuf.arrival();
        if !arrival.is_spread {
            return self.whole(mbuf, arrival);
        }
        let Some(mut whole) = self.outbox.empty() else {
            return self.count(FrameCounter::NoMbuf);
        };
        if !mbuf.gather(&mut whole) {
            return self.count(FrameCounter::TooLong);
        }
        self.count(FrameCounter::Gathered);
        self.whole(whole, arrival);
    }

    fn whole(&mut self, mbuf: Mbuf, arrival: Arrival) {
        let Some(ethernet) = Ethernet::read(mbuf.bytes()) else {
            return self.count(FrameCounter::Foreign);
        };
        if arrival.vlan_of(&ethernet) != self.outbox.framing().vlan() {
            return self.count(FrameCounter::OtherVlan);
        }
        match ethernet.kind {
            TYPE_IPV4 | TYPE_IPV6 => self.ip(mbuf, arrival, &ethernet),
            _ => match discovery::hear(mbuf.bytes(), &ethernet, None, &self.ours()) {
                Some(heard) => self.heard(mbuf, heard),
                None => self.count(FrameCounter::Foreign),
            },
        }
    }

    fn ip(&mut self, mbuf: Mbuf, arrival: Arrival, ethernet: &Ethernet) {
        let ours = self.outbox.address();
        let frame = mbuf.bytes();
        if arrival.has_bad_ip {
            return self.count(FrameCounter::BadChecksum);
        }
        let Some(ip) = Ip::read(frame, ethernet) else {
            return self.count(FrameCounter::Foreign);
        };
        if ip.protocol == nd::PROTOCOL_ICMPV6
            && let Some(heard) = discovery::hear(frame, ethernet, Some(&ip), &self.ours())
        {
            return self.heard(mbuf, heard);
        }
        if ip.to() != ours.ip() {
            return self.count(FrameCounter::Foreign);
        }
        let Some(datagram) = Datagram::read(frame, &ip) else {
            return self.ping(mbuf, ethernet, &ip);
        };
        if arrival.is_damaged(&datagram, frame) {
            return self.count(FrameCounter::BadChecksum);
        }
        match self.hand_off.shard(ours.port(), datagram.to.port()) {
            Some(shard) if shard == self.hand_off.own() => self.packet(&mbuf, ethernet, datagram),
            Some(shard) => self.hand_off.push(shard, mbuf, self.port, &mut self.state.frames),
            None => self.count(FrameCounter::Foreign),
        }
    }

    /// Answered by whichever shard it came to, as are questions for our Ethernet address.
    fn ping(&mut self, mut mbuf: Mbuf, ethernet: &Ethernet, ip: &Ip) {
        let mac = self.mac();
        if !echo::answer(mbuf.bytes_mut(), ethernet, ip, mac) {
            return self.count(FrameCounter::Foreign);
        }
        // A tag that the driver has taken out.
        if let (None, Some(vlan)) = (ethernet.vlan, self.outbox.framing().vlan())
            && !mbuf.insert_tag(vlan)
        {
            return self.count(FrameCounter::TooLong);
        }
        self.count(FrameCounter::EchoAnswered);
        self.outbox.push(self.port, mbuf, &mut self.state.frames);
    }

    /// The packet is merged from where it was received.
    fn packet(&mut self, mbuf: &Mbuf, ethernet: &Ethernet, datagram: Datagram) {
        if let Some(trial) = &mut self.state.trial
            && trial.take_in(datagram.from, &mbuf.bytes()[datagram.payload.clone()])
        {
            return;
        }
        // First: what can have no answer changes nothing, and will come again.
        let Some(mut answer) = self.outbox.answer() else {
            return self.count(FrameCounter::NoMbuf);
        };
        let verdict = (self.handle)(
            &mut self.state.aggregator,
            &mbuf.bytes()[datagram.payload],
            datagram.ecn,
            &Endpoint::from(datagram.from),
            self.now,
            Outbox::packet(&mut answer, self.outbox.framing()),
        );
        let source = (self.hop(ethernet.from), datagram.from);
        self.outbox.deliver(verdict, answer, source, self.state);
    }

    /// Takes in what somebody says of his Ethernet address, and tells him ours if he asks.
    fn heard(&mut self, mbuf: Mbuf, heard: Heard) {
        if let Some((who, mac)) = heard.said {
            let hop = self.hop(mac);
            self.state.neighbours.learn(who, hop, self.now);
        }
        if let Some(answer) = heard.answer {
            self.answer_with(mbuf, &answer);
        }
    }

    /// Answers who asked for our Ethernet address, in the mbuf that he asked in.
    fn answer_with(&mut self, mut mbuf: Mbuf, answer: &[u8]) {
        mbuf.set_len(answer.len());
        mbuf.bytes_mut().copy_from_slice(answer);
        self.count(FrameCounter::ArpAnswered);
        self.outbox.push(self.port, mbuf, &mut self.state.frames);
    }

    /// Our addresses here.
    fn ours(&self) -> Ours {
        Ours {
            mac: self.mac(),
            ip: self.outbox.address().ip(),
            vlan: self.outbox.framing().vlan(),
        }
    }

    /// Our Ethernet address here.
    fn mac(&self) -> [u8; 6] {
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

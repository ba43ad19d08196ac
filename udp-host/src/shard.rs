//! One shard: a thread, a port with its queues, an aggregator.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agg_control::{attached_address, attached_name};
use agg_core::wire::{Ecn, packet_len};
use agg_core::{Endpoint, Lanes, Verdict};
use agg_host::{Names, ShardAggregator};
use shm_io::PacketBuffer;
use udp_io::{Port, QueueSet, QueuedPort, RecvBatch, SendBatch};

use crate::lent::{Borrowed, Said};
use crate::queues::queue_of;
use crate::rings::Rings;
use crate::store::{self, Store};
use crate::turns::{Turns, Work};

/// How long a shard sleeps at most before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Trains of packets that can be open at once: a broadcast or a reply each.
const TRAINS: usize = 32;

/// The largest packet of any job.
pub(crate) const MAX_PACKET: usize = packet_len(Lanes::L8192.count());

pub(crate) struct Shard {
    pub(crate) port: QueuedPort,
    clock: Instant,
    /// How long it looks for packets before it sleeps.
    busy_poll: Duration,
    /// Who lends the shard's deeper memory, if it is not here.
    lender: Option<Borrowed>,
    state: Mutex<State>,
}

/// What the shard's thread and the control service share. The thread holds the lock for a batch of packets at a
/// time; the control service takes it for a registration.
pub(crate) struct State {
    pub(crate) aggregator: ShardAggregator,
    /// Where the packets of each job go, by its key.
    pub(crate) routes: HashMap<u64, Route>,
    /// Members that are attached by shared memory.
    pub(crate) rings: Rings,
    /// Datagrams that were longer than any job has: sockets cut them, and the aggregator has not seen them.
    too_long: u64,
    /// How often the jobs have changed: their weights are looked at then.
    changes: u64,
}

impl State {
    pub(crate) fn insert(&mut self, key: u64, route: Route, queues: usize) {
        self.rings.release(key);
        for name in &route.attached {
            self.rings.assign(*name, key, queue_of(key, queues));
        }
        self.routes.insert(key, route);
        self.changes += 1;
    }

    pub(crate) fn remove(&mut self, key: u64) {
        self.aggregator.release(key);
        self.rings.release(key);
        self.routes.remove(&key);
        self.changes += 1;
    }

    /// Bytes of deeper memory that jobs hold.
    pub(crate) fn stored(&self) -> u64 {
        let stores = self.routes.values().filter_map(|route| route.store.as_ref());
        stores.map(Store::size).sum()
    }

    /// Packets that the aggregator has not seen, since they were longer than any job has.
    pub(crate) fn too_long(&self) -> u64 {
        self.too_long + self.rings.too_long()
    }

    /// The weights of the jobs of each queue.
    fn weights(&self, queues: usize) -> Vec<u32> {
        let mut weights = vec![0; queues];
        for (key, route) in &self.routes {
            if let Some(weight) = weights.get_mut(queue_of(*key, queues)) {
                *weight += u32::from(route.weight);
            }
        }
        weights
    }
}

/// Where the packets of a job go, and what else the host keeps for it.
pub(crate) struct Route {
    /// Results and Wants, to members on the network.
    pub(crate) members: Vec<SocketAddr>,
    /// The same, to those that are attached by shared memory.
    pub(crate) attached: Vec<u64>,
    /// The sums of a leaf.
    pub(crate) parent: Option<SocketAddr>,
    /// Share of the thread's time, against that of other jobs.
    pub(crate) weight: u16,
    /// For messages.
    pub(crate) names: Arc<Names>,
    /// Deeper memory, where its slots have frames.
    pub(crate) store: Option<Store>,
}

impl Shard {
    pub(crate) fn new(
        port: QueuedPort,
        aggregator: ShardAggregator,
        lender: Option<Borrowed>,
        busy_poll: Duration,
    ) -> Self {
        Self {
            port,
            busy_poll,
            lender,
            clock: Instant::now(),
            state: Mutex::new(State {
                aggregator,
                routes: HashMap::new(),
                rings: Rings::default(),
                too_long: 0,
                changes: 0,
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that the aggregator is told.
    pub(crate) fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    pub(crate) fn lender(&self) -> Option<&Borrowed> {
        self.lender.as_ref()
    }

    /// Attaches a member by shared memory.
    #[cfg(target_os = "linux")]
    pub(crate) fn attach(&self, line: shm_io::Line) -> io::Result<()> {
        use std::os::fd::AsFd;
        // What the thread is told of before it knows the ring waits until it does.
        let mut state = self.lock();
        self.port.watch_also(line.as_fd(), line.name())?;
        state.rings.add(line);
        Ok(())
    }

    /// Takes in what the lender of memory says until told to stop.
    pub(crate) fn hear_lender(&self, lender: &Borrowed, stop: &AtomicBool) -> io::Result<()> {
        let port = &self.port.queues()[0];
        let mut sending = SendBatch::new(MAX_PACKET, TRAINS);
        let (mut packet, mut out) = (Borrowed::buffer(), vec![0; MAX_PACKET]);
        let mut values = Vec::new();
        let mut outlet = Outlet {
            port,
            sending: &mut sending,
            work: Work::of(0, 0),
        };
        let mut silent = false;
        while !stop.load(Ordering::Relaxed) {
            let Some(said) = lender.hear(&mut packet) else {
                continue;
            };
            let now = self.now();
            let mut state = self.lock();
            let State {
                aggregator,
                routes,
                rings,
                ..
            } = &mut *state;
            let was_silent = std::mem::replace(&mut silent, matches!(said, Said::Lost));
            match said {
                Said::Kept(sum) => aggregator.stored(sum.key, sum.place, sum.round, sum.set),
                Said::Values(sum, bytes) => {
                    values.clear();
                    values.extend(
                        bytes
                            .as_chunks::<4>()
                            .0
                            .iter()
                            .map(|value| i32::from_le_bytes(*value)),
                    );
                    let verdict =
                        aggregator.recalled(sum.key, sum.place, sum.round, sum.set, &values, now, &mut out);
                    outlet.deliver(verdict, None, routes, rings, &out)?;
                    rings.publish();
                }
                Said::Missing(key) => aggregator.store_lost(key),
                Said::Lost => {
                    for key in routes.keys() {
                        aggregator.store_lost(*key);
                    }
                    if !was_silent {
                        tracing::warn!(
                            "the lender of memory does not answer: what it held is asked for again"
                        );
                    }
                }
            }
            drop(state);
            port.flush(outlet.sending)?;
        }
        Ok(())
    }

    /// Waits until there is something to receive, at most for `patience`: in which queues of sockets, and of rings.
    fn wait(&self, patience: Duration, rung: &mut Vec<u64>) -> io::Result<(QueueSet, QueueSet)> {
        let may_sleep = patience.is_zero() || self.lock().rings.doze();
        let patience = if may_sleep { patience } else { Duration::ZERO };
        rung.clear();
        let sockets = self.port.wait_also(patience, |name| rung.push(name))?;
        let mut state = self.lock();
        state.rings.rise(rung);
        Ok((sockets, state.rings.ready()))
    }

    /// Receives, aggregates and sends until told to stop.
    pub(crate) fn run(&self, stop: &AtomicBool) -> io::Result<()> {
        let queues = self.port.queues();
        let mut turns = Turns::new(queues.len());
        let mut received = RecvBatch::new(&queues[0], MAX_PACKET);
        let mut sending = SendBatch::new(MAX_PACKET, TRAINS);
        let (mut packet, mut out) = (PacketBuffer::new(MAX_PACKET), PacketBuffer::new(MAX_PACKET));
        let (mut sockets, mut rung) = (QueueSet::default(), Vec::new());
        let mut changes = 0;
        let mut last_came = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let Some(visit) = turns.next() else {
                let looks = !self.busy_poll.is_zero() && last_came.elapsed() < self.busy_poll;
                let patience = if turns.unfinished() || looks {
                    Duration::ZERO
                } else {
                    STOP_INTERVAL
                };
                let (in_sockets, in_rings) = self.wait(patience, &mut rung)?;
                sockets = in_sockets;
                let ready = in_sockets.with(in_rings);
                if looks && ready.is_empty() {
                    // Who shares this core goes first.
                    std::thread::yield_now();
                }
                turns.begin(ready);
                continue;
            };
            // Whichever socket sends, the source is the same.
            let port = &queues[visit.queue];
            let (mut packets, mut buffers) = (0, 0);
            if sockets.contains(visit.queue) {
                packets = received.recv_some(port, visit.buffers)?;
                buffers = received.buffers();
                if received.drained() {
                    sockets.remove(visit.queue);
                }
            }
            let now = self.now();
            let mut state = self.lock();
            state.too_long = received.oversized();
            if state.changes != changes {
                changes = state.changes;
                turns.weigh(&state.weights(queues.len()));
            }
            let State {
                aggregator,
                routes,
                rings,
                ..
            } = &mut *state;
            let mut outlet = Outlet {
                port,
                sending: &mut sending,
                // Also for what is empty or too long, and makes no packet.
                work: Work::of(
                    packets.max(buffers),
                    if buffers > 0 { received.bytes() } else { 0 },
                ),
            };
            if buffers > 0 {
                // By a socket nobody is attached.
                let arrivals = received.arrivals();
                for arrival in arrivals.filter(|arrival| attached_name(&arrival.source).is_none()) {
                    let (source, ecn) = (arrival.source, Ecn::marked(arrival.congested));
                    let from = Endpoint::from(source);
                    let verdict = agg_host::handle(aggregator, arrival.bytes, ecn, &from, now, out.bytes());
                    outlet.deliver(verdict, Some(source), routes, rings, out.bytes())?;
                }
            }
            let mut taken = 0;
            while taken + buffers < visit.buffers.max(buffers + 1) {
                let Some(next) = rings.take(visit.queue, &mut packet) else {
                    break;
                };
                taken += 1;
                outlet.work += Work::of(1, next.len);
                let packet = packet.packet(next.len);
                let verdict =
                    agg_host::handle(aggregator, packet, Ecn::Clear, &next.source, now, out.bytes());
                let source = Some(attached_address(next.name));
                outlet.deliver(verdict, source, routes, rings, out.bytes())?;
            }
            if !sockets.contains(visit.queue) && !rings.ready().contains(visit.queue) {
                turns.empty(visit.queue);
            }
            if taken + buffers == 0 {
                continue;
            }
            if !self.busy_poll.is_zero() {
                last_came = Instant::now();
            }
            store::serve(
                aggregator,
                routes,
                self.lender.as_ref(),
                now,
                out.bytes(),
                |verdict, routes, out| outlet.deliver(verdict, None, routes, rings, out),
            )?;
            rings.publish();
            let work = outlet.work;
            drop(state);
            port.flush(&mut sending)?;
            turns.charge(visit.queue, taken + buffers, work);
        }
        Ok(())
    }
}

/// Sends what verdicts say.
struct Outlet<'a, P> {
    port: &'a P,
    sending: &'a mut SendBatch,
    /// What it has cost so far.
    work: Work,
}

impl<P: Port> Outlet<'_, P> {
    /// Sends what a verdict says, to whom it says; `source` is who gets a reply.
    fn deliver(
        &mut self,
        verdict: Verdict,
        source: Option<SocketAddr>,
        routes: &HashMap<u64, Route>,
        rings: &mut Rings,
        out: &[u8],
    ) -> io::Result<()> {
        match verdict {
            Verdict::Quiet => {}
            Verdict::Reply { len } => {
                let name = source.and_then(|source| attached_name(&source));
                match (name, source) {
                    (Some(name), _) => rings.send(name, &out[..len]),
                    (None, Some(source)) => self.port.send(self.sending, source, &out[..len])?,
                    (None, None) => {}
                }
                self.work += Work::of(1, len);
            }
            Verdict::Broadcast { key, len } => {
                let Some(Route {
                    members, attached, ..
                }) = routes.get(&key)
                else {
                    return Ok(());
                };
                self.port.send_to_all(self.sending, members, &out[..len])?;
                for name in attached {
                    rings.send(*name, &out[..len]);
                }
                let count = members.len() + attached.len();
                self.work += Work::of(count, count * len);
            }
            Verdict::Forward { key, len } => {
                if let Some(parent) = routes.get(&key).and_then(|route| route.parent) {
                    self.port.send(self.sending, parent, &out[..len])?;
                }
                self.work += Work::of(1, len);
            }
        }
        Ok(())
    }
}

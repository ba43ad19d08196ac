//! One shard: a thread, a port with its queues, an aggregator.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agg_core::wire::{Ecn, packet_len};
use agg_core::{Endpoint, Lanes, Verdict};
use agg_host::{Names, ShardAggregator};
use udp_io::{Port, QueuedPort, RecvBatch, SendBatch};

use crate::lent::{Borrowed, Said};
use crate::queues::queue_of;
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
    /// How often the jobs have changed: their weights are looked at then.
    changes: u64,
}

impl State {
    pub(crate) fn insert(&mut self, key: u64, route: Route) {
        self.routes.insert(key, route);
        self.changes += 1;
    }

    pub(crate) fn remove(&mut self, key: u64) {
        self.aggregator.release(key);
        self.routes.remove(&key);
        self.changes += 1;
    }

    /// Bytes of deeper memory that jobs hold.
    pub(crate) fn stored(&self) -> u64 {
        let stores = self.routes.values().filter_map(|route| route.store.as_ref());
        stores.map(Store::size).sum()
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
    /// Results and Wants.
    pub(crate) members: Vec<SocketAddr>,
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

    /// Takes in what the lender of memory says until told to stop.
    pub(crate) fn hear_lender(&self, lender: &Borrowed, stop: &AtomicBool) -> io::Result<()> {
        let port = &self.port.queues()[0];
        let mut sending = SendBatch::new(MAX_PACKET, TRAINS);
        let (mut packet, mut out) = (Borrowed::buffer(), vec![0; MAX_PACKET]);
        let mut values = Vec::new();
        let mut silent = false;
        while !stop.load(Ordering::Relaxed) {
            let Some(said) = lender.hear(&mut packet) else {
                continue;
            };
            let now = self.now();
            let mut state = self.lock();
            let State {
                aggregator, routes, ..
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
                    deliver(port, &mut sending, verdict, None, routes, &out)?;
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
            port.flush(&mut sending)?;
        }
        Ok(())
    }

    /// Receives, aggregates and sends until told to stop.
    pub(crate) fn run(&self, stop: &AtomicBool) -> io::Result<()> {
        let queues = self.port.queues();
        let mut turns = Turns::new(queues.len());
        let mut received = RecvBatch::new(&queues[0], MAX_PACKET);
        let mut sending = SendBatch::new(MAX_PACKET, TRAINS);
        let mut out = vec![0; MAX_PACKET];
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
                let ready = self.port.wait(patience)?;
                if looks && ready.is_empty() {
                    // Who shares this core goes first.
                    std::thread::yield_now();
                }
                turns.begin(ready);
                continue;
            };
            // Whichever socket sends, the source is the same.
            let port = &queues[visit.queue];
            let packets = received.recv_some(port, visit.buffers)?;
            if received.drained() {
                turns.empty(visit.queue);
            }
            if received.buffers() == 0 {
                continue;
            }
            if !self.busy_poll.is_zero() {
                last_came = Instant::now();
            }
            // Also for what is empty or too long, and makes no packet.
            let mut work = Work::of(packets.max(received.buffers()), received.bytes());
            let now = self.now();
            let mut state = self.lock();
            if state.changes != changes {
                changes = state.changes;
                turns.weigh(&state.weights(queues.len()));
            }
            let State {
                aggregator, routes, ..
            } = &mut *state;
            let mut send = |verdict, source, routes: &HashMap<u64, Route>, out: &[u8]| {
                work += deliver(port, &mut sending, verdict, source, routes, out)?;
                Ok::<(), io::Error>(())
            };
            for arrival in received.arrivals() {
                let (source, ecn) = (arrival.source, Ecn::marked(arrival.congested));
                let from = Endpoint::from(source);
                let verdict = agg_host::handle(aggregator, arrival.bytes, ecn, &from, now, &mut out);
                send(verdict, Some(source), routes, &out)?;
            }
            store::serve(
                aggregator,
                routes,
                self.lender.as_ref(),
                now,
                &mut out,
                |verdict, routes, out| send(verdict, None, routes, out),
            )?;
            drop(state);
            port.flush(&mut sending)?;
            turns.charge(visit.queue, received.buffers(), work);
        }
        Ok(())
    }
}

/// Sends what a verdict says, to whom it says; `source` is who gets a reply.
fn deliver(
    port: &impl Port,
    sending: &mut SendBatch,
    verdict: Verdict,
    source: Option<SocketAddr>,
    routes: &HashMap<u64, Route>,
    out: &[u8],
) -> io::Result<Work> {
    match verdict {
        Verdict::Quiet => Ok(Work::of(0, 0)),
        Verdict::Reply { len } => {
            if let Some(source) = source {
                port.send(sending, source, &out[..len])?;
            }
            Ok(Work::of(1, len))
        }
        Verdict::Broadcast { key, len } => {
            let members = routes.get(&key).map_or(&[][..], |route| &route.members);
            port.send_to_all(sending, members, &out[..len])?;
            Ok(Work::of(members.len(), members.len() * len))
        }
        Verdict::Forward { key, len } => {
            if let Some(parent) = routes.get(&key).and_then(|route| route.parent) {
                port.send(sending, parent, &out[..len])?;
            }
            Ok(Work::of(1, len))
        }
    }
}

//! One shard: an aggregator, and where its jobs' packets go.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use agg_control::ShardCounters;
use agg_core::Nanos;
use agg_host::{ShardAggregator, shard_counters};

use crate::trial::Trial;
use crate::{FrameCounters, Hop, Neighbours, Network};

/// One shard. The core that polls holds its lock for a burst at a time; the control service takes it for a registration.
pub struct Shard {
    clock: Instant,
    state: Mutex<State>,
}

/// What the core and the control service share.
pub struct State {
    /// The slots.
    pub aggregator: ShardAggregator,
    /// How members and parents are reached.
    pub neighbours: Neighbours,
    /// What has happened to frames.
    pub frames: FrameCounters,
    pub(crate) routes: HashMap<u64, Routed>,
    /// The way to a parent is looked at.
    pub(crate) trial: Option<Trial>,
}

/// Where a job's packets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Results and Wants, by member number.
    pub members: Vec<SocketAddr>,
    /// The sums of a leaf.
    pub parent: Option<SocketAddr>,
}

impl Route {
    fn ends(&self) -> impl Iterator<Item = &SocketAddr> {
        self.members.iter().chain(&self.parent)
    }
}

/// A route, and how its ends are reached: looked up once, not for each packet.
pub(crate) struct Routed {
    route: Route,
    /// The members', then the parent's.
    hops: Vec<Option<Hop>>,
    /// What was known of the neighbours when they were looked up.
    seen: Option<u64>,
}

impl Routed {
    /// The members and how each is reached, if that is known.
    pub(crate) fn members(
        &mut self,
        neighbours: &Neighbours,
    ) -> impl Iterator<Item = Option<(Hop, SocketAddr)>> + '_ {
        self.look_up(neighbours);
        let members = self.hops.iter().zip(&self.route.members);
        members.map(|(hop, member)| Some(((*hop)?, *member)))
    }

    /// The same of the parent, if there is one.
    pub(crate) fn parent(&mut self, neighbours: &Neighbours) -> Option<Option<(Hop, SocketAddr)>> {
        self.look_up(neighbours);
        let parent = self.route.parent?;
        Some(self.hops.last().copied().flatten().map(|hop| (hop, parent)))
    }

    fn look_up(&mut self, neighbours: &Neighbours) {
        if self.seen != Some(neighbours.seen()) {
            self.seen = Some(neighbours.seen());
            self.hops.clear();
            let hops = self.route.ends().map(|end| neighbours.hop(end.ip()));
            self.hops.extend(hops);
        }
    }
}

impl Shard {
    /// A shard in a network, without jobs.
    pub fn new(aggregator: ShardAggregator, network: Network) -> Self {
        Self::with(aggregator, Neighbours::new(network), Instant::now())
    }

    /// Another one of the same host: its clock and its neighbours are the same.
    pub fn beside(&self, aggregator: ShardAggregator) -> Self {
        Self::with(aggregator, self.lock().neighbours.share(), self.clock)
    }

    fn with(aggregator: ShardAggregator, neighbours: Neighbours, clock: Instant) -> Self {
        Self {
            clock,
            state: Mutex::new(State {
                aggregator,
                neighbours,
                frames: FrameCounters::default(),
                routes: HashMap::new(),
                trial: None,
            }),
        }
    }

    /// What it has, while nobody else looks at it.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted here, of packets and of frames; `number` is the shard's.
    pub(crate) fn counters(&self, number: u16) -> ShardCounters {
        let state = self.lock();
        let mut counters = shard_counters(number, state.aggregator.counters());
        let frames = state.frames.iter();
        counters
            .values
            .extend(frames.map(|(counter, value)| (counter.name().to_owned(), value)));
        counters
    }

    /// The time that the aggregator is told.
    pub fn now(&self) -> Nanos {
        self.clock.elapsed().as_nanos() as Nanos
    }
}

impl State {
    /// Says where a job's packets go; who that is is asked for from now on.
    pub fn set_route(&mut self, key: u64, route: Route) {
        for end in route.ends() {
            self.neighbours.want(end.ip());
        }
        // Only then: who is in both stays known.
        self.remove_route(key);
        let routed = Routed {
            hops: Vec::with_capacity(route.members.len() + 1),
            route,
            seen: None,
        };
        self.routes.insert(key, routed);
    }

    /// A job's packets go nowhere any more.
    pub fn remove_route(&mut self, key: u64) {
        if let Some(routed) = self.routes.remove(&key) {
            for end in routed.route.ends() {
                self.neighbours.release(end.ip());
            }
        }
    }

    /// Where a job's packets go.
    pub fn route(&self, key: u64) -> Option<&Route> {
        self.routes.get(&key).map(|routed| &routed.route)
    }
}

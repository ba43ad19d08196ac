//! A simulated cluster: watched workers and a tree of aggregators in lock step with their models, over a network that
//! loses, duplicates, delays and damages, under a clock that jumps from event to event. A seed determines everything.

mod ends;
mod program;
mod quorum;
mod reform;
mod tree;
mod weather;

pub use ends::End;
pub use tree::Tree;
pub use weather::Weather;

use std::collections::BTreeMap;

use agg_core::worker::Boundary;

use crate::harness::random::Random;
use crate::harness::{Lockstep, Watch};
use crate::packet::ModelPacket;
use crate::{ModelJob, ModelQuorum, Source, To};
use program::Part;
use reform::Reforming;
use tree::{Plan, Who};
use weather::damage;

/// How long an operation may be without progress, in ns.
const TIMEOUT: u64 = 60_000_000_000;
/// The first epoch.
const EPOCH: u32 = 1;

/// A job and where it runs.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its aggregators and workers, until it re-forms.
    pub tree: Tree,
    /// Levels of the trees as which it does.
    pub levels: u32,
    /// Its number of slots.
    pub window: u16,
    /// Lanes of a chunk.
    pub lanes: usize,
    /// The number of its first chunk.
    pub first_chunk: u64,
    /// The policy and the generations of a slot; All without one.
    pub quorum: Option<(ModelQuorum, u16)>,
    /// A lone aggregator that restarts does so without a word: its workers learn it from refusals. Else, and always with
    /// several levels, the job re-forms.
    pub silent_restarts: bool,
    /// The network.
    pub weather: Weather,
    /// Of this all that happens follows.
    pub seed: u64,
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A packet comes to an aggregator from here.
    Up(usize, Source),
    /// A packet comes to a worker.
    Down(usize),
    /// A worker starts its next operation.
    Start(usize),
    /// A worker says how far it is, to take part in the job that re-forms.
    Register(usize),
    /// A worker takes its new place.
    Rejoin(usize, Option<Boundary>),
}

/// An aggregator and its model.
#[derive(Clone, Debug)]
struct Node {
    lockstep: Lockstep,
    job: ModelJob,
    members: Vec<Who>,
}

/// Workers, aggregators and packets under way.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The workers, by their ranks.
    pub workers: Vec<Watch>,
    site: Site,
    nodes: Vec<Node>,
    /// The aggregator and member number of each worker that is not lost.
    homes: BTreeMap<usize, (usize, u8)>,
    /// What each worker does.
    parts: Vec<Part>,
    /// What came of it, chunk by chunk: by slot and round, the result that everybody has.
    results: BTreeMap<(u16, u32), ModelPacket>,
    reforming: Option<Reforming>,
    /// The ranks that were lost, and the operation that each took along.
    losses: BTreeMap<usize, usize>,
    /// When a worker is to be lost.
    to_lose: Option<(u64, usize)>,
    /// What aggregators counted that are no more.
    counted: BTreeMap<&'static str, u64>,
    /// Added to the way of each packet from and to a worker, in ns.
    delays: BTreeMap<usize, u64>,
    random: Random,
    now: u64,
    order: u64,
    wire: BTreeMap<(u64, u64), (Event, Vec<u8>)>,
    restarts: u32,
    /// Operations that workers announced.
    announced: u64,
}

impl Cluster {
    /// A job of single workers at one aggregator.
    pub fn new(
        workers: usize,
        window: u16,
        lanes: usize,
        first_chunk: u64,
        weather: Weather,
        seed: u64,
    ) -> Self {
        Self::at(Site {
            tree: Tree::flat(0..workers),
            levels: 1,
            window,
            lanes,
            first_chunk,
            quorum: None,
            silent_restarts: true,
            weather,
            seed,
        })
    }

    /// A job, its workers idle.
    pub fn at(site: Site) -> Self {
        let ranks = site.tree.ranks().len();
        let mut cluster = Self {
            workers: Vec::new(),
            nodes: Vec::new(),
            homes: BTreeMap::new(),
            parts: vec![Part::default(); ranks],
            results: BTreeMap::new(),
            reforming: None,
            losses: BTreeMap::new(),
            to_lose: None,
            counted: BTreeMap::new(),
            delays: BTreeMap::new(),
            random: Random::new(site.seed),
            now: 1_000,
            order: 0,
            wire: BTreeMap::new(),
            restarts: 0,
            announced: 0,
            site,
        };
        cluster.build(EPOCH);
        for rank in 0..ranks {
            let place = cluster.place(rank);
            let job = &cluster.nodes[0].job;
            let watch = Watch::new(job, place, TIMEOUT, cluster.site.first_chunk);
            cluster.workers.push(watch);
        }
        cluster
    }

    /// Builds the site's tree, with empty memory and epochs from here on.
    fn build(&mut self, epochs: u32) {
        let site = &self.site;
        let mut root = ModelJob::new(0x5eed, Vec::new(), site.lanes, site.window);
        if let Some((quorum, generations)) = site.quorum {
            root.quorum = Some(quorum);
            root.generations = generations;
        }
        let plan = Plan::new(&site.tree, &root, epochs, &mut self.random);
        for node in self.nodes.drain(..) {
            for (counter, count) in node.lockstep.counts() {
                *self.counted.entry(counter).or_insert(0) += count;
            }
        }
        for (job, members) in plan.jobs.into_iter().zip(plan.members) {
            let lockstep = Lockstep::with_jobs(std::slice::from_ref(&job));
            self.nodes.push(Node {
                lockstep,
                job,
                members,
            });
        }
        self.homes = plan.homes;
    }

    /// How many operations workers announced (R-OP-7).
    pub fn announced(&self) -> u64 {
        self.announced
    }

    /// How often an aggregator was started anew.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// How often a counter was raised, at all aggregators.
    pub fn count(&self, counter: &str) -> u64 {
        let now = self.nodes.iter().map(|node| node.lockstep.count(counter));
        now.sum::<u64>() + self.counted.get(counter).copied().unwrap_or(0)
    }

    /// Packets from and to this worker take so much longer, in ns.
    pub fn slow_down(&mut self, rank: usize, ns: u64) {
        self.delays.insert(rank, ns);
    }

    /// At this time, in ns, this worker is lost for good; under a quorum it is removed.
    pub fn lose_at(&mut self, time: u64, rank: usize) {
        self.to_lose = Some((time, rank));
    }

    /// Until nobody has anything to do.
    fn advance(&mut self) {
        while self.drain() {
            let arrival = self.wire.first_key_value().map(|(key, _)| *key);
            let alive = self.homes.keys().map(|rank| &self.workers[*rank]);
            let timeout = alive.filter_map(Watch::next_timeout).min();
            match arrival {
                Some(key) if timeout.is_none_or(|timeout| key.0 <= timeout) => {
                    self.now = self.now.max(key.0);
                    let (event, bytes) = self.wire.remove(&key).expect("it is the first");
                    self.happen(event, &bytes);
                }
                _ => {
                    self.now = self.now.max(timeout.expect("someone waits"));
                    for rank in self.homes.keys() {
                        self.workers[*rank].handle_timeout(self.now);
                    }
                }
            }
        }
    }

    fn happen(&mut self, event: Event, bytes: &[u8]) {
        match event {
            Event::Up(node, source) => self.arrive(node, source, bytes),
            Event::Down(rank) => self.deliver(rank, bytes),
            Event::Start(rank) => self.start(rank),
            Event::Register(rank) => self.register(rank),
            Event::Rejoin(rank, boundary) => self.rejoin(rank, boundary),
        }
    }

    /// Sends all that workers have, and notes what has ended. Whether something goes on.
    fn drain(&mut self) -> bool {
        for (rank, (home, _)) in self.homes.clone() {
            while let Some(bytes) = self.workers[rank].transmit(self.now) {
                self.send(Who::Worker(rank), Who::Aggregator(home), &bytes);
            }
            self.note_end(rank);
        }
        self.reforming.is_some() || self.homes.keys().any(|rank| self.parts[*rank].goes_on())
    }

    fn deliver(&mut self, rank: usize, bytes: &[u8]) {
        if !self.homes.contains_key(&rank) || self.is_frozen(rank) {
            return;
        }
        if self.workers[rank].handle(self.now, bytes) {
            let result = ModelPacket::parse(bytes).expect("it was taken");
            self.note_result(result);
        }
        self.announce(rank);
    }

    fn arrive(&mut self, node: usize, source: Source, bytes: &[u8]) {
        let weather = self.site.weather;
        if self.restarts < weather.restarts && self.random.permille(weather.restart) {
            self.restarts += 1;
            self.restart();
        }
        if let Some((_, rank)) = self.to_lose.take_if(|(time, _)| self.now >= *time)
            && self.reforming.is_none()
        {
            match self.site.quorum {
                Some(_) => self.exclude(rank),
                None => self.lose(rank),
            }
        }
        if self.is_silent() {
            return;
        }
        let Some(at) = self.nodes.get_mut(node) else {
            return;
        };
        let Some(send) = at.lockstep.handle(bytes, source, self.now).send else {
            return;
        };
        let to: Vec<Who> = match send.to {
            To::Sender => {
                let parent = self.parent_of(node);
                let known = self.nodes[node].members.iter().copied().chain(parent);
                known.filter(|who| who.source() == source).collect()
            }
            To::Members(_) => self.nodes[node].members.clone(),
            To::Parent(_) => self.parent_of(node).into_iter().collect(),
        };
        for who in to {
            self.send(Who::Aggregator(node), who, &send.bytes);
        }
    }

    fn parent_of(&self, node: usize) -> Option<Who> {
        let of = |members: &[Who]| members.contains(&Who::Aggregator(node));
        let parent = self.nodes.iter().position(|node| of(&node.members));
        parent.map(Who::Aggregator)
    }

    /// Sends through the weather.
    fn send(&mut self, from: Who, to: Who, bytes: &[u8]) {
        let event = |source| match to {
            Who::Worker(rank) => Event::Down(rank),
            Who::Aggregator(node) => Event::Up(node, source),
        };
        let delays = [from, to].map(|who| match who {
            Who::Worker(rank) => self.delays.get(&rank).copied().unwrap_or(0),
            Who::Aggregator(_) => 0,
        });
        let (delay, weather) = (delays[0] + delays[1], self.site.weather);
        if !self.random.permille(weather.loss) {
            self.post(event(from.source()), bytes.to_vec(), delay, weather.jitter);
        }
        if self.random.permille(weather.duplicate) {
            self.post(event(from.source()), bytes.to_vec(), delay, weather.straggle);
        }
        if self.random.permille(weather.damage) {
            let (source, bytes) = damage(&mut self.random, from.source(), bytes);
            self.post(event(source), bytes, delay, weather.jitter);
        }
    }

    /// Something happens after 10 µs, the delay, and up to `jitter` more.
    fn post(&mut self, event: Event, bytes: Vec<u8>, delay: u64, jitter: u64) {
        self.order += 1;
        let at = self.now + 10_000 + delay + self.random.below(jitter.max(1));
        self.wire.insert((at, self.order), (event, bytes));
    }
}

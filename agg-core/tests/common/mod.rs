//! A simulated cluster: real workers and a real aggregator over a network that loses, duplicates and reorders,
//! under a clock that jumps from event to event. Everything is determined by a seed.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;

use agg_core::round::GENERATIONS;
use agg_core::slot::Head;
use agg_core::wire::Ecn;
use agg_core::worker::SlotState;
use agg_core::{
    Aggregator, Counter, Endpoint, Epoch, Failure, JobConfig, Lanes, Member, MemberSet, Operation, Policy,
    Round, StoreAction, Tensor, Verdict, Worker, WorkerConfig, pool,
};

pub const KEY: u64 = 0x5eed;
pub const LANES: usize = 16;
pub const TIMEOUT: u64 = 20_000_000_000;

/// xorshift64*: enough for schedules, and no dependency.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
    pub fn chance(&mut self, probability: f64) -> bool {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64 <= probability && probability > 0.0
    }
}

#[derive(Clone, Copy)]
pub struct Weather {
    pub loss: f64,
    pub duplicate: f64,
    /// Packets take 10 µs and up to this much more, in ns.
    pub jitter: u64,
}

impl Weather {
    pub const FAIR: Self = Self {
        loss: 0.0,
        duplicate: 0.0,
        jitter: 1,
    };
    pub const FOUL: Self = Self {
        loss: 0.1,
        duplicate: 0.1,
        jitter: 300_000,
    };
}

pub type TestWorker = Worker<Vec<SlotState>, Vec<i32>>;
pub type TestAggregator = Aggregator<Vec<Head>, Vec<i32>>;

#[derive(Clone)]
pub enum Values {
    I32(Vec<i32>),
    F32(Vec<f32>),
    Empty,
}

impl Values {
    pub fn tensor(&mut self) -> Tensor<'_> {
        match self {
            Self::I32(values) => Tensor::I32(values),
            Self::F32(values) => Tensor::F32(values),
            Self::Empty => Tensor::Empty,
        }
    }
    pub fn len(&self) -> u64 {
        match self {
            Self::I32(values) => values.len() as u64,
            Self::F32(values) => values.len() as u64,
            Self::Empty => 0,
        }
    }
}

#[derive(Clone, Copy)]
enum To {
    Aggregator,
    Worker(usize),
}

/// The one way to the aggregator: a switch that sends a packet each `gap`, and has a queue.
#[derive(Clone, Copy)]
pub struct Bottleneck {
    /// In ns.
    pub gap: u64,
    /// Packets that may wait; others are lost.
    pub room: u64,
    /// Those that find so many waiting are marked.
    pub marks_at: u64,
    /// When all that wait will have been sent.
    free_at: u64,
    pub lost: u64,
}

impl Bottleneck {
    pub fn new(gap: u64, room: u64, marks_at: u64) -> Self {
        Self {
            gap,
            room,
            marks_at,
            free_at: 0,
            lost: 0,
        }
    }

    /// When a packet that comes now has passed, and whether it is marked; `None` if it is lost.
    fn pass(&mut self, now: u64) -> Option<(u64, Ecn)> {
        self.free_at = self.free_at.max(now);
        let waiting = (self.free_at - now) / self.gap;
        if waiting > self.room {
            self.lost += 1;
            return None;
        }
        self.free_at += self.gap;
        Some((self.free_at, Ecn::marked(waiting >= self.marks_at)))
    }
}

/// What a store says of a place: that it has the sum, or its values.
type Said = (u32, Round, MemberSet, Option<Vec<i32>>);

/// A store for sums that wait: what it was given, by place, and what it will say, by time.
#[derive(Default)]
pub struct Store {
    kept: BTreeMap<u32, (Round, MemberSet, Vec<i32>)>,
    says: BTreeMap<(u64, u64), Said>,
    pub put: u64,
    pub got: u64,
}

/// A packet under way: from which worker, or for none, to whom, and whether it was marked.
type Sent = (usize, To, Ecn, Vec<u8>);

pub struct Cluster {
    pub store: Store,
    /// What this worker sends takes so much longer, in ns.
    pub slow: Option<(usize, u64)>,
    pub bottleneck: Option<Bottleneck>,
    pub workers: Vec<TestWorker>,
    pub aggregator: TestAggregator,
    pub alive: bool,
    pub now: u64,
    pub window: u16,
    weather: Weather,
    random: Random,
    /// Packets under way, by the time of their arrival.
    wire: BTreeMap<(u64, u64), Sent>,
    order: u64,
    pub packets: u64,
}

pub fn endpoint(member: usize) -> Endpoint {
    Endpoint {
        ip: [0; 16],
        port: member as u16 + 1,
    }
}

pub fn aggregator(members: usize, window: u16, epoch: u32) -> TestAggregator {
    aggregator_with_frames(members, window, epoch, None)
}

pub fn aggregator_with_frames(
    members: usize,
    window: u16,
    epoch: u32,
    frames: Option<u32>,
) -> TestAggregator {
    let slots = usize::from(window) * 2;
    let mut aggregator = Aggregator::new(vec![Head::VACANT; slots], vec![0; slots * LANES]);
    let members = (0..members)
        .map(|member| Member {
            source: endpoint(member),
            set: MemberSet::single(member as u8),
            workers: 1,
        })
        .collect();
    aggregator
        .admit(&JobConfig {
            key: KEY,
            epoch: Epoch(epoch),
            members,
            lanes: Lanes::L16,
            window,
            generations: GENERATIONS,
            policy: Policy::All,
            parent: None,
            frames,
        })
        .unwrap();
    aggregator
}

impl Cluster {
    pub fn new(members: usize, window: u16, first_chunk: u64, weather: Weather, seed: u64) -> Self {
        let config = |member: usize| WorkerConfig {
            key: KEY,
            epoch: Epoch(1),
            member: member as u8,
            members: members as u8,
            workers: members as u32,
            lanes: Lanes::L16,
            window,
            policy: Policy::All,
            timeout: TIMEOUT,
            first_chunk,
        };
        let states = || vec![SlotState::default(); usize::from(window)];
        let kept = || vec![0; usize::from(window) * LANES];
        Self {
            store: Store::default(),
            slow: None,
            bottleneck: None,
            workers: (0..members)
                .map(|m| Worker::new(config(m), states(), kept()).unwrap())
                .collect(),
            aggregator: aggregator(members, window, 1),
            alive: true,
            now: 1_000,
            window,
            weather,
            random: Random::new(seed),
            wire: BTreeMap::new(),
            order: 0,
            packets: 0,
        }
    }

    /// Replaces the aggregator by an empty one of the next epoch.
    pub fn restart_aggregator(&mut self) {
        let epoch = self.aggregator.epoch(KEY).unwrap().0 + 1;
        self.aggregator = aggregator(self.workers.len(), self.window, epoch);
    }

    fn send(&mut self, from: usize, to: To, bytes: &[u8]) {
        self.packets += 1;
        let copies = if self.random.chance(self.weather.duplicate) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            if self.random.chance(self.weather.loss) {
                continue;
            }
            let slow = self
                .slow
                .filter(|(worker, _)| *worker == from && matches!(to, To::Aggregator));
            let slower = slow.map_or(0, |(_, slower)| slower);
            let way = match (&mut self.bottleneck, to) {
                (Some(bottleneck), To::Aggregator) => bottleneck.pass(self.now),
                _ => Some((self.now, Ecn::Clear)),
            };
            let Some((passed, ecn)) = way else { continue };
            let arrival = passed + 10_000 + slower + self.random.below(self.weather.jitter);
            self.order += 1;
            self.wire
                .insert((arrival, self.order), (from, to, ecn, bytes.to_vec()));
        }
    }

    fn drain(&mut self, worker: usize, values: &mut Values) {
        let mut out = [0; 56 + 4 * LANES];
        while let Some(len) = self.workers[worker].transmit(self.now, &values.tensor(), &mut out) {
            self.send(worker, To::Aggregator, &out[..len]);
        }
    }

    /// Runs one operation to its end on the workers that have values; the others stay silent. `interfere` is called
    /// before each event.
    pub fn run(
        &mut self,
        operation: Operation,
        values: &mut [Option<Values>],
        interfere: impl FnMut(&mut Self),
    ) -> Result<(), Vec<(usize, Failure)>> {
        for (worker, values) in values.iter_mut().enumerate() {
            if let Some(values) = values {
                let elements = if matches!(values, Values::Empty) {
                    operation.elements
                } else {
                    values.len()
                };
                self.workers[worker].start(operation, elements, self.now).unwrap();
            }
        }
        self.resume(values, interfere)
    }

    /// Runs what the workers have started to its end.
    pub fn resume(
        &mut self,
        values: &mut [Option<Values>],
        mut interfere: impl FnMut(&mut Self),
    ) -> Result<(), Vec<(usize, Failure)>> {
        loop {
            for (worker, values) in values.iter_mut().enumerate() {
                self.drain(worker, values.as_mut().unwrap_or(&mut Values::Empty));
            }
            interfere(self);
            let busy = |worker: &TestWorker| worker.is_busy();
            let waiting = |(worker, values): (&TestWorker, &Option<Values>)| values.is_some() && busy(worker);
            if !self.workers.iter().zip(values.iter()).any(waiting) {
                break;
            }
            let arrival = self.wire.first_key_value().map(|(key, _)| *key);
            let timeout = self
                .workers
                .iter()
                .filter_map(Worker::next_timeout)
                .min()
                .expect("someone waits");
            let said = self.store.says.first_key_value().map(|(key, _)| *key);
            let before = |key: Option<(u64, u64)>| key.map_or(u64::MAX, |key| key.0);
            match arrival {
                _ if said.is_some_and(|said| said.0 <= timeout.min(before(arrival))) => {
                    self.now = self.now.max(before(said));
                    self.hear_store(&said.unwrap());
                }
                Some(key) if key.0 <= timeout => {
                    self.now = self.now.max(key.0);
                    let (from, to, ecn, bytes) = self.wire.remove(&key).unwrap();
                    self.deliver(from, to, ecn, &bytes, values);
                }
                _ => {
                    self.now = self.now.max(timeout);
                    for worker in 0..self.workers.len() {
                        self.workers[worker].handle_timeout(self.now);
                    }
                }
            }
        }
        let failures: Vec<_> = self
            .workers
            .iter()
            .enumerate()
            .filter_map(|(i, w)| Some((i, w.failure()?)))
            .collect();
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures)
        }
    }

    fn deliver(&mut self, from: usize, to: To, ecn: Ecn, bytes: &[u8], values: &mut [Option<Values>]) {
        match to {
            To::Worker(worker) => {
                let mut empty = Values::Empty;
                let values = values[worker].as_mut().unwrap_or(&mut empty);
                self.workers[worker].handle_ecn(self.now, bytes, ecn, &mut values.tensor());
            }
            To::Aggregator if self.alive => {
                let mut out = [0; 56 + 4 * LANES];
                let verdict = self
                    .aggregator
                    .handle_ecn(bytes, ecn, &endpoint(from), self.now, &mut out);
                self.act(verdict, from, &out);
                self.ask_store();
            }
            To::Aggregator => {}
        }
    }

    fn act(&mut self, verdict: Verdict, from: usize, out: &[u8]) {
        match verdict {
            Verdict::Quiet => {}
            Verdict::Forward { .. } => panic!("a root has no parent"),
            Verdict::Reply { len } => self.send(from, To::Worker(from), &out[..len]),
            Verdict::Broadcast { len, .. } => {
                for worker in 0..self.workers.len() {
                    self.send(from, To::Worker(worker), &out[..len]);
                }
            }
        }
    }

    /// Passes requests on to the store; it loses some, as the network loses packets.
    fn ask_store(&mut self) {
        while let Some(request) = self.aggregator.store_request() {
            let (place, round, set) = (request.place, request.round, request.set);
            let answer = match request.action {
                StoreAction::Put(values) => {
                    self.store.kept.insert(place, (round, set, values.to_vec()));
                    self.store.put += 1;
                    None
                }
                StoreAction::Get => match self.store.kept.get(&place) {
                    Some((kept_round, kept_set, values)) if (*kept_round, *kept_set) == (round, set) => {
                        self.store.got += 1;
                        Some(values.clone())
                    }
                    _ => continue,
                },
            };
            if !self.random.chance(self.weather.loss) {
                let at = self.now + 5_000 + self.random.below(self.weather.jitter);
                self.order += 1;
                self.store
                    .says
                    .insert((at, self.order), (place, round, set, answer));
            }
        }
    }

    fn hear_store(&mut self, key: &(u64, u64)) {
        let (place, round, set, values) = self.store.says.remove(key).unwrap();
        match values {
            None => self.aggregator.stored(KEY, place, round, set),
            Some(values) => {
                let mut out = [0; 56 + 4 * LANES];
                let verdict = self
                    .aggregator
                    .recalled(KEY, place, round, set, &values, self.now, &mut out);
                self.act(verdict, 0, &out);
            }
        }
        self.ask_store();
    }

    /// The store dies with all it holds, and is there again, empty.
    pub fn lose_store(&mut self) {
        self.store.kept.clear();
        self.store.says.clear();
        self.aggregator.store_lost(KEY);
    }

    pub fn count(&self, counter: Counter) -> u64 {
        self.aggregator.counters().get(counter)
    }
}

/// Deterministic test values.
pub fn numbers(worker: usize, elements: usize, salt: u64) -> Vec<i32> {
    let mut random = Random::new(worker as u64 * 1_000_003 + salt + 1);
    (0..elements).map(|_| random.next() as i32).collect()
}

pub fn floats(worker: usize, elements: usize, salt: u64) -> Vec<f32> {
    numbers(worker, elements, salt)
        .into_iter()
        .map(|number| number as f32 / (1 << 20) as f32)
        .collect()
}

#[allow(unused_imports)]
pub use pool::slot_memory;

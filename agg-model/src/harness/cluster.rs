//! A simulated cluster: watched workers and an aggregator in lock step with its model, over a network that loses,
//! duplicates, delays and damages, under a clock that jumps from event to event. A seed determines everything.

use std::collections::BTreeMap;

use agg_core::Failure;

use crate::harness::random::Random;
use crate::harness::{Lockstep, Values, Watch};
use crate::packet::HEADER;
use crate::{ModelJob, ModelMember, Source, To};

/// How long an operation may be without progress, in ns.
const TIMEOUT: u64 = 60_000_000_000;

/// What the network does. Chances are in a thousand.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named by what happens")]
pub struct Weather {
    pub loss: u64,
    pub duplicate: u64,
    pub damage: u64,
    /// Packets take 10 µs and up to this much more, in ns.
    pub jitter: u64,
    /// A copy may come up to this much later still, in ns: long after its operation.
    pub straggle: u64,
    /// The aggregator starts anew, with empty memory, before so many of a thousand packets that reach it.
    pub restart: u64,
    /// How often it does so at most.
    pub restarts: u32,
}

impl Weather {
    /// Nothing happens.
    pub const FAIR: Self = Self {
        loss: 0,
        duplicate: 0,
        damage: 0,
        jitter: 1,
        straggle: 1,
        restart: 0,
        restarts: 0,
    };
    /// Everything but restarts.
    pub const FOUL: Self = Self {
        loss: 100,
        duplicate: 100,
        damage: 50,
        jitter: 300_000,
        straggle: 50_000_000,
        restart: 0,
        restarts: 0,
    };
}

#[derive(Clone, Copy, Debug)]
enum Arrives {
    /// At the aggregator, from here.
    Up(Source),
    /// At a worker.
    Down(usize),
    /// A worker starts its part of the operation.
    Start(usize),
}

/// Workers, an aggregator and packets under way.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The workers.
    pub workers: Vec<Watch>,
    /// The aggregator and its model.
    pub aggregator: Lockstep,
    job: ModelJob,
    weather: Weather,
    random: Random,
    now: u64,
    order: u64,
    wire: BTreeMap<(u64, u64), (Arrives, Vec<u8>)>,
    restarts: u32,
}

impl Cluster {
    /// A job of single workers.
    pub fn new(
        workers: usize,
        window: u16,
        lanes: usize,
        first_chunk: u64,
        weather: Weather,
        seed: u64,
    ) -> Self {
        let member = |number: usize| ModelMember {
            source: ([0; 16], 1 + number as u16),
            set: [number as u8].into(),
            workers: 1,
        };
        let members = (0..workers).map(member).collect();
        let job = ModelJob::new(0x5eed, members, lanes, window);
        let watch = |number: usize| Watch::new(&job, number as u8, 1, TIMEOUT, first_chunk);
        Self {
            workers: (0..workers).map(watch).collect(),
            aggregator: Lockstep::with_jobs(std::slice::from_ref(&job)),
            job,
            weather,
            random: Random::new(seed),
            now: 1_000,
            order: 0,
            wire: BTreeMap::new(),
            restarts: 0,
        }
    }

    /// How often the aggregator was started anew.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Runs one operation to its end and checks that every worker has the model's sum.
    pub fn all_reduce(&mut self, inputs: Vec<Values>) {
        let sum = Values::sum(&inputs, self.job.lanes);
        if let Err(failures) = self.run(inputs) {
            panic!("workers failed: {failures:?}");
        }
        for (number, worker) in self.workers.iter().enumerate() {
            assert_eq!(
                worker.values().bits(),
                sum.bits(),
                "worker {number}; left: core, right: model"
            );
        }
    }

    /// Runs one operation to its end, on inputs that may disagree.
    pub fn run(&mut self, inputs: Vec<Values>) -> Result<(), Vec<(usize, Failure)>> {
        let mut starting = inputs.len();
        for worker in 0..inputs.len() {
            self.post(Arrives::Start(worker), Vec::new(), 1 + self.weather.jitter);
        }
        let mut inputs: Vec<_> = inputs.into_iter().map(Some).collect();
        loop {
            self.drain();
            if starting == 0 && !self.workers.iter().any(Watch::is_busy) {
                break;
            }
            let arrival = self.wire.first_key_value().map(|(key, _)| *key);
            let timeout = self.workers.iter().filter_map(Watch::next_timeout).min();
            match arrival {
                Some(key) if timeout.is_none_or(|timeout| key.0 <= timeout) => {
                    self.now = self.now.max(key.0);
                    let (arrives, bytes) = self.wire.remove(&key).expect("it is the first");
                    match arrives {
                        Arrives::Start(worker) => {
                            let input = inputs[worker].take().expect("started once");
                            self.workers[worker].start(input, self.now);
                            starting -= 1;
                        }
                        Arrives::Down(worker) => _ = self.workers[worker].handle(self.now, &bytes),
                        Arrives::Up(source) => self.arrive(source, &bytes),
                    }
                }
                _ => {
                    self.now = self.now.max(timeout.expect("someone waits"));
                    let now = self.now;
                    self.workers
                        .iter_mut()
                        .for_each(|worker| worker.handle_timeout(now));
                }
            }
        }
        let failures: Vec<_> = self
            .workers
            .iter()
            .enumerate()
            .filter_map(|(number, w)| Some((number, w.failure()?)))
            .collect();
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures)
        }
    }

    fn drain(&mut self) {
        for worker in 0..self.workers.len() {
            while let Some(bytes) = self.workers[worker].transmit(self.now) {
                self.send(Arrives::Up(self.job.members[worker].source), &bytes);
            }
        }
    }

    fn arrive(&mut self, source: Source, bytes: &[u8]) {
        if self.restarts < self.weather.restarts && self.random.permille(self.weather.restart) {
            self.restarts += 1;
            self.aggregator.restart();
            self.job.epoch = 1 + self.restarts;
            assert!(self.aggregator.admit(&self.job), "it fitted before");
        }
        let Some(send) = self.aggregator.handle(bytes, source, self.now).send else {
            return;
        };
        let is_worker = |number: &usize| self.job.members[*number].source == source;
        let to: Vec<_> = match send.to {
            To::Sender => (0..self.workers.len()).filter(is_worker).collect(),
            To::Members(_) => (0..self.workers.len()).collect(),
            To::Parent(_) => panic!("a root has no parent"),
        };
        for worker in to {
            self.send(Arrives::Down(worker), &send.bytes);
        }
    }

    /// Sends through the weather.
    fn send(&mut self, arrives: Arrives, bytes: &[u8]) {
        if !self.random.permille(self.weather.loss) {
            self.post(arrives, bytes.to_vec(), self.weather.jitter);
        }
        if self.random.permille(self.weather.duplicate) {
            self.post(arrives, bytes.to_vec(), self.weather.straggle);
        }
        if self.random.permille(self.weather.damage) {
            let (arrives, bytes) = self.damage(arrives, bytes);
            self.post(arrives, bytes, self.weather.jitter);
        }
    }

    fn post(&mut self, arrives: Arrives, bytes: Vec<u8>, jitter: u64) {
        self.order += 1;
        let at = self.now + 10_000 + self.random.below(jitter);
        self.wire.insert((at, self.order), (arrives, bytes));
    }

    /// What comes besides the packet: a copy with bits flipped in its header, shorter, longer or from a stranger.
    /// Values are not damaged: UDP's checksum sees to those (R-WIRE-3).
    fn damage(&mut self, arrives: Arrives, bytes: &[u8]) -> (Arrives, Vec<u8>) {
        let mut bytes = bytes.to_vec();
        match (self.random.below(4), arrives) {
            (0, _) => bytes.truncate(self.random.below(bytes.len() as u64) as usize),
            (1, _) => bytes.push(0),
            (2, Arrives::Up((ip, port))) => return (Arrives::Up((ip, port + 1000)), bytes),
            _ => {
                for _ in 0..=self.random.below(3) {
                    bytes[self.random.below(HEADER as u64) as usize] ^= 1 << self.random.below(8);
                }
            }
        }
        (arrives, bytes)
    }
}

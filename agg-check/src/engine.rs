//! The real aggregators, and the times at which packets arrive there.

use std::sync::Mutex;

use agg_core::slot::Head;
use agg_core::spill::Frames;
use agg_core::{
    Aggregator, Counter, Job, JobConfig, Lanes, Member as JobMember, MemberSet, Parent, Policy, StoreAction,
    Verdict,
};

use crate::member::KEY;
use crate::mutation::{Mutation, SpillMutation};
use crate::network::{Chunk, Packet};
use crate::node::NodeEvent;
use crate::scenario::Scenario;
use crate::topology::Party;
use crate::values::LANES;

/// When a packet arrives: what decides whether its slot is silent (R-SLOT-4, R-LEAF-2) and, under a quorum, whether the
/// grace is over (R-QUORUM-1). Heads are kept as if all their times were 0, so that every combination can be had at
/// any arrival.
#[derive(Clone, Copy, Debug)]
pub struct Instant {
    now: u64,
    grace: u64,
}

/// The slot is silent and young; neither; silent; young. Where the grace is 0, no slot is young.
pub const INSTANTS: [Instant; 4] = [
    Instant { now: 0, grace: 10 },
    Instant {
        now: 1 << 41,
        grace: 10,
    },
    Instant { now: 100, grace: 10 },
    Instant {
        now: 1 << 30,
        grace: 1 << 40,
    },
];

/// That at which nothing that waits for time to pass has waited.
pub const SOON: usize = 0;

/// That at which whatever waits for time to pass has waited: a fair schedule is slow.
pub const LATE: usize = 1;

/// How many of them make a difference.
pub fn instants(policy: Policy) -> usize {
    match policy {
        Policy::Quorum { grace, .. } if grace > 0 => INSTANTS.len(),
        _ => 2,
    }
}

/// The slots of a job at a moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Memory {
    /// Generation by generation.
    pub heads: Vec<Head>,
    /// Their values; in a job with a store, its frames.
    pub values: Vec<i32>,
    /// What is known of the frames.
    pub frames: Option<Frames>,
}

impl Memory {
    /// Leaves out what changes nothing that will happen: times, and what free frames hold besides the number of the next.
    fn reduce(&mut self) {
        for head in &mut self.heads {
            *head = head.without_time();
        }
        let Some(frames) = &mut self.frames else { return };
        *frames = frames.without_time();
        let last = self.values.len() / LANES - 1;
        for (number, frame) in self.values.chunks_exact_mut(LANES).enumerate() {
            if self.heads.iter().all(|head| head.frame() as usize != number) {
                // The last is the one that results pass through.
                frame[usize::from(number < last)..].fill(0);
            }
        }
    }
}

type Slots = Aggregator<Vec<Head>, Vec<i32>>;

/// What an event did.
#[derive(Debug)]
pub struct Done {
    /// What is sent.
    pub verdict: Verdict,
    /// What the store is given.
    pub put: Vec<Packet>,
    /// What it is asked for.
    pub asked: Vec<Chunk>,
    /// What was counted.
    pub counters: Vec<Counter>,
}

impl Done {
    /// This is sent, and nothing else happens.
    pub fn quiet(verdict: Verdict) -> Self {
        Self {
            verdict,
            put: Vec::new(),
            asked: Vec::new(),
            counters: Vec::new(),
        }
    }
}

/// The one real aggregator of a place, with the job in. An aggregator has room for many jobs and is large, so that
/// states of the model hold its job and slot memory only, which are lent to it for each packet.
#[derive(Debug)]
pub struct Engine {
    aggregator: Mutex<Slots>,
    number: usize,
    broken: Option<SpillMutation>,
    /// The job and its slots before anything.
    pub(crate) job: Job,
    pub(crate) empty: Memory,
    pub(crate) parent: Option<Party>,
}

impl Engine {
    /// An aggregator with the scenario's job in the place `number` of a topology.
    pub fn new(topology: usize, number: usize, scenario: &Scenario) -> Self {
        let topology = &scenario.topologies[topology];
        let place = topology.place(number);
        let generations = usize::from(scenario.generations) * usize::from(scenario.window);
        let mut aggregator = Aggregator::new(vec![Head::VACANT; generations], vec![0; generations * LANES]);
        let members = (0..).zip(&place.members).map(|(number, member)| JobMember {
            source: member.endpoint(),
            set: MemberSet::single(number),
            workers: topology.workers(*member) as u32,
        });
        let parent = place.parent.map(|parent| Parent {
            source: Party::Node(parent).endpoint(),
            member: topology
                .number(parent, Party::Node(number))
                .expect("a parent knows its leaves"),
            epoch: topology.place(parent).epoch,
        });
        let job = JobConfig {
            key: KEY,
            epoch: place.epoch,
            members: members.collect(),
            lanes: Lanes::L16,
            window: scenario.window,
            generations: scenario.generations,
            policy: scenario.policy,
            parent,
            frames: scenario.frames,
        };
        aggregator.admit(&job).expect("the slots fit the job");
        let lanes = scenario.frames.map_or(generations, |frames| frames as usize) * LANES;
        let mut empty = Memory {
            heads: aggregator.memory().0.to_vec(),
            values: aggregator.memory().1[..lanes].to_vec(),
            frames: aggregator.spill(KEY).cloned(),
        };
        empty.reduce();
        Self {
            number,
            broken: scenario.mutation.and_then(Mutation::spill),
            job: *aggregator.job(KEY).expect("it was admitted"),
            empty,
            aggregator: Mutex::new(aggregator),
            parent: place.parent.map(Party::Node),
        }
    }

    /// What an event does to the job and memory of a state. The host does all that is asked of the store at once: it passes
    /// it on.
    pub fn handle(
        &self,
        job: &mut Job,
        memory: &mut Memory,
        event: NodeEvent<&Packet>,
        out: &mut [u8],
    ) -> Done {
        let mut aggregator = self.aggregator.lock().expect("no panic under the lock");
        let before = aggregator.counters().clone();
        let instant = INSTANTS[event.instant()];
        lend(&mut aggregator, job, memory, instant);
        let heard = match self.broken {
            Some(broken) => broken.hears(event),
            None => Some(event),
        };
        let verdict = heard.map_or(Verdict::Quiet, |event| {
            act(&mut aggregator, event, instant, self.broken, out)
        });
        let (put, asked) = self.requests(&mut aggregator);
        *job = Job {
            policy: job.policy,
            ..*aggregator.job(KEY).expect("it was admitted")
        };
        let lent = aggregator.memory();
        memory.heads.clone_from_slice(lent.0);
        let lanes = memory.values.len();
        memory.values.copy_from_slice(&lent.1[..lanes]);
        memory.frames = aggregator.spill(KEY).cloned();
        memory.reduce();
        let counted = aggregator.counters().iter();
        let counted = counted.filter(|(counter, count)| *count != before.get(*counter));
        let counters: Vec<_> = counted.map(|(counter, _)| counter).collect();
        let says = |broken: SpillMutation| broken.says(verdict, &counters);
        Done {
            verdict: self.broken.map_or(verdict, says),
            put,
            asked,
            counters,
        }
    }

    fn requests(&self, aggregator: &mut Slots) -> (Vec<Packet>, Vec<Chunk>) {
        let (mut put, mut asked) = (Vec::new(), Vec::new());
        while let Some(request) = aggregator.store_request() {
            let slot = (request.place / u32::from(self.job.generations)) as u16;
            match request.action {
                StoreAction::Put(values) => {
                    put.push(Packet::kept(
                        self.number,
                        slot,
                        request.round,
                        request.set,
                        values,
                    ));
                }
                StoreAction::Get => asked.push((slot, request.round, Some(request.set))),
            }
        }
        (put, asked)
    }
}

fn lend(aggregator: &mut Slots, job: &Job, memory: &Memory, instant: Instant) {
    let lent = aggregator.memory_mut();
    lent.0.clone_from_slice(&memory.heads);
    lent.1[..memory.values.len()].copy_from_slice(&memory.values);
    if let (Some(lent), Some(frames)) = (aggregator.spill_mut(KEY), &memory.frames) {
        lent.clone_from(frames);
    }
    *aggregator.job_mut(KEY).expect("it was admitted") = Job {
        policy: graced(job.policy, instant),
        ..*job
    };
}

fn act(
    aggregator: &mut Slots,
    event: NodeEvent<&Packet>,
    instant: Instant,
    broken: Option<SpillMutation>,
    out: &mut [u8],
) -> Verdict {
    let generations = aggregator.job(KEY).expect("it was admitted").generations;
    let sum = |packet: &Packet| {
        let header = packet.header();
        let place = usize::from(header.slot * generations) + header.round.generation(generations);
        let head = &aggregator.memory().0[place];
        let set = broken.map_or(header.set, |broken| broken.set(packet, event, head));
        (place as u32, header.round, set)
    };
    match event {
        NodeEvent::Take(packet, _) => {
            return aggregator.handle(&packet.bytes, &packet.from.endpoint(), instant.now, out);
        }
        NodeEvent::Recalled(packet, _) => {
            let (place, round, set) = sum(packet);
            let values = packet.values();
            let values = match broken {
                Some(broken) => broken.values(values),
                None => values,
            };
            return aggregator.recalled(KEY, place, round, set, &values, instant.now, out);
        }
        NodeEvent::Stored(packet) => {
            let (place, round, set) = sum(packet);
            aggregator.stored(KEY, place, round, set);
        }
        NodeEvent::StoreLost => aggregator.store_lost(KEY),
        NodeEvent::Suspend => aggregator.suspend(KEY),
        NodeEvent::Exclude(member) => aggregator.exclude(KEY, member),
    }
    Verdict::Quiet
}

/// The policy with the grace of an instant, unless it is 0.
fn graced(policy: Policy, instant: Instant) -> Policy {
    match policy {
        Policy::Quorum { members, grace } if grace > 0 => Policy::Quorum {
            members,
            grace: instant.grace,
        },
        _ => policy,
    }
}

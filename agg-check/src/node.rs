//! An aggregator: the real one, or one whose slots break a rule on purpose.

use std::hash::{Hash, Hasher};
use std::sync::Mutex;

use agg_core::slot::Head;
use agg_core::wire::{Header, packet_len};
use agg_core::{
    Aggregator, Counter, Job, JobConfig, Lanes, Member as JobMember, MemberSet, Parent, Policy, Round,
    Verdict,
};

use crate::member::KEY;
use crate::mutation::Generation;
use crate::network::Packet;
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

/// That at which whatever waits for time to pass has waited: a fair schedule is slow.
pub const LATE: usize = 1;

/// How many of them make a difference.
pub fn instants(policy: Policy) -> usize {
    match policy {
        Policy::Quorum { grace, .. } if grace > 0 => INSTANTS.len(),
        _ => 2,
    }
}

/// What happens to an aggregator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeEvent<P> {
    /// A packet arrives, at one of the [`INSTANTS`].
    Take(P, usize),
    /// Its job is suspended (R-REFORM-1).
    Suspend,
    /// The member with this number is removed (R-QUORUM-5).
    Exclude(u8),
}

/// The state of an aggregator: its place, its job and its slots.
#[derive(Clone, Debug)]
pub struct Node {
    topology: usize,
    number: usize,
    /// How many workers its members stand for.
    workers: u32,
    job: Job,
    slots: Slots,
}

#[derive(Clone, Debug)]
enum Slots {
    Real { heads: Vec<Head>, values: Vec<i32> },
    Mutant(Vec<Generation>),
}

/// What a generation of a slot holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Its round.
    pub round: Round,
    /// Its operation.
    pub op_seq: u32,
    /// The members whose values it holds.
    pub set: MemberSet,
    /// Those that need it no more (R-QUORUM-2).
    pub past: MemberSet,
    /// Nothing is waited for.
    pub complete: bool,
}

/// What an aggregator did.
#[derive(Debug, Default)]
pub struct Handled {
    /// What it sends.
    pub sent: Vec<Packet>,
    /// What it counted.
    pub counter: Option<Counter>,
}

impl Node {
    /// An empty aggregator, `number` of a topology.
    pub fn new(topology: usize, number: usize, scenario: &Scenario, engine: &Engine) -> Self {
        let generations = usize::from(scenario.generations) * usize::from(scenario.window);
        let mutant = scenario
            .mutation
            .is_some_and(|mutation| mutation.aggregator().is_some());
        let slots = match mutant {
            true => Slots::Mutant(vec![Generation::default(); generations]),
            false => Slots::Real {
                heads: vec![Head::VACANT; generations],
                values: vec![0; generations * LANES],
            },
        };
        Self {
            topology,
            number,
            workers: scenario.topologies[topology].workers(Party::Node(number)) as u32,
            job: engine.job,
            slots,
        }
    }

    /// Which topology it belongs to.
    pub fn topology(&self) -> usize {
        self.topology
    }

    /// Its number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// What it knows of the job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// What the generations of a slot hold that were used.
    pub fn used(&self, slot: u16) -> impl Iterator<Item = Held> {
        let generations = self.job.generations;
        (0..generations).filter_map(move |generation| self.held_in(slot, usize::from(generation)))
    }

    /// What is held for the slot and round of a packet, if the generation was ever used.
    pub fn held(&self, packet: &Header) -> Option<Held> {
        self.held_in(packet.slot, packet.round.generation(self.job.generations))
    }

    fn held_in(&self, slot: u16, generation: usize) -> Option<Held> {
        let index = usize::from(slot) * usize::from(self.job.generations) + generation;
        let heads = match &self.slots {
            Slots::Real { heads, .. } => heads,
            Slots::Mutant(generations) => return generations[index].held(),
        };
        let head = Some(&heads[index]).filter(|head| **head != Head::VACANT)?;
        let header = head.result(KEY, self.job.epoch, slot);
        // A leaf's generation that is full stands for the workers below it, a complete one for those of the whole job.
        let full = self.job.parent.is_some() && header.workers == self.workers;
        Some(Held {
            round: header.round,
            op_seq: header.op_seq,
            set: header.set,
            past: head.held_back(&header, self.job.epoch).set,
            complete: head.waiting().is_none() && !full,
        })
    }

    /// The aggregator after an event, and what it did.
    pub fn after(&self, event: NodeEvent<&Packet>, scenario: &Scenario, engine: &Engine) -> (Self, Handled) {
        let mut next = self.clone();
        let (packet, instant) = match event {
            NodeEvent::Take(packet, instant) => (packet, INSTANTS[instant]),
            NodeEvent::Suspend | NodeEvent::Exclude(_) => {
                next.job = engine.after(&self.job, event);
                return (next, Handled::default());
            }
        };
        let mut out = [0; packet_len(LANES)];
        let (verdict, counter) = match &mut next.slots {
            Slots::Real { heads, values } => {
                engine.handle(&mut next.job, (heads, values), packet, instant, &mut out)
            }
            Slots::Mutant(generations) => {
                let broken = scenario.mutation.and_then(|mutation| mutation.aggregator());
                let broken = broken.expect("mutant slots belong to a mutation");
                let member = scenario.topologies[self.topology].number(self.number, packet.from);
                let from_parent = engine.parent == Some(packet.from);
                let verdict = broken.handle(generations, &self.job, packet, (member, from_parent), &mut out);
                (verdict, None)
            }
        };
        let members = &scenario.topologies[self.topology].place(self.number).members;
        let (receivers, len) = match verdict {
            Verdict::Quiet => (Vec::new(), 0),
            Verdict::Reply { len } => (vec![packet.from], len),
            Verdict::Broadcast { len, .. } => (members.clone(), len),
            Verdict::Forward { len, .. } => (engine.parent.into_iter().collect(), len),
        };
        let send = |to| Packet {
            from: Party::Node(self.number),
            to,
            bytes: out[..len].to_vec(),
        };
        let sent = receivers.into_iter().map(send).collect();
        (next, Handled { sent, counter })
    }

    fn fields(&self) -> impl Eq + Hash + '_ {
        let (real, mutant) = match &self.slots {
            Slots::Real { heads, values } => (Some((heads, values)), None),
            Slots::Mutant(generations) => (None, Some(generations)),
        };
        (self.topology, self.number, self.job, real, mutant)
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.fields() == other.fields()
    }
}

impl Eq for Node {}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fields().hash(state);
    }
}

/// The one real aggregator of a place, with the job in. An aggregator has room for many jobs and is large, so that
/// states of the model hold its job and slot memory only, which are lent to it for each packet.
#[derive(Debug)]
pub struct Engine {
    aggregator: Mutex<Aggregator<Vec<Head>, Vec<i32>>>,
    /// The job before anything.
    job: Job,
    parent: Option<Party>,
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
            frames: None,
        };
        aggregator.admit(&job).expect("the slots fit the job");
        Self {
            job: *aggregator.job(KEY).expect("it was admitted"),
            aggregator: Mutex::new(aggregator),
            parent: place.parent.map(Party::Node),
        }
    }

    fn after(&self, job: &Job, event: NodeEvent<&Packet>) -> Job {
        let mut aggregator = self.aggregator.lock().expect("no panic under the lock");
        *aggregator.job_mut(KEY).expect("it was admitted") = *job;
        match event {
            NodeEvent::Suspend => aggregator.suspend(KEY),
            NodeEvent::Exclude(member) => aggregator.exclude(KEY, member),
            NodeEvent::Take(..) => {}
        }
        *aggregator.job(KEY).expect("it was admitted")
    }

    fn handle(
        &self,
        job: &mut Job,
        (heads, values): (&mut [Head], &mut [i32]),
        packet: &Packet,
        instant: Instant,
        out: &mut [u8],
    ) -> (Verdict, Option<Counter>) {
        let mut aggregator = self.aggregator.lock().expect("no panic under the lock");
        let before = aggregator.counters().clone();
        let memory = aggregator.memory_mut();
        memory.0.clone_from_slice(heads);
        memory.1.copy_from_slice(values);
        let lent = aggregator.job_mut(KEY).expect("it was admitted");
        *lent = Job {
            policy: graced(job.policy, instant),
            ..*job
        };
        let verdict = aggregator.handle(&packet.bytes, &packet.from.endpoint(), instant.now, out);
        *job = Job {
            policy: job.policy,
            ..*aggregator.job(KEY).expect("it was admitted")
        };
        let memory = aggregator.memory();
        for (head, now) in heads.iter_mut().zip(memory.0) {
            *head = now.without_time();
        }
        values.copy_from_slice(memory.1);
        let counted = aggregator.counters().iter();
        let counted = counted
            .into_iter()
            .find(|(counter, count)| *count != before.get(*counter));
        (verdict, counted.map(|(counter, _)| counter))
    }
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

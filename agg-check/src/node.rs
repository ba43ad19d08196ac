//! An aggregator: the real one, or one whose slots break a rule on purpose.

use std::hash::{Hash, Hasher};

use agg_core::slot::Head;
use agg_core::wire::{Flags, Header, packet_len};
use agg_core::{Counter, Exponent, Job, MemberSet, Round, Verdict};

use crate::engine::{Done, Engine, Memory};
use crate::member::KEY;
use crate::mutation::Generation;
use crate::network::{Chunk, Packet};
use crate::scenario::Scenario;
use crate::topology::Party;
use crate::values::LANES;

/// What happens to an aggregator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeEvent<P> {
    /// A packet arrives, at one of the [`INSTANTS`](crate::engine::INSTANTS).
    Take(P, usize),
    /// Its store says that it keeps this sum.
    Stored(P),
    /// Its store gives this sum back, at one of these instants.
    Recalled(P, usize),
    /// It is told that its store is lost (R-SPILL-4).
    StoreLost,
    /// Its job is suspended (R-REFORM-1).
    Suspend,
    /// The member with this number is removed (R-QUORUM-5).
    Exclude(u8),
}

impl<P: Copy> NodeEvent<P> {
    /// The packet that it is about.
    pub fn packet(self) -> Option<P> {
        match self {
            Self::Take(packet, _) | Self::Stored(packet) | Self::Recalled(packet, _) => Some(packet),
            Self::StoreLost | Self::Suspend | Self::Exclude(_) => None,
        }
    }

    /// The same event with another form of the packet.
    pub fn map<Q>(self, form: impl FnOnce(P) -> Q) -> NodeEvent<Q> {
        match self {
            Self::Take(packet, instant) => NodeEvent::Take(form(packet), instant),
            Self::Stored(packet) => NodeEvent::Stored(form(packet)),
            Self::Recalled(packet, instant) => NodeEvent::Recalled(form(packet), instant),
            Self::StoreLost => NodeEvent::StoreLost,
            Self::Suspend => NodeEvent::Suspend,
            Self::Exclude(member) => NodeEvent::Exclude(member),
        }
    }

    /// When it happens, where that matters.
    pub fn instant(&self) -> usize {
        match self {
            Self::Take(_, instant) | Self::Recalled(_, instant) => *instant,
            _ => 0,
        }
    }
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
    Real(Box<Memory>),
    Mutant(Vec<Generation>),
}

/// What a generation of a slot holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Its round.
    pub round: Round,
    /// Its operation, whether it is without values, and their scale.
    pub is_of: (u32, bool, Exponent),
    /// The members whose values it holds.
    pub set: MemberSet,
    /// Those that need it no more (R-QUORUM-2).
    pub past: MemberSet,
    /// Nothing is waited for.
    pub complete: bool,
}

/// What must agree in all that is merged (R-OP-4, R-NUM-4).
pub fn is_of(header: &Header) -> (u32, bool, Exponent) {
    let header_only = header.flags.has(Flags::HEADER_ONLY);
    (header.op_seq, header_only, header.scale)
}

/// What an aggregator did.
#[derive(Debug, Default)]
pub struct Handled {
    /// What it sends.
    pub sent: Vec<Packet>,
    /// What its store is given.
    pub put: Vec<Packet>,
    /// What its store is asked for.
    pub asked: Vec<Chunk>,
    /// What it counted.
    pub counters: Vec<Counter>,
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
            false => Slots::Real(Box::new(engine.empty.clone())),
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
            Slots::Real(memory) => &memory.heads,
            Slots::Mutant(generations) => return generations[index].held(),
        };
        let head = Some(&heads[index]).filter(|head| **head != Head::VACANT)?;
        let header = head.result(KEY, self.job.epoch, slot);
        // A leaf's generation that is full stands for the workers below it, a complete one for those of the whole job.
        let full = self.job.parent.is_some() && header.workers == self.workers;
        Some(Held {
            round: header.round,
            is_of: is_of(&header),
            set: header.set,
            past: head.held_back(&header, self.job.epoch).set,
            complete: head.waiting().is_none() && !full,
        })
    }

    /// The aggregator after an event, and what it did.
    pub fn after(&self, event: NodeEvent<&Packet>, scenario: &Scenario, engine: &Engine) -> (Self, Handled) {
        let mut next = self.clone();
        let mut out = [0; packet_len(LANES)];
        let done = match &mut next.slots {
            Slots::Real(memory) => engine.handle(&mut next.job, memory, event, &mut out),
            Slots::Mutant(generations) => {
                let mut nothing = engine.empty.clone();
                match event {
                    NodeEvent::Take(packet, _) => {
                        let broken = scenario.mutation.and_then(|mutation| mutation.aggregator());
                        let broken = broken.expect("mutant slots belong to a mutation");
                        let member = scenario.topologies[self.topology].number(self.number, packet.from);
                        let sender = (member, engine.parent == Some(packet.from));
                        Done::quiet(broken.handle(generations, &self.job, packet, sender, &mut out))
                    }
                    // Of the job, not of its slots.
                    _ => engine.handle(&mut next.job, &mut nothing, event, &mut out),
                }
            }
        };
        let handled = Handled {
            sent: self.send(done.verdict, event.packet(), scenario, engine, &out),
            put: done.put,
            asked: done.asked,
            counters: done.counters,
        };
        (next, handled)
    }

    fn send(
        &self,
        verdict: Verdict,
        arrival: Option<&Packet>,
        scenario: &Scenario,
        engine: &Engine,
        out: &[u8],
    ) -> Vec<Packet> {
        let members = &scenario.topologies[self.topology].place(self.number).members;
        let (receivers, len) = match verdict {
            Verdict::Quiet => (Vec::new(), 0),
            Verdict::Reply { len } => (arrival.map(|packet| packet.from).into_iter().collect(), len),
            Verdict::Broadcast { len, .. } => (members.clone(), len),
            Verdict::Forward { len, .. } => (engine.parent.into_iter().collect(), len),
        };
        let send = |to| Packet {
            from: Party::Node(self.number),
            to,
            bytes: out[..len].to_vec(),
        };
        receivers.into_iter().map(send).collect()
    }

    fn fields(&self) -> impl Eq + Hash + '_ {
        let (real, mutant) = match &self.slots {
            Slots::Real(memory) => (Some(memory), None),
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

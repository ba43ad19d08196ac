//! The parties of a scenario and what events do to them.
//!
//! The core runs once for each pair of a party's state and an event; states of the model that share both share the
//! [`Step`], which is what makes millions of them affordable. A party's state leaves out what only paces it, so that
//! there are few.

mod verify;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, RwLock};

use crate::dead;
use crate::engine::{self, Engine};
use crate::interner::Interner;
use crate::member::{Event, Member};
use crate::network::{Chunk, ClassId, Network, Packet};
use crate::node::{Node, NodeEvent};
use crate::packets::{PacketId, Packets};
use crate::scenario::Scenario;
use crate::topology::Party;

/// The state of a member, by its number in the world's table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemberId(u32);

/// The state of an aggregator, by its number in the world's table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeId(u32);

/// What an event does to a party.
#[derive(Debug)]
pub struct Step<I> {
    /// The party's state afterwards.
    pub next: I,
    /// What it sends at once.
    pub first: Vec<PacketId>,
    /// What a worker's timers will send; what an aggregator's store has been given.
    pub again: Vec<PacketId>,
    /// What an aggregator asks back from its store.
    pub asked: Vec<Chunk>,
}

type Steps<C, I> = RwLock<HashMap<C, Arc<Step<I>>>>;
/// The packets that are dead to a party's state, among so many classes.
type Dead<I> = RwLock<HashMap<(I, usize), (usize, Network)>>;

/// All that is known of a scenario's parties.
#[derive(Debug)]
pub struct World {
    /// The scenario.
    pub scenario: Scenario,
    /// The packets.
    pub packets: Packets,
    /// By topology and number; none where the aggregator is lost.
    engines: Vec<Vec<Option<Engine>>>,
    members: Interner<Member>,
    nodes: Interner<Node>,
    member_steps: Steps<(MemberId, Event<PacketId>), MemberId>,
    node_steps: Steps<(NodeId, NodeEvent<PacketId>), NodeId>,
    dead_to_members: Dead<MemberId>,
    dead_to_nodes: Dead<NodeId>,
    dead_to_lost: Dead<()>,
    counted: Mutex<BTreeMap<&'static str, usize>>,
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(scenario: Scenario) -> Self {
        let places = scenario.topologies.iter().enumerate().map(|(topology, places)| {
            let engine = |number| (!places.is_lost(number)).then(|| Engine::new(topology, number, &scenario));
            (0..places.nodes()).map(engine).collect()
        });
        let engines = places.collect();
        Self {
            packets: Packets::new(&scenario),
            scenario,
            engines,
            members: Interner::new(),
            nodes: Interner::new(),
            member_steps: RwLock::default(),
            node_steps: RwLock::default(),
            dead_to_members: RwLock::default(),
            dead_to_nodes: RwLock::default(),
            dead_to_lost: RwLock::default(),
            counted: Mutex::default(),
        }
    }

    /// The members before anything.
    pub fn first_members(&self) -> Vec<MemberId> {
        let new = |number| MemberId(self.members.number(Member::new(number, &self.scenario)));
        (0..self.scenario.members).map(new).collect()
    }

    /// The aggregators of a topology, empty.
    pub fn empty_nodes(&self, topology: usize) -> Vec<Option<NodeId>> {
        let engines = self.engines[topology].iter().enumerate();
        let node = |(number, engine): (usize, &Option<Engine>)| {
            let node = Node::new(topology, number, &self.scenario, engine.as_ref()?);
            Some(NodeId(self.nodes.number(node)))
        };
        engines.map(node).collect()
    }

    /// A member's state.
    pub fn member(&self, id: MemberId) -> Arc<Member> {
        self.members.value(id.0)
    }

    /// What an event does to a member.
    pub fn member_step(&self, id: MemberId, event: Event<PacketId>) -> Arc<Step<MemberId>> {
        known(&self.member_steps, (id, event), || {
            let packet = match event {
                Event::Take(number) => Some(self.packets.packet(number)),
                _ => None,
            };
            let bytes = packet.as_ref().map_or(&[][..], |packet| &packet.bytes);
            let event = event.map(|_| bytes);
            let (next, sent) = self.member(id).after(event, &self.scenario);
            self.count(sent.counted);
            let next = MemberId(self.members.number(next));
            Step {
                next,
                first: self.numbers(sent.first),
                again: self.numbers(sent.again),
                asked: Vec::new(),
            }
        })
    }

    /// What an event does to an aggregator.
    pub fn node_step(&self, id: NodeId, event: NodeEvent<PacketId>) -> Arc<Step<NodeId>> {
        known(&self.node_steps, (id, event), || {
            let packet = event.packet().map(|number| self.packets.packet(number));
            let event = event.map(|_| packet.as_deref().expect("it has one"));
            let node = self.nodes.value(id.0);
            let engine = self.engines[node.topology()][node.number()].as_ref();
            let engine = engine.expect("an aggregator that is lost does nothing");
            let (next, handled) = node.after(event, &self.scenario, engine);
            self.count(handled.counters.iter().map(|counter| counter.name()));
            let next = NodeId(self.nodes.number(next));
            Step {
                next,
                first: self.numbers(handled.sent),
                again: self.numbers(handled.put),
                asked: handled.asked,
            }
        })
    }

    /// What a packet can be to the aggregator that it goes to: it arrives at one of several instants, or it stands for what a
    /// store says.
    pub fn ways(&self, packet: PacketId) -> Vec<NodeEvent<PacketId>> {
        let instants = 0..engine::instants(self.scenario.policy);
        match self.packets.packet(packet).from {
            Party::Store(_) => {
                let recalled = instants.map(|instant| NodeEvent::Recalled(packet, instant));
                [NodeEvent::Stored(packet)].into_iter().chain(recalled).collect()
            }
            _ => instants.map(|instant| NodeEvent::Take(packet, instant)).collect(),
        }
    }

    fn numbers(&self, packets: Vec<Packet>) -> Vec<PacketId> {
        let mut numbers = Vec::new();
        for packet in packets {
            if let (Party::Worker(_), true) = (packet.to, self.scenario.reflects) {
                let reflected = Packet {
                    from: packet.to,
                    to: packet.from,
                    bytes: packet.bytes.clone(),
                };
                numbers.push(self.packets.number(reflected));
            }
            numbers.push(self.packets.number(packet));
        }
        numbers
    }

    /// What is dead by the state of a member; see [`dead`].
    pub fn dead_by_member(&self, id: MemberId, number: usize) -> Network {
        self.dead(&self.dead_to_members, (id, number), |class| {
            self.is_dead_by_member(class, &self.member(id), number)
        })
    }

    fn is_dead_by_member(&self, class: ClassId, member: &Member, number: usize) -> bool {
        let packet = self.packets.packet(self.packets.first(class));
        if packet.to == Party::Worker(number) {
            return dead::to_member(&packet.header(), member);
        }
        let Party::Node(node) = packet.to else {
            return false;
        };
        let last = self.scenario.topologies.last().expect("there is one");
        packet.from == Party::Worker(number)
            && last.nodes() > node
            && dead::from_member(&packet.header(), last.place(node).epoch, member)
    }

    /// What is dead by the state of an aggregator; see [`dead`].
    pub fn dead_by_node(&self, id: NodeId, number: usize) -> Network {
        self.dead(&self.dead_to_nodes, (id, number), |class| {
            self.is_dead_by_node(class, &self.nodes.value(id.0))
        })
    }

    /// What goes to an aggregator that is lost.
    pub fn dead_by_loss(&self, number: usize) -> Network {
        self.dead(&self.dead_to_lost, ((), number), |class| {
            self.packets.packet(self.packets.first(class)).to == Party::Node(number)
        })
    }

    fn is_dead_by_node(&self, class: ClassId, node: &Node) -> bool {
        let packet = self.packets.packet(self.packets.first(class));
        if packet.to != Party::Node(node.number()) {
            return false;
        }
        let topology = &self.scenario.topologies[node.topology()];
        if topology.place(node.number()).parent.map(Party::Node) == Some(packet.from) {
            return dead::to_leaf(&packet.header(), node);
        }
        if matches!(packet.from, Party::Store(_)) {
            return dead::from_store(&packet.header(), node);
        }
        let sender = topology.number(node.number(), packet.from);
        dead::to_node(&packet.header(), node, sender)
    }

    fn dead<I: Copy + Eq + Hash>(
        &self,
        table: &Dead<I>,
        party: (I, usize),
        is_dead: impl Fn(ClassId) -> bool,
    ) -> Network {
        let classes = self.packets.classes();
        match table.read().expect("no panic under the lock").get(&party) {
            Some((known, dead)) if *known == classes => return *dead,
            _ => {}
        }
        let mut dead = Network::default();
        for class in (0..classes)
            .map(|class| ClassId(class as u16))
            .filter(|class| is_dead(*class))
        {
            dead.insert(class);
        }
        table
            .write()
            .expect("no panic under the lock")
            .insert(party, (classes, dead));
        dead
    }

    fn count(&self, names: impl IntoIterator<Item = &'static str>) {
        let mut counted = self.counted.lock().expect("no panic under the lock");
        for name in names {
            *counted.entry(name).or_default() += 1;
        }
    }

    /// In how many distinct steps members and aggregators counted what.
    pub fn counted(&self) -> BTreeMap<&'static str, usize> {
        self.counted.lock().expect("no panic under the lock").clone()
    }

    /// How many distinct states members and aggregators were in, and how many classes of packets there were.
    pub fn sizes(&self) -> [usize; 3] {
        [self.members.len(), self.nodes.len(), self.packets.classes()]
    }
}

/// What the table says of `cause`, found out at the first time.
fn known<C: Copy + Eq + Hash, I>(
    steps: &Steps<C, I>,
    cause: C,
    find_out: impl FnOnce() -> Step<I>,
) -> Arc<Step<I>> {
    if let Some(step) = steps.read().expect("no panic under the lock").get(&cause) {
        return Arc::clone(step);
    }
    let step = Arc::new(find_out());
    Arc::clone(
        steps
            .write()
            .expect("no panic under the lock")
            .entry(cause)
            .or_insert(step),
    )
}

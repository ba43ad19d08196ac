//! The parties of a scenario and what events do to them.
//!
//! The core runs once for each pair of a party's state and an event; states of the model that share both share the
//! [`Step`], which is what makes millions of them affordable. A party's state leaves out what only paces it, so that
//! there are few.

mod verify;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, RwLock};

use agg_core::Epoch;

use crate::dead;
use crate::interner::Interner;
use crate::member::{Event, Member};
use crate::network::{ClassId, Network, Packet};
use crate::node::{Engine, INSTANTS, Node};
use crate::packets::{PacketId, Packets};
use crate::scenario::{Scenario, Trouble};

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
    /// What its timers will send.
    pub again: Vec<PacketId>,
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
    engines: Vec<Engine>,
    members: Interner<Member>,
    nodes: Interner<Node>,
    member_steps: Steps<(MemberId, Event<PacketId>), MemberId>,
    node_steps: Steps<(NodeId, PacketId, usize), NodeId>,
    dead_to_members: Dead<MemberId>,
    dead_to_nodes: Dead<NodeId>,
    counted: Mutex<BTreeMap<&'static str, usize>>,
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(scenario: Scenario) -> Self {
        let engines = [Epoch(1), Epoch(2)]
            .map(|epoch| Engine::new(epoch, &scenario))
            .into();
        Self {
            packets: Packets::new(scenario.pace),
            scenario,
            engines,
            members: Interner::new(),
            nodes: Interner::new(),
            member_steps: RwLock::default(),
            node_steps: RwLock::default(),
            dead_to_members: RwLock::default(),
            dead_to_nodes: RwLock::default(),
            counted: Mutex::default(),
        }
    }

    /// The members before anything.
    pub fn first_members(&self) -> Vec<MemberId> {
        let new = |number| MemberId(self.members.number(Member::new(number, &self.scenario)));
        (0..self.scenario.members).map(new).collect()
    }

    /// The aggregators before anything: epochs from 1 up.
    pub fn first_nodes(&self) -> Vec<NodeId> {
        (0..self.scenario.nodes())
            .map(|node| self.empty_node(first_epoch(node)))
            .collect()
    }

    /// An empty aggregator.
    pub fn empty_node(&self, epoch: Epoch) -> NodeId {
        NodeId(self.nodes.number(Node::new(epoch, &self.scenario)))
    }

    /// A member's state.
    pub fn member(&self, id: MemberId) -> Arc<Member> {
        self.members.value(id.0)
    }

    /// What an event does to a member.
    pub fn member_step(&self, id: MemberId, event: Event<PacketId>) -> Arc<Step<MemberId>> {
        known(&self.member_steps, (id, event), || {
            let packet;
            let event = match event {
                Event::Take(number) => {
                    packet = self.packets.packet(number);
                    Event::Take(packet.bytes())
                }
                Event::Start => Event::Start,
                Event::Transmit => Event::Transmit,
                Event::Alarm => Event::Alarm,
                Event::Redirect => Event::Redirect,
            };
            let (next, sent) = self.member(id).after(event, &self.scenario);
            let next = MemberId(self.members.number(next));
            Step {
                next,
                first: self.numbers(sent.first),
                again: self.numbers(sent.again),
            }
        })
    }

    /// What a packet does to an aggregator at one of the [`INSTANTS`].
    pub fn node_step(&self, id: NodeId, number: PacketId, instant: usize) -> Arc<Step<NodeId>> {
        known(&self.node_steps, (id, number, instant), || {
            let packet = self.packets.packet(number);
            let Packet::Up { from, bytes, .. } = &*packet else {
                panic!("{packet:?} goes to a member")
            };
            let node = self.nodes.value(id.0);
            let engine = &self.engines[node.epoch().0 as usize - 1];
            let (next, handled) = node.after(bytes, *from, INSTANTS[instant], &self.scenario, engine);
            if let Some(counter) = handled.counter {
                *self
                    .counted
                    .lock()
                    .expect("no panic under the lock")
                    .entry(counter.name())
                    .or_default() += 1;
            }
            let next = NodeId(self.nodes.number(next));
            Step {
                next,
                first: self.numbers(handled.sent),
                again: Vec::new(),
            }
        })
    }

    fn numbers(&self, packets: Vec<Packet>) -> Vec<PacketId> {
        let mut numbers = Vec::new();
        for packet in packets {
            if let (Packet::Down { to, bytes }, true) = (&packet, self.scenario.reflects) {
                let reflected = Packet::Up {
                    from: *to,
                    node: 0,
                    bytes: bytes.clone(),
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
        match &*packet {
            Packet::Down { to, .. } => *to == number && dead::to_member(&packet.header(), member),
            Packet::Up { from, node, .. } => {
                *from == number && dead::from_member(&packet.header(), first_epoch(*node), member)
            }
        }
    }

    /// What is dead by the state of an aggregator; see [`dead`].
    pub fn dead_by_node(&self, id: NodeId, number: usize) -> Network {
        self.dead(&self.dead_to_nodes, (id, number), |class| {
            self.is_dead_by_node(class, &self.nodes.value(id.0), number)
        })
    }

    fn is_dead_by_node(&self, class: ClassId, state: &Node, number: usize) -> bool {
        let packet = self.packets.packet(self.packets.first(class));
        let restarted = self.scenario.trouble == Trouble::Restart && state.epoch() > first_epoch(number);
        let members = self.scenario.members;
        matches!(&*packet, Packet::Up { node, .. } if *node == number)
            && dead::to_node(&packet.header(), state, members, restarted)
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

    /// In how many distinct steps aggregators counted what.
    pub fn counted(&self) -> BTreeMap<&'static str, usize> {
        self.counted.lock().expect("no panic under the lock").clone()
    }

    /// How many distinct states members and aggregators were in, and how many classes of packets there were.
    pub fn sizes(&self) -> [usize; 3] {
        [self.members.len(), self.nodes.len(), self.packets.classes()]
    }
}

/// The epoch that an aggregator has first.
pub fn first_epoch(node: usize) -> Epoch {
    Epoch(node as u32 + 1)
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

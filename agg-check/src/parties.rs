//! The parties at one moment, and what happens to them, whoever decides that it does: the model, which tries all that
//! can, or the fair schedule.

use std::sync::Arc;

use agg_core::worker::Boundary;

use crate::member::Event;
use crate::node::NodeEvent;
use crate::packets::PacketId;
use crate::scenario::Trouble;
use crate::topology::Party;
use crate::world::{MemberId, NodeId, Step, World};

/// How far the scenario's trouble is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Nothing has happened.
    Calm,
    /// The aggregators are suspended; the survivors register one after the other.
    Suspended,
    /// The aggregators are in their second places, or a member was removed. Workers are told where survivors go on.
    Over(Option<Boundary>),
}

/// Workers, aggregators (none where one is lost), and how far the trouble is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Parties {
    /// The workers.
    pub members: Vec<MemberId>,
    /// The aggregators.
    pub nodes: Vec<Option<NodeId>>,
    /// The trouble.
    pub stage: Stage,
}

impl Parties {
    /// Before anything.
    pub fn first(world: &World) -> Self {
        Self {
            members: world.first_members(),
            nodes: world.empty_nodes(0),
            stage: Stage::Calm,
        }
    }

    /// The event by which a worker's trouble goes on, where it waits for that: it registers, or is told its new place.
    pub fn due(&self, world: &World, number: usize) -> Option<Event<PacketId>> {
        let member = world.member(self.members[number]);
        if member.is_dead() {
            return None;
        }
        match (self.stage, world.scenario.trouble) {
            (Stage::Suspended, _) => member.stated().is_none().then_some(Event::Register),
            (Stage::Over(boundary), Trouble::Reform | Trouble::Shrink(_)) => {
                (!member.has_rejoined()).then_some(Event::Rejoin(boundary))
            }
            _ => None,
        }
    }

    /// Whether the trouble can strike.
    pub fn can_strike(&self, world: &World) -> bool {
        let strikes = !matches!(world.scenario.trouble, Trouble::None | Trouble::FailOver);
        strikes && self.stage == Stage::Calm
    }

    /// The trouble strikes.
    pub fn strike(&mut self, world: &World) {
        if let Some(worker) = world.scenario.casualty() {
            self.members[worker] = world.member_step(self.members[worker], Event::Die).next;
        }
        let event = match world.scenario.trouble {
            Trouble::None | Trouble::FailOver => return,
            Trouble::Restart | Trouble::Reform => return self.form(world, None),
            Trouble::Shrink(_) => {
                self.stage = Stage::Suspended;
                NodeEvent::Suspend
            }
            Trouble::Exclude(worker) => {
                self.stage = Stage::Over(None);
                NodeEvent::Exclude(worker as u8)
            }
        };
        for node in self.nodes.iter_mut().flatten() {
            *node = world.node_step(*node, event).next;
        }
    }

    /// Something happens to a worker; what it sends at once, and what its timers will.
    pub fn happen(&mut self, world: &World, number: usize, event: Event<PacketId>) -> [Vec<PacketId>; 2] {
        let step = world.member_step(self.members[number], event);
        self.members[number] = step.next;
        if event == Event::Register {
            self.form_when_all_registered(world);
        }
        [step.first.clone(), step.again.clone()]
    }

    /// A packet arrives; what is sent.
    pub fn deliver(&mut self, world: &World, packet: PacketId, instant: usize) -> [Vec<PacketId>; 2] {
        match world.packets.packet(packet).to {
            Party::Worker(number) => self.happen(world, number, Event::Take(packet)),
            Party::Node(number) => {
                let step = self.happen_to_node(world, number, world.ways(packet)[instant]);
                step.map_or_else(Default::default, |step| [step.first.clone(), step.again.clone()])
            }
            Party::Store(_) => panic!("what stores are told has no packets"),
        }
    }

    /// Something happens to an aggregator, if it is not lost.
    pub fn happen_to_node(
        &mut self,
        world: &World,
        number: usize,
        event: NodeEvent<PacketId>,
    ) -> Option<Arc<Step<NodeId>>> {
        let node = self.nodes.get_mut(number)?.as_mut()?;
        let step = world.node_step(*node, event);
        *node = step.next;
        Some(step)
    }

    /// R-REFORM-3.
    fn form_when_all_registered(&mut self, world: &World) {
        let members = self.members.iter().map(|member| world.member(*member));
        let survivors: Vec<_> = members.filter(|member| !member.is_dead()).collect();
        let stated: Vec<_> = survivors.iter().filter_map(|member| member.stated()).collect();
        if stated.len() < survivors.len() {
            return;
        }
        let operations = stated.iter().map(|position| position.operations).max();
        let next_chunk = stated.iter().map(|position| position.next_chunk).max();
        let boundary = operations
            .zip(next_chunk)
            .map(|(operation, next_chunk)| Boundary {
                operation,
                next_chunk,
            });
        self.form(world, boundary);
    }

    /// The aggregators of the second topology are there, empty.
    fn form(&mut self, world: &World, boundary: Option<Boundary>) {
        self.nodes = world.empty_nodes(1);
        self.stage = Stage::Over(boundary);
    }
}

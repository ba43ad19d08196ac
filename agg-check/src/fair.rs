//! The fair schedule: from a state on nothing is lost any more.
//!
//! What was sent before is never delivered. Users call their operations, packets arrive in the order of sending, and
//! when none is left every resend timer fires. Where workers have begun to go over to the second aggregator, all
//! do. That every state reached by any misfortune ends so, with the right results, is how the model says that no
//! operation can get stuck.

use std::collections::VecDeque;

use crate::member::Event;
use crate::network::Packet;
use crate::packets::PacketId;
use crate::scenario::{Pace, Trouble};
use crate::world::{MemberId, NodeId, World};

/// How a fair schedule ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Every user has its results, after so many times of all timers.
    Finished {
        /// How often the timers fired.
        alarms: usize,
    },
    /// Ranks that disagree: every worker reported it.
    Failed,
    /// Something else, or no end within the limits.
    Stuck,
}

/// Packets that are delivered between two alarms before it is taken for an endless exchange.
const CHATTER: usize = 10_000;

struct Schedule<'w> {
    world: &'w World,
    members: Vec<MemberId>,
    nodes: Vec<NodeId>,
    queue: VecDeque<PacketId>,
}

/// Runs the fair schedule from a state.
pub fn run(world: &World, members: &[MemberId], nodes: &[NodeId]) -> Ending {
    let mut schedule = Schedule {
        world,
        members: members.to_vec(),
        nodes: nodes.to_vec(),
        queue: VecDeque::new(),
    };
    let moved = members.iter().any(|member| world.member(*member).home() == 1);
    if world.scenario.trouble == Trouble::FailOver && moved {
        schedule.all(Event::Redirect);
    }
    // Each chunk takes at most one alarm to be sent, one to ask and one to answer; then some.
    for alarms in 0..4 * (world.scenario.chunks() + 2) {
        if let Some(ending) = schedule.settle(alarms) {
            return ending;
        }
        schedule.all(Event::Alarm);
    }
    Ending::Stuck
}

impl Schedule<'_> {
    /// Delivers until nothing moves; the ending, if it is one.
    fn settle(&mut self, alarms: usize) -> Option<Ending> {
        loop {
            for _ in 0..CHATTER {
                let Some(packet) = self.queue.pop_front() else {
                    break;
                };
                self.deliver(packet);
            }
            if !self.queue.is_empty() {
                return Some(Ending::Stuck);
            }
            if !self.start() {
                break;
            }
        }
        let scenario = &self.world.scenario;
        let members: Vec<_> = self
            .members
            .iter()
            .map(|member| self.world.member(*member))
            .collect();
        if members.iter().any(|member| member.is_wrong()) {
            Some(Ending::Stuck)
        } else if members.iter().all(|member| member.is_done(scenario)) {
            Some(Ending::Finished { alarms })
        } else if members.iter().all(|member| member.has_failed()) {
            Some(Ending::Failed)
        } else {
            None
        }
    }

    fn start(&mut self) -> bool {
        let mut any = false;
        for member in 0..self.members.len() {
            if self
                .world
                .member(self.members[member])
                .can_start(&self.world.scenario)
            {
                self.happen(member, Event::Start);
                any = true;
            }
        }
        any
    }

    fn all(&mut self, event: Event<PacketId>) {
        for member in 0..self.members.len() {
            self.happen(member, event);
        }
    }

    fn happen(&mut self, member: usize, event: Event<PacketId>) {
        let mut events = vec![event];
        if self.world.scenario.pace == Pace::Batched {
            events.push(Event::Transmit);
        }
        for event in events {
            let step = self.world.member_step(self.members[member], event);
            self.members[member] = step.next;
            self.queue.extend(&step.first);
        }
    }

    fn deliver(&mut self, packet: PacketId) {
        let (to, is_up) = match &*self.world.packets.packet(packet) {
            Packet::Down { to, .. } => (*to, false),
            Packet::Up { node, .. } => (*node, true),
        };
        if !is_up {
            return self.happen(to, Event::Take(packet));
        }
        // Alarms are further apart than Wants need to be: of the two instants, the one at which a Want goes out.
        let steps = [0, 1].map(|instant| self.world.node_step(self.nodes[to], packet, instant));
        let step = steps
            .iter()
            .max_by_key(|step| step.first.len())
            .expect("there are two");
        self.nodes[to] = step.next;
        self.queue.extend(&step.first);
    }
}

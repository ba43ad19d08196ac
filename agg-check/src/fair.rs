//! The fair schedule: from a state on nothing is lost any more.
//!
//! What was sent before is never delivered. Where workers have begun to go over to the second aggregator, all do; where
//! the aggregators are being re-formed, all register and are told. Users call their operations, packets arrive in the
//! order of sending, and when none is left every worker's resend timers fire, which are the clock of the aggregators, too:
//! a leaf sends up again when its workers send again (R-LEAF-2), and so each level has its turn at each alarm. That every
//! state reached by any misfortune ends so, with the right results, is how the model says that no operation can get stuck.
//!
//! Where there is a store, every state must end so with each of three: one that has all that it was ever given and answers at
//! once; one that is lost, and answers from then on; and one that never answers and is lost again and again.

use std::collections::{HashMap, VecDeque};

use crate::engine::{LATE, SOON};
use crate::member::Event;
use crate::network::Chunk;
use crate::node::NodeEvent;
use crate::packets::PacketId;
use crate::parties::Parties;
use crate::scenario::{Pace, Trouble};
use crate::topology::Party;
use crate::world::{NodeId, Step, World};

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

/// How a store is from here on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Store {
    Keeps,
    Lost,
    Silent,
}

/// What is on its way.
enum Due {
    Packet(PacketId, usize),
    Stored(PacketId),
    Recalled(PacketId),
}

struct Schedule<'w> {
    world: &'w World,
    parties: Parties,
    queue: VecDeque<Due>,
    /// When what the timers send arrives, and when whatever follows does.
    instants: [usize; 2],
    store: Store,
    /// What the store of an aggregator was given since.
    kept: HashMap<(usize, Chunk), PacketId>,
}

/// Runs the fair schedule from a state; the worst of the endings where there are several.
pub fn run(world: &World, parties: &Parties) -> Ending {
    let stores = match world.scenario.frames {
        Some(_) => &[Store::Keeps, Store::Lost, Store::Silent][..],
        None => &[Store::Keeps],
    };
    let endings = stores.iter().map(|store| run_with(world, parties, *store));
    let worst = |a, b| match (a, b) {
        (Ending::Finished { alarms: a }, Ending::Finished { alarms: b }) => {
            Ending::Finished { alarms: a.max(b) }
        }
        (Ending::Failed, Ending::Failed) => Ending::Failed,
        _ => Ending::Stuck,
    };
    endings.reduce(worst).expect("there is one")
}

fn run_with(world: &World, parties: &Parties, store: Store) -> Ending {
    let mut schedule = Schedule {
        world,
        parties: parties.clone(),
        queue: VecDeque::new(),
        // Who finds no frame asks, and is asked (R-SPILL-1): without the pause between Wants there were no end of that.
        instants: match world.scenario.frames {
            Some(_) => [LATE, SOON],
            None => [LATE; 2],
        },
        store,
        kept: HashMap::new(),
    };
    schedule.end_trouble();
    if store == Store::Lost {
        schedule.lose_stores();
    }
    // Each chunk takes at most one alarm to be sent, one to ask and one to answer; then some.
    for alarms in 0..4 * (world.scenario.chunks() + 2) {
        if let Some(ending) = schedule.settle(alarms) {
            return ending;
        }
        // A host waits longer for its store than a worker for a result.
        if store == Store::Silent && alarms % 3 == 0 {
            schedule.lose_stores();
        }
        schedule.all(Event::Alarm);
    }
    Ending::Stuck
}

impl Schedule<'_> {
    fn members(&self) -> std::ops::Range<usize> {
        0..self.parties.members.len()
    }

    fn end_trouble(&mut self) {
        let moved = |number: usize| self.world.member(self.parties.members[number]).home() == 1;
        if self.world.scenario.trouble == Trouble::FailOver && self.members().any(moved) {
            self.all(Event::Redirect);
        }
        // All register, then all are told.
        for _ in 0..2 {
            for number in self.members() {
                if let Some(event) = self.parties.due(self.world, number) {
                    self.happen(number, event);
                }
            }
        }
    }

    /// Delivers until nothing moves; the ending, if it is one.
    fn settle(&mut self, alarms: usize) -> Option<Ending> {
        loop {
            for _ in 0..CHATTER {
                let Some(due) = self.queue.pop_front() else {
                    break;
                };
                self.arrive(due);
            }
            if !self.queue.is_empty() {
                return Some(Ending::Stuck);
            }
            if !self.start() {
                break;
            }
        }
        let scenario = &self.world.scenario;
        let members = self
            .parties
            .members
            .iter()
            .map(|member| self.world.member(*member));
        let members: Vec<_> = members.filter(|member| !member.is_dead()).collect();
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

    fn arrive(&mut self, due: Due) {
        let (packet, event) = match due {
            Due::Packet(packet, instant) => (packet, NodeEvent::Take(packet, instant)),
            Due::Stored(packet) => (packet, NodeEvent::Stored(packet)),
            Due::Recalled(packet) => (packet, NodeEvent::Recalled(packet, self.instants[1])),
        };
        match self.world.packets.packet(packet).to {
            Party::Worker(number) => self.happen_once(number, Event::Take(packet)),
            Party::Node(number) => self.happen_to_node(number, event),
            Party::Store(_) => {}
        }
    }

    fn happen_to_node(&mut self, number: usize, event: NodeEvent<PacketId>) {
        if let Some(step) = self.parties.happen_to_node(self.world, number, event) {
            self.send(&step.first, 1);
            self.ask_store(number, &step);
        }
    }

    /// What is asked of a store is done at once.
    fn ask_store(&mut self, number: usize, step: &Step<NodeId>) {
        if self.store == Store::Silent {
            return;
        }
        for put in &step.again {
            if let Some((sum, _)) = self.world.packets.packet(*put).result(false) {
                self.kept.insert((number, sum), *put);
                self.queue.push_back(Due::Stored(*put));
            }
        }
        for sum in &step.asked {
            let before = || self.world.packets.sum(Party::Node(number), *sum);
            let before = (self.store == Store::Keeps).then(before).flatten();
            let kept = self.kept.get(&(number, *sum)).copied().or(before);
            self.queue.extend(kept.map(Due::Recalled));
        }
    }

    fn lose_stores(&mut self) {
        for number in 0..self.parties.nodes.len() {
            self.happen_to_node(number, NodeEvent::StoreLost);
        }
    }

    fn start(&mut self) -> bool {
        let mut any = false;
        for member in self.members() {
            let state = self.world.member(self.parties.members[member]);
            if state.can_start(&self.world.scenario) {
                self.happen(member, Event::Start);
                any = true;
            }
        }
        any
    }

    fn all(&mut self, event: Event<PacketId>) {
        for member in self.members() {
            self.happen(member, event);
        }
    }

    fn happen(&mut self, member: usize, event: Event<PacketId>) {
        let mut events = vec![event];
        if self.world.scenario.pace == Pace::Batched {
            events.push(Event::Transmit);
        }
        for event in events {
            self.happen_once(member, event);
        }
    }

    fn happen_once(&mut self, member: usize, event: Event<PacketId>) {
        let [first, _] = self.parties.happen(self.world, member, event);
        self.send(&first, usize::from(event != Event::Alarm));
    }

    fn send(&mut self, packets: &[PacketId], later: usize) {
        let instant = self.instants[later];
        self.queue
            .extend(packets.iter().map(|packet| Due::Packet(*packet, instant)));
    }
}

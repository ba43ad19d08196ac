//! The fair schedule: from a state on nothing is lost any more.
//!
//! What was sent before is never delivered. Where workers have begun to go over to the second aggregator, all do; where
//! the aggregators are being re-formed, all register and are told. Users call their operations, packets arrive in the
//! order of sending, and when none is left every worker's resend timers fire, which are the clock of the aggregators, too:
//! a leaf sends up again when its workers send again (R-LEAF-2), and so each level has its turn at each alarm. That every
//! state reached by any misfortune ends so, with the right results, is how the model says that no operation can get stuck.

use std::collections::VecDeque;

use crate::engine::LATE;
use crate::member::Event;
use crate::packets::PacketId;
use crate::parties::Parties;
use crate::scenario::{Pace, Trouble};
use crate::world::World;

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
    parties: Parties,
    queue: VecDeque<PacketId>,
}

/// Runs the fair schedule from a state.
pub fn run(world: &World, parties: &Parties) -> Ending {
    let mut schedule = Schedule {
        world,
        parties: parties.clone(),
        queue: VecDeque::new(),
    };
    schedule.end_trouble();
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
                let Some(packet) = self.queue.pop_front() else {
                    break;
                };
                let [first, _] = self.parties.deliver(self.world, packet, LATE);
                self.queue.extend(first);
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
            let [first, _] = self.parties.happen(self.world, member, event);
            self.queue.extend(first);
        }
    }
}

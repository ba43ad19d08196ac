//! The model that is explored: states, what can happen in them, and what must always hold.

use std::collections::HashMap;
use std::sync::RwLock;

use agg_core::Policy;
use agg_core::wire::Flags;
use stateright::{Model, Property};

use crate::engine::LATE;
use crate::fair::{self, Ending};
use crate::member::Event;
use crate::network::{ClassId, Network};
use crate::node::NodeEvent;
use crate::packets::PacketId;
use crate::parties::{Parties, Stage};
use crate::scenario::{Pace, Scenario, Trouble};
use crate::topology::Party;
use crate::world::World;

/// What no history may lead to, as the checker names it.
pub mod rules {
    /// A block that is neither the member's own nor the exact sum of all members, each once.
    pub const EXACT: &str = "every block a user sees is its own or the exact sum";
    /// Results of one chunk with different bits, or members that took different ones.
    pub const AGREEMENT: &str = "all results of a chunk have the same bits, replays and epochs included";
    /// A result of fewer members than were agreed.
    pub const QUORUM: &str = "a result stands for enough members";
    /// An operation that ended without a result for some and not for others.
    pub const BOUNDARY: &str = "survivors give up the same operation";
    /// A worker that fails, or one that does not where ranks disagree.
    pub const NO_FAILURE: &str = "no worker fails unless ranks disagree";
    /// A state from which nothing helps.
    pub const TERMINATION: &str = "from here on a network without loss brings every user its results";
    /// An answer to a packet from an aggregator.
    pub const DIRECTION: &str = "what an aggregator sent is never answered";
}

/// A state: the parties, and the network.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    parties: Parties,
    network: Network,
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A packet arrives; at an aggregator at one of several instants.
    Deliver(ClassId, usize),
    /// Something happens to a member.
    Member(usize, Event<PacketId>),
    /// The scenario's trouble strikes.
    Strike,
    /// The store of an aggregator is lost (R-SPILL-4), as often as there is one.
    LoseStore(usize),
}

/// The endings that were found, by the parties' states.
type Endings = HashMap<Parties, Ending>;

/// The model of one scenario.
#[derive(Debug)]
pub struct TributaryModel {
    world: World,
    endings: RwLock<Endings>,
}

impl TributaryModel {
    /// The model of a scenario.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            world: World::new(scenario),
            endings: RwLock::default(),
        }
    }

    /// The scenario's parties.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// How the fair schedule ends from a state.
    fn ending(&self, state: &State) -> Ending {
        let known = self.endings.read().expect("no panic under the lock");
        if let Some(ending) = known.get(&state.parties) {
            return *ending;
        }
        drop(known);
        let ending = fair::run(&self.world, &state.parties);
        let mut known = self.endings.write().expect("no panic under the lock");
        known.insert(state.parties.clone(), ending);
        ending
    }

    /// How many different fair schedules ran, and how often the timers fired in the longest.
    pub fn schedules(&self) -> (usize, usize) {
        let endings = self.endings.read().expect("no panic under the lock");
        let alarms = endings.values().map(|ending| match ending {
            Ending::Finished { alarms } => *alarms,
            Ending::Failed | Ending::Stuck => 0,
        });
        (endings.len(), alarms.max().unwrap_or(0))
    }

    fn sent(&self, state: &mut State, sent: [Vec<PacketId>; 2]) {
        for packet in sent.iter().flatten() {
            state.network.insert(self.world.packets.class(*packet));
        }
    }

    /// Something happens to a worker. Where that puts the aggregators into their second places and dead packets are forgotten,
    /// those of the first epoch are replaced by all that they can bring.
    fn happen(&self, state: &State, number: usize, event: Event<PacketId>) -> State {
        let mut next = state.clone();
        let sent = next.parties.happen(&self.world, number, event);
        self.sent(&mut next, sent);
        if event == Event::Register && matches!(next.parties.stage, Stage::Over(_)) {
            self.refuse_old(&mut next);
        }
        next
    }

    fn deliver(&self, state: &State, class: ClassId, instant: usize) -> State {
        let mut next = state.clone();
        let packet = self.world.packets.first(class);
        let sent = next.parties.deliver(&self.world, packet, instant);
        self.sent(&mut next, sent);
        next
    }

    fn lose_store(&self, state: &State, node: usize) -> State {
        let mut next = state.clone();
        if let Some(step) = next
            .parties
            .happen_to_node(&self.world, node, NodeEvent::StoreLost)
        {
            self.sent(&mut next, [step.first.clone(), step.again.clone()]);
        }
        next
    }

    fn strike(&self, state: &State) -> State {
        let mut next = state.clone();
        next.parties.strike(&self.world);
        if matches!(self.world.scenario.trouble, Trouble::Restart | Trouble::Reform) {
            self.refuse_old(&mut next);
        }
        next
    }

    /// A refusal to each member that has sent anything.
    fn refuse_old(&self, state: &mut State) {
        if !self.world.scenario.forgets_dead() {
            return;
        }
        for (number, first) in self.world.first_members().into_iter().enumerate() {
            let now = state.parties.members[number];
            if first == now || self.world.member(now).is_dead() {
                continue;
            }
            let sent = self.world.member_step(first, Event::Start);
            let refused = state.parties.clone().deliver(&self.world, sent.first[0], LATE);
            self.sent(state, refused);
        }
    }

    fn forget_dead(&self, mut state: State) -> State {
        for (number, member) in state.parties.members.iter().enumerate() {
            state.network = state.network.without(self.world.dead_by_member(*member, number));
        }
        for (number, node) in state.parties.nodes.iter().enumerate() {
            let dead = match node {
                Some(node) => self.world.dead_by_node(*node, number),
                None => self.world.dead_by_loss(number),
            };
            state.network = state.network.without(dead);
        }
        state
    }

    /// Whether an aggregator would answer this packet although it came from an aggregator.
    fn is_echoed(&self, state: &State, class: ClassId) -> bool {
        let number = self.world.packets.first(class);
        let packet = self.world.packets.packet(number);
        let reflected = matches!((packet.from, packet.to), (Party::Worker(_), Party::Node(_)))
            && !packet.header().flags.has(Flags::UP);
        let answers = || state.parties.clone().deliver(&self.world, number, 0);
        reflected && !answers().concat().is_empty()
    }

    fn disagree(&self, state: &State) -> bool {
        let members: Vec<_> = state
            .parties
            .members
            .iter()
            .map(|member| self.world.member(*member))
            .collect();
        let mut pairs = (1..members.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
        self.world.packets.any_disagrees(&state.network)
            || pairs.any(|(first, second)| members[first].disagrees(&members[second]))
    }
}

impl Model for TributaryModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            parties: Parties::first(&self.world),
            network: Network::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let scenario = &self.world.scenario;
        let members = state
            .parties
            .members
            .iter()
            .map(|member| self.world.member(*member));
        let members: Vec<_> = members.collect();
        if members.iter().any(|member| member.is_wrong()) {
            // Nothing needs to be known of what follows a wrong result.
            return;
        }
        for (number, member) in members.iter().enumerate() {
            if member.can_start(scenario) {
                actions.push(Action::Member(number, Event::Start));
            }
            if member.can_announce(scenario) {
                actions.push(Action::Member(number, Event::Announce));
            }
            if scenario.pace == Pace::Batched {
                actions.extend([Event::Transmit, Event::Alarm].map(|event| Action::Member(number, event)));
            }
            if scenario.trouble == Trouble::FailOver && member.home() == 0 {
                actions.push(Action::Member(number, Event::Redirect));
            }
            if let Some(event) = state.parties.due(&self.world, number) {
                actions.push(Action::Member(number, event));
            }
        }
        if state.parties.can_strike(&self.world) {
            actions.push(Action::Strike);
        }
        if scenario.frames.is_some() {
            actions.extend((0..state.parties.nodes.len()).map(Action::LoseStore));
        }
        for packet in state.network.iter() {
            let first = self.world.packets.first(packet);
            let instants = match self.world.packets.packet(first).to {
                Party::Worker(number) if !members[number].is_acting() => 0,
                Party::Worker(_) => 1,
                Party::Node(_) => self.world.ways(first).len(),
                Party::Store(_) => 0,
            };
            actions.extend((0..instants).map(|instant| Action::Deliver(packet, instant)));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let next = match action {
            Action::Deliver(class, instant) => self.deliver(state, class, instant),
            Action::Member(number, event) => self.happen(state, number, event),
            Action::Strike => self.strike(state),
            Action::LoseStore(node) => self.lose_store(state, node),
        };
        let next = if self.world.scenario.forgets_dead() {
            self.forget_dead(next)
        } else {
            next
        };
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(rules::EXACT, |model, state: &State| {
                let mut members = state.parties.members.iter();
                members.all(|member| !model.world.member(*member).is_wrong())
            }),
            Property::always(rules::AGREEMENT, |model, state: &State| !model.disagree(state)),
            Property::always(rules::QUORUM, |model, state: &State| {
                let mut members = state.parties.members.iter();
                let Policy::Quorum { members: enough, .. } = model.world.scenario.policy else {
                    return true;
                };
                members.all(|member| model.world.member(*member).has_taken_only_of(u32::from(enough)))
            }),
            Property::always(rules::BOUNDARY, |model, state: &State| {
                let mut members = state.parties.members.iter();
                members.all(|member| model.world.member(*member).gave_up_rightly(&model.world.scenario))
            }),
            Property::always(rules::NO_FAILURE, |model, state: &State| {
                let mut members = state.parties.members.iter();
                model.world.scenario.disagrees.is_some()
                    || members.all(|member| !model.world.member(*member).has_failed())
            }),
            Property::always(rules::TERMINATION, |model, state: &State| {
                match model.ending(state) {
                    Ending::Finished { .. } => model.world.scenario.disagrees.is_none(),
                    Ending::Failed => model.world.scenario.disagrees.is_some(),
                    Ending::Stuck => false,
                }
            }),
            Property::always(rules::DIRECTION, |model, state: &State| {
                !state.network.iter().any(|class| model.is_echoed(state, class))
            }),
        ]
    }

    fn format_action(&self, action: &Action) -> String {
        let describe = |class: &ClassId| {
            let packet = self.world.packets.packet(self.world.packets.first(*class));
            let header = packet.header();
            let address = match packet.to {
                Party::Worker(_) => format!("to {:?}", packet.to),
                Party::Node(_) | Party::Store(_) => format!("{:?} to {:?}", packet.from, packet.to),
            };
            format!(
                "{address}: {:?} {:?} slot {} round {} epoch {} set {:?}",
                header.kind, header.flags, header.slot, header.round.0, header.epoch.0, header.set
            )
        };
        match action {
            Action::Deliver(packet, instant) => format!("arrives at {instant}: {}", describe(packet)),
            Action::Member(member, event) => format!("member {member}: {event:?}"),
            Action::Strike => format!("{:?}", self.world.scenario.trouble),
            Action::LoseStore(node) => format!("the store of {node} is lost"),
        }
    }
}

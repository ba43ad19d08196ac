//! The model that is explored: states, what can happen in them, and what must always hold.

use std::collections::HashMap;
use std::sync::RwLock;

use agg_core::Epoch;
use agg_core::wire::Flags;
use stateright::{Model, Property};

use crate::fair::{self, Ending};
use crate::member::Event;
use crate::network::{ClassId, Network, Packet};
use crate::packets::PacketId;
use crate::scenario::{Pace, Scenario, Trouble};
use crate::world::{MemberId, NodeId, World};

/// What no history may lead to, as the checker names it.
pub mod rules {
    /// A block that is neither the member's own nor the exact sum of all members, each once.
    pub const EXACT: &str = "every block a user sees is its own or the exact sum";
    /// Results of one chunk with different bits.
    pub const AGREEMENT: &str = "all results of a chunk have the same bits, replays and epochs included";
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
    members: Vec<MemberId>,
    nodes: Vec<NodeId>,
    restarted: bool,
    network: Network,
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A packet arrives; at an aggregator at one of two instants.
    Deliver(ClassId, usize),
    /// Something happens to a member.
    Member(usize, Event<PacketId>),
    /// The aggregator is replaced by an empty one.
    Restart,
}

/// The endings that were found, by the parties' states.
type Endings = HashMap<(Vec<MemberId>, Vec<NodeId>), Ending>;

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
        let parties = (state.members.clone(), state.nodes.clone());
        if let Some(ending) = self
            .endings
            .read()
            .expect("no panic under the lock")
            .get(&parties)
        {
            return *ending;
        }
        let ending = fair::run(&self.world, &state.members, &state.nodes);
        self.endings
            .write()
            .expect("no panic under the lock")
            .insert(parties, ending);
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

    fn happen(&self, state: &State, number: usize, event: Event<PacketId>) -> State {
        let step = self.world.member_step(state.members[number], event);
        let mut next = state.clone();
        next.members[number] = step.next;
        for packet in step.first.iter().chain(&step.again) {
            next.network.insert(self.world.packets.class(*packet));
        }
        next
    }

    fn deliver(&self, state: &State, class: ClassId, instant: usize) -> State {
        let packet = self.world.packets.first(class);
        let node = match &*self.world.packets.packet(packet) {
            Packet::Down { to, .. } => return self.happen(state, *to, Event::Take(packet)),
            Packet::Up { node, .. } => *node,
        };
        let step = self.world.node_step(state.nodes[node], packet, instant);
        let mut next = state.clone();
        next.nodes[node] = step.next;
        for packet in &step.first {
            next.network.insert(self.world.packets.class(*packet));
        }
        next
    }

    /// The aggregator starts again, empty. Where dead packets are forgotten, those of the first epoch are replaced by
    /// all that they can bring: a refusal to each member that has sent anything.
    fn restart(&self, state: &State) -> State {
        let node = self.world.empty_node(Epoch(2));
        let mut next = State {
            nodes: vec![node],
            restarted: true,
            ..state.clone()
        };
        if !self.world.scenario.forgets_dead() {
            return next;
        }
        for (first, now) in self.world.first_members().into_iter().zip(&state.members) {
            if first == *now {
                continue;
            }
            let sent = self.world.member_step(first, Event::Start);
            for packet in self.world.node_step(node, sent.first[0], 0).first.iter() {
                next.network.insert(self.world.packets.class(*packet));
            }
        }
        next
    }

    fn forget_dead(&self, mut state: State) -> State {
        for (number, member) in state.members.iter().enumerate() {
            state.network = state.network.without(self.world.dead_by_member(*member, number));
        }
        for (number, node) in state.nodes.iter().enumerate() {
            state.network = state.network.without(self.world.dead_by_node(*node, number));
        }
        state
    }

    /// Whether an aggregator would answer this packet although it came from an aggregator.
    fn is_echoed(&self, state: &State, class: ClassId) -> bool {
        let number = self.world.packets.first(class);
        let packet = self.world.packets.packet(number);
        match &*packet {
            Packet::Up { node, .. } if !packet.header().flags.has(Flags::UP) => !self
                .world
                .node_step(state.nodes[*node], number, 0)
                .first
                .is_empty(),
            _ => false,
        }
    }

    fn any_packet(&self, state: &State, is: impl Fn(ClassId) -> bool) -> bool {
        state.network.iter().any(is)
    }
}

impl Model for TributaryModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (members, nodes) = (self.world.first_members(), self.world.first_nodes());
        vec![State {
            members,
            nodes,
            restarted: false,
            network: Network::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let scenario = &self.world.scenario;
        if state
            .members
            .iter()
            .any(|member| self.world.member(*member).is_wrong())
        {
            // Nothing needs to be known of what follows a wrong result.
            return;
        }
        for (number, id) in state.members.iter().enumerate() {
            let member = self.world.member(*id);
            if member.can_start(scenario) {
                actions.push(Action::Member(number, Event::Start));
            }
            if scenario.pace == Pace::Batched {
                actions.extend([Event::Transmit, Event::Alarm].map(|event| Action::Member(number, event)));
            }
            if scenario.trouble == Trouble::FailOver && member.home() == 0 {
                actions.push(Action::Member(number, Event::Redirect));
            }
        }
        if scenario.trouble == Trouble::Restart && !state.restarted {
            actions.push(Action::Restart);
        }
        for packet in state.network.iter() {
            actions.push(Action::Deliver(packet, 0));
            let first = self.world.packets.first(packet);
            if matches!(&*self.world.packets.packet(first), Packet::Up { .. }) {
                actions.push(Action::Deliver(packet, 1));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let next = match action {
            Action::Deliver(class, instant) => self.deliver(state, class, instant),
            Action::Member(number, event) => self.happen(state, number, event),
            Action::Restart => self.restart(state),
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
                state
                    .members
                    .iter()
                    .all(|member| !model.world.member(*member).is_wrong())
            }),
            Property::always(rules::AGREEMENT, |model, state: &State| {
                !model.any_packet(state, |packet| model.world.packets.disagrees(packet))
            }),
            Property::always(rules::NO_FAILURE, |model, state: &State| {
                let mut members = state.members.iter();
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
                !model.any_packet(state, |class| model.is_echoed(state, class))
            }),
        ]
    }

    fn format_action(&self, action: &Action) -> String {
        let describe = |class: &ClassId| {
            let packet = self.world.packets.packet(self.world.packets.first(*class));
            let header = packet.header();
            let address = match &*packet {
                Packet::Up { from, node, .. } => format!("member {from} to aggregator {node}"),
                Packet::Down { to, .. } => format!("to member {to}"),
            };
            format!(
                "{address}: {:?} {:?} slot {} round {} epoch {} set {:?}",
                header.kind, header.flags, header.slot, header.round.0, header.epoch.0, header.set
            )
        };
        match action {
            Action::Deliver(packet, instant) => format!("arrives at {instant}: {}", describe(packet)),
            Action::Member(member, event) => format!("member {member}: {event:?}"),
            Action::Restart => "the aggregator restarts, emptied".into(),
        }
    }
}

//! An aggregator: the real one, or one whose slots break a rule on purpose.

use std::hash::{Hash, Hasher};
use std::sync::Mutex;

use agg_core::round::GENERATIONS;
use agg_core::slot::Head;
use agg_core::wire::{Header, packet_len};
use agg_core::{
    Aggregator, Counter, Endpoint, Epoch, JobConfig, Lanes, Member as JobMember, MemberSet, Policy, Verdict,
};

use crate::member::KEY;
use crate::mutation::Generation;
use crate::network::Packet;
use crate::scenario::Scenario;
use crate::values::LANES;

/// Two instants, each long ago seen from the other in wrap-around time. A slot's last Want was at one of them, so an
/// arrival at that one finds the slot silent (R-SLOT-4) and one at the other does not: both are explored.
pub const INSTANTS: [u64; 2] = [0, 1 << 63];

/// The state of an aggregator: its epoch and its slots.
#[derive(Clone, Debug)]
pub struct Node {
    epoch: Epoch,
    slots: Slots,
}

#[derive(Clone, Debug)]
enum Slots {
    Real { heads: Vec<Head>, values: Vec<i32> },
    Mutant(Vec<Generation>),
}

/// What an aggregator did with a packet.
#[derive(Debug)]
pub struct Handled {
    /// What it sends.
    pub sent: Vec<Packet>,
    /// What it counted.
    pub counter: Option<Counter>,
}

impl Node {
    /// An empty aggregator.
    pub fn new(epoch: Epoch, scenario: &Scenario) -> Self {
        let generations = 2 * usize::from(scenario.window);
        let slots = match scenario
            .mutation
            .is_some_and(|mutation| mutation.aggregator().is_some())
        {
            true => Slots::Mutant(vec![Generation::default(); generations]),
            false => Slots::Real {
                heads: vec![Head::VACANT; generations],
                values: vec![0; generations * LANES],
            },
        };
        Self { epoch, slots }
    }

    /// Its epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What the real one holds for the slot and round of a packet: the header of what would be its result, and
    /// nothing where the generation was never used.
    pub fn held(&self, packet: &Header) -> Option<Header> {
        let Slots::Real { heads, .. } = &self.slots else {
            return None;
        };
        let head = &heads
            [usize::from(packet.slot) * usize::from(GENERATIONS) + packet.round.generation(GENERATIONS)];
        (*head != Head::VACANT).then(|| head.result(KEY, self.epoch, packet.slot))
    }

    /// The aggregator after a packet of `from`, and what it did.
    pub fn after(
        &self,
        bytes: &[u8],
        from: usize,
        now: u64,
        scenario: &Scenario,
        engine: &Engine,
    ) -> (Self, Handled) {
        let mut next = self.clone();
        let mut out = [0; packet_len(LANES)];
        let (verdict, counter) = match &mut next.slots {
            Slots::Real { heads, values } => engine.handle(heads, values, bytes, from, now, &mut out),
            Slots::Mutant(generations) => {
                let broken = scenario.mutation.and_then(|mutation| mutation.aggregator());
                let broken = broken.expect("mutant slots belong to a mutation");
                (
                    broken.handle(generations, self.epoch, scenario, bytes, from, &mut out),
                    None,
                )
            }
        };
        let sent = match verdict {
            Verdict::Quiet => Vec::new(),
            Verdict::Reply { len } => vec![Packet::Down {
                to: from,
                bytes: out[..len].to_vec(),
            }],
            Verdict::Forward { .. } => panic!("the root has no parent"),
            Verdict::Broadcast { len, .. } => (0..scenario.members)
                .map(|to| Packet::Down {
                    to,
                    bytes: out[..len].to_vec(),
                })
                .collect(),
        };
        (next, Handled { sent, counter })
    }

    /// Everything but the times of Wants.
    fn fields(&self) -> impl Eq + Hash + '_ {
        let real = match &self.slots {
            Slots::Real { heads, values } => {
                Some((heads.iter().map(Head::without_time).collect::<Vec<_>>(), values))
            }
            Slots::Mutant(_) => None,
        };
        let mutant = match &self.slots {
            Slots::Real { .. } => None,
            Slots::Mutant(generations) => Some(generations),
        };
        (self.epoch, real, mutant)
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

/// Where a member's packets come from.
pub fn endpoint(member: usize) -> Endpoint {
    Endpoint {
        ip: [0; 16],
        port: member as u16 + 1,
    }
}

/// The one real aggregator of an epoch, with the job in. An aggregator has room for many jobs and is large, so that
/// states of the model hold its slot memory only, which is lent to it for each packet.
#[derive(Debug)]
pub struct Engine(Mutex<Aggregator<Vec<Head>, Vec<i32>>>);

impl Engine {
    /// An aggregator with the scenario's job.
    pub fn new(epoch: Epoch, scenario: &Scenario) -> Self {
        let generations = 2 * usize::from(scenario.window);
        let mut aggregator = Aggregator::new(vec![Head::VACANT; generations], vec![0; generations * LANES]);
        let members = (0..scenario.members).map(|number| JobMember {
            source: endpoint(number),
            set: MemberSet::single(number as u8),
            workers: 1,
        });
        let job = JobConfig {
            key: KEY,
            epoch,
            members: members.collect(),
            lanes: Lanes::L16,
            window: scenario.window,
            generations: GENERATIONS,
            policy: Policy::All,
            parent: None,
            frames: None,
        };
        aggregator.admit(&job).expect("the slots fit the job");
        Self(Mutex::new(aggregator))
    }

    fn handle(
        &self,
        heads: &mut [Head],
        values: &mut [i32],
        bytes: &[u8],
        from: usize,
        now: u64,
        out: &mut [u8],
    ) -> (Verdict, Option<Counter>) {
        let mut aggregator = self.0.lock().expect("no panic under the lock");
        let before = aggregator.counters().clone();
        let memory = aggregator.memory_mut();
        memory.0.clone_from_slice(heads);
        memory.1.copy_from_slice(values);
        let verdict = aggregator.handle(bytes, &endpoint(from), now, out);
        let memory = aggregator.memory();
        heads.clone_from_slice(memory.0);
        values.copy_from_slice(memory.1);
        let counted = aggregator
            .counters()
            .iter()
            .find(|(counter, count)| *count != before.get(*counter));
        (verdict, counted.map(|(counter, _)| counter))
    }
}

//! What is explored: how many members, which operations, and what may happen besides loss, duplication and
//! reordering.

use agg_core::round::GENERATIONS;
use agg_core::{MemberSet, Policy};

use crate::mutation::{AggregatorMutation, Mutation, WorkerMutation};
use crate::topology::Topology;
use crate::values::Step;

/// What can befall the aggregators or a worker, once, at any moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Nothing.
    None,
    /// The aggregator is replaced by an empty one of the next epoch under the same address, and nobody is told.
    Restart,
    /// A second aggregator of the next epoch stands by under an address of its own. Each member goes over to it by
    /// itself at any moment, or is moved by a Want; the first one runs on and serves who stays.
    FailOver,
    /// All aggregators are replaced by the empty ones of the second topology; workers are told one after the other
    /// (R-REFORM-1, R-REFORM-2).
    Reform,
    /// As [`Trouble::Reform`], since this worker died (R-REFORM-3).
    Shrink(usize),
    /// This worker, of a job under a quorum, dies and is removed (R-QUORUM-5).
    Exclude(usize),
}

/// When a worker's host sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// After each packet that it takes.
    Prompt,
    /// After any number of packets, and timers may fire in between.
    Batched,
}

/// One configuration of the model.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name in reports.
    pub name: String,
    /// How many workers.
    pub members: usize,
    /// The aggregators before and, where there is to be any, after the trouble.
    pub topologies: Vec<Topology>,
    /// When a slot is complete.
    pub policy: Policy,
    /// Rounds that a slot remembers.
    pub generations: u16,
    /// Slots.
    pub window: u16,
    /// Chunks of near memory, where there is a store (R-SPILL).
    pub frames: Option<u32>,
    /// The number of the first chunk: rounds wrap where it is high.
    pub first_chunk: u64,
    /// The operations that all members call.
    pub script: Vec<Step>,
    /// What the last member calls instead, if its ranks disagree.
    pub disagrees: Option<Vec<Step>>,
    /// What can befall the aggregator.
    pub trouble: Trouble,
    /// When workers send.
    pub pace: Pace,
    /// Whether users may announce their next operation while one runs (R-OP-7).
    pub announces: bool,
    /// Whether members' addresses send back what they get: an aggregator must not answer that.
    pub reflects: bool,
    /// Whether packets stay in the network that can do nothing any more.
    pub remembers_dead: bool,
    /// The rule that is broken on purpose.
    pub mutation: Option<Mutation>,
}

impl Scenario {
    /// A calm scenario: packets are lost, duplicated and reordered, but the one aggregator stays.
    pub fn new(name: &str, members: usize, window: u16, script: Vec<Step>) -> Self {
        Self {
            name: name.into(),
            members,
            topologies: vec![Topology::flat(&(0..members).collect::<Vec<_>>())],
            policy: Policy::All,
            generations: GENERATIONS,
            window,
            frames: None,
            first_chunk: 0,
            script,
            disagrees: None,
            trouble: Trouble::None,
            pace: Pace::Prompt,
            announces: false,
            reflects: false,
            remembers_dead: false,
            mutation: None,
        }
    }

    /// The same with other aggregators.
    pub fn over(self, topology: Topology) -> Self {
        Self {
            topologies: vec![topology],
            ..self
        }
    }

    /// The same with trouble, after which the aggregators are as before, but for who died.
    pub fn with(self, trouble: Trouble) -> Self {
        let before = self.topologies[0].clone();
        let survivors: Vec<_> = (0..self.members)
            .filter(|worker| trouble != Trouble::Shrink(*worker))
            .collect();
        let topologies = match trouble {
            Trouble::None | Trouble::Exclude(_) => vec![before],
            Trouble::FailOver => vec![Topology::twice(&survivors)],
            Trouble::Restart | Trouble::Reform => vec![before.clone(), before.clone().after(&before)],
            Trouble::Shrink(_) => vec![before.clone(), Topology::flat(&survivors).after(&before)],
        };
        Self {
            trouble,
            topologies,
            ..self
        }
    }

    /// The same, re-formed at any moment as `topology`.
    pub fn reforming(self, topology: Topology) -> Self {
        let before = self.topologies[0].clone();
        Self {
            topologies: vec![before.clone(), topology.after(&before)],
            trouble: Trouble::Reform,
            ..self
        }
    }

    /// The same; this worker dies at any moment, and the survivors re-form as `topology`.
    pub fn shrinking(self, worker: usize, topology: Topology) -> Self {
        Self {
            trouble: Trouble::Shrink(worker),
            ..self.reforming(topology)
        }
    }

    /// The same with slots that are let go with `members`, and so many generations.
    pub fn quorum(self, members: u8, grace: u64, generations: u16) -> Self {
        Self {
            policy: Policy::Quorum { members, grace },
            generations,
            ..self
        }
    }

    /// The same with so few frames, and a store.
    pub fn spilling(self, frames: u32) -> Self {
        Self {
            frames: Some(frames),
            ..self
        }
    }

    /// The same with a rule broken.
    pub fn breaking(self, mutation: Mutation) -> Self {
        Self {
            mutation: Some(mutation),
            ..self
        }
    }

    /// The same with users who know their next operation before the last has ended.
    pub fn announcing(self) -> Self {
        Self {
            announces: true,
            ..self
        }
    }

    /// The same with hosts that take several packets before they send.
    pub fn batched(self) -> Self {
        Self {
            pace: Pace::Batched,
            ..self
        }
    }

    /// What this member calls.
    pub fn script(&self, member: usize) -> &[Step] {
        match &self.disagrees {
            Some(script) if member + 1 == self.members => script,
            _ => &self.script,
        }
    }

    /// The worker that the trouble kills, if it kills one.
    pub fn casualty(&self) -> Option<usize> {
        match self.trouble {
            Trouble::Shrink(worker) | Trouble::Exclude(worker) => Some(worker),
            _ => None,
        }
    }

    /// Every worker, as a set of ranks.
    pub fn everybody(&self) -> MemberSet {
        MemberSet::first(self.members as u8)
    }

    /// Those that the trouble leaves.
    pub fn survivors(&self) -> MemberSet {
        let casualty = self.casualty().map(|worker| MemberSet::single(worker as u8));
        self.everybody().without(casualty.unwrap_or_default())
    }

    /// Whether a chunk can have another result in another history.
    pub fn results_vary(&self) -> bool {
        self.policy.keeps_history() || matches!(self.trouble, Trouble::Shrink(_))
    }

    /// Whether a result's set depends on the aggregator that it comes from.
    pub fn sets_vary(&self) -> bool {
        self.topologies.iter().any(|topology| topology.nodes() > 1) && self.trouble != Trouble::FailOver
            || matches!(self.trouble, Trouble::Reform | Trouble::Shrink(_))
    }

    /// Whether packets that can do nothing any more are taken out of the network (see [`crate::dead`]).
    pub fn forgets_dead(&self) -> bool {
        let as_always = [
            Mutation::Aggregator(AggregatorMutation::Faithful),
            // What it changes is not what packets do.
            Mutation::Worker(WorkerMutation::HideAhead),
        ];
        let plain = self.mutation.is_none_or(|mutation| as_always.contains(&mutation))
            && self.pace == Pace::Prompt
            && !self.reflects;
        plain && self.disagrees.is_none() && !self.remembers_dead
    }

    /// Chunks of the operations before this one.
    pub fn chunks_before(&self, seq: usize) -> usize {
        let steps = self.script.iter().take(seq);
        steps.map(|step| step.chunks(self.window)).sum()
    }

    /// Chunks of the whole script.
    pub fn chunks(&self) -> usize {
        self.chunks_before(self.script.len())
    }
}

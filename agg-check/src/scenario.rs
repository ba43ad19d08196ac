//! What is explored: how many members, which operations, and what may happen besides loss, duplication and
//! reordering.

use crate::mutation::Mutation;
use crate::values::Step;

/// What can befall the aggregator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Nothing.
    None,
    /// Once, at any moment, it is replaced by an empty one of the next epoch under the same address.
    Restart,
    /// A second aggregator of the next epoch stands by under an address of its own. Each member goes over to it by
    /// itself at any moment, or is moved by a Want; the first one runs on and serves who stays.
    FailOver,
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
    /// Slots.
    pub window: u16,
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
    /// Whether members' addresses send back what they get: an aggregator must not answer that.
    pub reflects: bool,
    /// Whether packets stay in the network that can do nothing any more.
    pub remembers_dead: bool,
    /// The rule that is broken on purpose.
    pub mutation: Option<Mutation>,
}

impl Scenario {
    /// A calm scenario: packets are lost, duplicated and reordered, but the aggregator stays.
    pub fn new(name: &str, members: usize, window: u16, script: Vec<Step>) -> Self {
        Self {
            name: name.into(),
            members,
            window,
            first_chunk: 0,
            script,
            disagrees: None,
            trouble: Trouble::None,
            pace: Pace::Prompt,
            reflects: false,
            remembers_dead: false,
            mutation: None,
        }
    }

    /// The same with trouble.
    pub fn with(self, trouble: Trouble) -> Self {
        Self { trouble, ..self }
    }

    /// The same with a rule broken.
    pub fn breaking(self, mutation: Mutation) -> Self {
        Self {
            mutation: Some(mutation),
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

    /// How many aggregators there are.
    pub fn nodes(&self) -> usize {
        match self.trouble {
            Trouble::FailOver => 2,
            Trouble::None | Trouble::Restart => 1,
        }
    }

    /// What this member calls.
    pub fn script(&self, member: usize) -> &[Step] {
        match &self.disagrees {
            Some(script) if member + 1 == self.members => script,
            _ => &self.script,
        }
    }

    /// Whether packets that can do nothing any more are taken out of the network (see [`crate::dead`]).
    pub fn forgets_dead(&self) -> bool {
        let plain = self.mutation.is_none() && self.pace == Pace::Prompt && !self.reflects;
        plain && self.disagrees.is_none() && !self.remembers_dead
    }

    /// Chunks of the whole script.
    pub fn chunks(&self) -> usize {
        let headers = |step: &Step| match step.kind {
            agg_core::OpKind::SumF32 => step.blocks.min(usize::from(self.window)),
            _ => 0,
        };
        self.script.iter().map(|step| step.blocks + headers(step)).sum()
    }
}

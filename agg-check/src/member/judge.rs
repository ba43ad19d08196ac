//! Whether what a member's user sees is right.

use super::{Member, Standing};
use crate::scenario::Scenario;
use crate::values::{Data, Step};

impl Member {
    /// Whether two have taken different results of one chunk.
    pub fn disagrees(&self, other: &Self) -> bool {
        let mut both = self
            .taken
            .iter()
            .filter_map(|(chunk, taken)| Some((taken, other.taken.get(chunk)?)));
        both.any(|(mine, theirs)| mine != theirs)
    }

    /// Whether all results that it took stand for so many members at least, and for as many workers.
    pub fn has_taken_only_of(&self, members: u32) -> bool {
        let mut taken = self.taken.values();
        taken.all(|(set, workers, _)| set.len() >= members && *workers == set.len())
    }

    /// Whether the operation that it gave up is the one that all do, as far as it has come.
    pub fn gave_up_rightly(&self, scenario: &Scenario) -> bool {
        let given_up = match self.standing {
            Standing::Rejoined(Some(boundary)) => Some(boundary.operation as usize),
            _ => None,
        };
        let due = given_up.filter(|seq| *seq < self.started && *seq < scenario.script.len());
        self.abandoned == due
    }

    pub(super) fn contribution(&self, step: Step, seq: usize, scenario: &Scenario) -> Data {
        step.contribution(
            seq,
            self.number,
            scenario.members,
            scenario.policy.keeps_history(),
        )
    }

    /// While an operation runs each block is the member's own or the exact sum; afterwards all are the sum. What an
    /// operation leaves that ended without a result is nobody's to use.
    pub(super) fn is_exact(&self, scenario: &Scenario) -> bool {
        let Some(seq) = self
            .started
            .checked_sub(1)
            .filter(|seq| self.abandoned != Some(*seq))
        else {
            return true;
        };
        let step = scenario.script(self.number)[seq];
        let own = self.contribution(step, seq, scenario);
        let sum = self.sum(step, seq, scenario);
        if self.is_idle() {
            self.data == sum
        } else {
            self.data.is_between(&own, &sum)
        }
    }

    /// What is to come back: the sum of all members that the job had when the operation began, or of those whom the
    /// results say that they hold.
    fn sum(&self, step: Step, seq: usize, scenario: &Scenario) -> Data {
        if scenario.policy.keeps_history() && step.kind.is_scaled() {
            let first = scenario.chunks_before(seq) + step.headers(scenario.window);
            let of = |block: usize| {
                let taken = self.taken.get(&((first + block) as u64));
                taken.map_or(scenario.everybody(), |(set, ..)| *set)
            };
            return step.estimate(seq, of, scenario.members);
        }
        let of = match self.standing {
            Standing::Rejoined(Some(boundary)) if seq > boundary.operation as usize => scenario.survivors(),
            _ => scenario.everybody(),
        };
        step.sum_of(seq, of, scenario.members)
    }
}

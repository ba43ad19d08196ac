//! Members that are not heard any more.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Job, Record, since, title};
use crate::attached::At;
use crate::messages::{OnLost, Policy, RankState};
use crate::plane::{AbortKind, AbortReason, DataPlane};

/// What has to be done about lost members.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::registry) enum Loss {
    /// Nobody was lost, or the job has ended or goes on without them by now.
    Settled { changed: bool },
    /// The job comes together again, without these ranks.
    Reform { lost: BTreeSet<u32> },
}

impl Job {
    /// Looks for members that were not heard for longer than `lost_after`.
    pub(in crate::registry) fn lose(
        &mut self,
        lost_after: Duration,
        plane: &dyn DataPlane,
        now: Instant,
    ) -> Loss {
        // While a job re-forms, who does not register again is lost.
        if !self.is_running() || self.reforming {
            return Loss::Settled { changed: false };
        }
        let lost = self.silent(lost_after, now);
        if lost.is_empty() {
            return Loss::Settled { changed: false };
        }
        let reason = self.reason(&lost, now);
        let (children, workers): (Vec<_>, Vec<_>) = lost
            .iter()
            .copied()
            .partition(|index| self.members[*index].applicant.child);
        let survivors = self.live_members().count() - lost.len();
        let shrinks = self.on_lost == OnLost::Shrink;
        if (survivors == 0 && children.is_empty()) || (!shrinks && !workers.is_empty()) {
            self.mark(&lost);
            if shrinks {
                // The ranks of other aggregators go on: the parent finds out by itself.
                self.upstream = None;
            }
            self.end(reason, plane, now);
            return Loss::Settled { changed: true };
        }
        if let Policy::Quorum { members, .. } = self.spec.policy {
            self.mark(&lost);
            if survivors < usize::from(members) {
                let text = format!(
                    "{reason}: {survivors} members remain, the quorum needs {members}: start the job again"
                );
                self.end(AbortReason { text, ..reason }, plane, now);
            } else {
                self.exclude(&lost, &reason, plane);
            }
            return Loss::Settled { changed: true };
        }
        // The ranks of a lost aggregator may come by another way, whatever is to be done about lost ranks.
        tracing::warn!(world = self.spec.name, children = children.len(), "{reason}");
        self.mark(&workers);
        let without = |index: usize| Some(self.farewell(index, &reason));
        let farewells: Vec<_> = workers.iter().map(|index| without(*index)).collect();
        for (index, farewell) in workers.iter().zip(farewells) {
            self.members[*index].excluded = farewell;
        }
        Loss::Reform {
            lost: self.ranks_of(&workers),
        }
    }

    fn silent(&self, lost_after: Duration, now: Instant) -> Vec<usize> {
        let is_lost = |record: &Record| {
            since(record.heard, now) > lost_after
                && !matches!(record.state, RankState::Left | RankState::Lost)
        };
        let mut lost: Vec<usize> = (0..self.members.len())
            .filter(|index| is_lost(&self.members[*index]))
            .collect();
        lost.sort_by_key(|index| (Reverse(since(self.members[*index].heard, now)), *index));
        lost
    }

    fn mark(&mut self, lost: &[usize]) {
        for index in lost {
            self.members[*index].state = RankState::Lost;
        }
    }

    fn exclude(&mut self, lost: &[usize], reason: &AbortReason, plane: &dyn DataPlane) {
        tracing::warn!(
            world = self.spec.name,
            "the job goes on without a member: {reason}"
        );
        for index in lost {
            plane.exclude(self.spec.key, *index as u8);
            self.members[*index].excluded = Some(self.farewell(*index, reason));
        }
    }

    fn farewell(&self, index: usize, reason: &AbortReason) -> AbortReason {
        AbortReason {
            rank: Some(self.members[index].applicant.rank()),
            kind: AbortKind::Lost,
            text: format!("{reason}: the job goes on without it"),
        }
    }

    fn ranks_of(&self, members: &[usize]) -> BTreeSet<u32> {
        members
            .iter()
            .flat_map(|index| self.members[*index].applicant.ranks.iter().copied())
            .collect()
    }

    /// Names the member that was silent for longest, and then the others.
    fn reason(&self, lost: &[usize], now: Instant) -> AbortReason {
        let first = &self.members[lost[0]];
        let mut text = format!(
            "{} ({}) not heard for {:.1} s",
            title(&first.applicant),
            At(first.applicant.endpoints[0]),
            since(first.heard, now).as_secs_f64()
        );
        let others = lost[1..].iter().map(|index| &self.members[*index].applicant);
        let (children, workers): (Vec<_>, Vec<_>) = others.partition(|other| other.child);
        let ranks: Vec<u32> = workers.iter().map(|worker| worker.rank()).collect();
        if !ranks.is_empty() {
            text += &format!(", nor {}", crate::refusal::Ranks(&ranks));
        }
        for child in children {
            text += &format!(", nor {}", title(child));
        }
        AbortReason {
            rank: Some(first.applicant.rank()),
            kind: AbortKind::Lost,
            text,
        }
    }
}

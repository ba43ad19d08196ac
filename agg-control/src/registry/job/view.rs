//! What an operator sees of a job.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Job, Record, since};
use crate::messages::{JobStatus, RankState, RankStatus};
use crate::plane::MemberLag;

impl Job {
    /// `lags` are by member number; `missing` are the ranks that have yet to register again.
    pub(in crate::registry) fn status(
        &self,
        lags: &[MemberLag],
        missing: &BTreeSet<u32>,
        now: Instant,
    ) -> JobStatus {
        let shown = |(number, record): (usize, &Record)| {
            let lag = lags.get(number).copied().unwrap_or_default();
            RankStatus {
                rank: record.applicant.rank(),
                ranks: record.applicant.ranks.clone(),
                child: record.applicant.child,
                state: self.state(record, missing),
                address: record.applicant.endpoints[0],
                heard: since(record.heard, now),
                progress: record.progress,
                lag_chunks: lag.chunks,
                lag: Duration::from_micros(lag.waiting.as_micros() as u64), // as it is sent
            }
        };
        let excluded = self.members.iter().filter(|member| member.excluded.is_some());
        let excluded: usize = excluded.map(|member| member.applicant.ranks.len()).sum();
        JobStatus {
            name: self.spec.name.clone(),
            size: self.size,
            workers: self.spec.workers.saturating_sub(excluded as u32),
            lanes: self.spec.lanes,
            window: self.spec.window,
            generations: self.spec.generations,
            streams: self.spec.streams,
            policy: self.spec.policy,
            priority: self.priority,
            weight: self.spec.weight,
            age: since(self.started, now),
            ranks: self.members.iter().enumerate().map(shown).collect(),
            aborted: self.abort_reason().cloned(),
        }
    }

    fn state(&self, record: &Record, missing: &BTreeSet<u32>) -> RankState {
        let is_missing = record.applicant.ranks.iter().any(|rank| missing.contains(rank));
        match record.state {
            RankState::Left | RankState::Lost => record.state,
            _ if self.is_reforming() && is_missing => RankState::Reforming,
            state => state,
        }
    }
}

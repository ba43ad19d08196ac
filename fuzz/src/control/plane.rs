//! A data plane without packets that believes nothing of what it is told.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agg_control::{AbortReason, AdmitError, Capabilities, DataPlane, JobSpec, ShardCounters};

/// The data plane. It panics when it is told what cannot be.
#[derive(Debug)]
pub(super) struct Plane {
    host: Capabilities,
    failing: u8,
    state: Mutex<State>,
}

/// What it was told.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Jobs that were admitted and not released.
    pub(super) held: Vec<JobSpec>,
    /// Jobs that were ever admitted.
    pub(super) admitted: Vec<JobSpec>,
    aborted: BTreeSet<u64>,
    asked: u64,
}

impl Plane {
    pub(super) fn new(host: Capabilities, failing: u8) -> Self {
        let state = Mutex::default();
        Self { host, failing, state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, job: &JobSpec) {
        assert!(job.key != 0, "the key 0: {job:?}");
        assert!(
            job.window.is_power_of_two() && job.window >= 2,
            "the window of {job:?}"
        );
        assert!(
            self.host.lanes.contains(&job.lanes),
            "lanes that the host has not: {job:?}"
        );
        assert!(
            (1..=self.host.shards).contains(&job.streams),
            "streams of {job:?}"
        );
        assert!((1..=64).contains(&job.members.len()), "members of {job:?}");
        let addresses: BTreeSet<_> = job.members.iter().flatten().collect();
        let expected = job.members.len() * usize::from(job.streams);
        assert_eq!(
            addresses.len(),
            expected,
            "an address for each rank and stream: {job:?}"
        );
        assert!(
            addresses.iter().all(|address| address.port() != 0),
            "a port of {job:?}"
        );
    }
}

impl DataPlane for Plane {
    fn describe(&self) -> Capabilities {
        self.host.clone()
    }

    fn admit(&self, job: &JobSpec) -> Result<(), AdmitError> {
        self.check(job);
        let free = self.free_memory();
        assert!(
            job.memory_per_shard() <= free,
            "{free} bytes are free for {job:?}"
        );
        let mut state = self.state();
        assert!(
            !state.held.iter().any(|held| held.key == job.key),
            "a key given twice"
        );
        state.asked += 1;
        if self.failing > 0 && state.asked.is_multiple_of(self.failing.into()) {
            return Err(AdmitError::TooManyJobs { limit: 3 });
        }
        state.held.push(job.clone());
        state.admitted.push(job.clone());
        Ok(())
    }

    fn abort(&self, key: u64, reason: &AbortReason) {
        let mut state = self.state();
        assert!(
            state.held.iter().any(|held| held.key == key),
            "abort of a job that is not held"
        );
        assert!(state.aborted.insert(key), "aborted twice: {reason}");
    }

    fn release(&self, key: u64) {
        let mut state = self.state();
        let before = state.held.len();
        state.held.retain(|held| held.key != key);
        assert_eq!(state.held.len() + 1, before, "release of a job that is not held");
    }

    fn counters(&self) -> Vec<ShardCounters> {
        let values = vec![("contributions_merged".to_owned(), u64::MAX)];
        (0..self.host.shards)
            .map(|shard| ShardCounters {
                shard,
                values: values.clone(),
            })
            .collect()
    }

    fn free_memory(&self) -> u64 {
        let used: u64 = self.state().held.iter().map(JobSpec::memory_per_shard).sum();
        self.host.memory_per_shard - used
    }
}

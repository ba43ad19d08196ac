//! A data plane without packets that believes nothing of what it is told.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agg_control::{
    AbortReason, AdmitError, Capabilities, DataPlane, JobSpec, MOST_MEMBERS, MemberLag, Policy,
    ShardCounters, Uplink,
};

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
    pub(super) held: Vec<Held>,
    /// All that was ever admitted.
    pub(super) admitted: Vec<Admitted>,
    asked: u64,
}

/// A job that has slots.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) spec: JobSpec,
    pub(super) suspended: bool,
    aborted: bool,
    excluded: BTreeSet<u8>,
}

/// An admission.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) spec: JobSpec,
    /// The job did not run here before.
    pub(super) new: bool,
}

impl State {
    /// Jobs of this name whose packets are not refused for good.
    pub(super) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Held> {
        self.held
            .iter()
            .filter(move |held| !held.aborted && held.spec.name == name)
    }

    fn of(&mut self, key: u64, call: &str) -> &mut Held {
        let held = self.held.iter_mut().find(|held| held.spec.key == key);
        held.unwrap_or_else(|| panic!("{call} of a job that is not held"))
    }
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
            job.generations.is_power_of_two() && (2..=64).contains(&job.generations),
            "the generations of {job:?}"
        );
        assert!(
            self.host.lanes.contains(&job.lanes),
            "lanes that the host has not: {job:?}"
        );
        assert!(
            (1..=self.host.shards).contains(&job.streams),
            "streams of {job:?}"
        );
        assert!((1..=1000).contains(&job.weight), "the weight of {job:?}");
        assert!(job.parent.is_none(), "a parent of {job:?}");
        check_members(job);
    }

    /// A job that forms again keeps its slots, and its packets must not be taken for those of before.
    fn check_again(held: &Held, job: &JobSpec) {
        assert!(held.suspended && !held.aborted, "a key given twice: {job:?}");
        assert!(job.epoch > held.spec.epoch, "an epoch given twice: {job:?}");
        let expected = JobSpec {
            epoch: job.epoch,
            members: job.members.clone(),
            workers: job.workers,
            ..held.spec.clone()
        };
        assert_eq!(*job, expected, "the job has changed");
    }
}

/// Members are in the order of their lowest ranks, and nobody is two of them.
fn check_members(job: &JobSpec) {
    let count = job.members.len();
    assert!((1..=MOST_MEMBERS).contains(&count), "members of {job:?}");
    let mut ranks: BTreeSet<&u32> = BTreeSet::new();
    let mut addresses: BTreeSet<&SocketAddr> = BTreeSet::new();
    let mut lowest = None;
    for member in &job.members {
        let first = member.ranks.first().copied();
        assert!(first > lowest, "the order of the members of {job:?}");
        lowest = first;
        assert!(
            member.ranks.is_sorted_by(|one, next| one < next),
            "ranks of {job:?}"
        );
        assert_eq!(member.workers as usize, member.ranks.len(), "workers of {job:?}");
        assert_eq!(
            member.endpoints.len(),
            usize::from(job.streams),
            "addresses of {job:?}"
        );
        ranks.extend(&member.ranks);
        addresses.extend(&member.endpoints);
    }
    assert_eq!(ranks.len(), job.workers as usize, "workers of {job:?}");
    let expected = count * usize::from(job.streams);
    assert_eq!(
        addresses.len(),
        expected,
        "an address for each member and stream: {job:?}"
    );
    assert!(
        addresses.iter().all(|address| address.port() != 0),
        "a port of {job:?}"
    );
    if let Policy::Quorum { members, .. } = job.policy {
        assert!(
            members > 0 && usize::from(members) <= count,
            "the quorum of {job:?}"
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
        let mut state = self.state();
        let before = state.held.iter().position(|held| held.spec.key == job.key);
        match before {
            Some(index) => Self::check_again(&state.held[index], job),
            None => assert!(
                job.memory_per_shard() <= free,
                "{free} bytes are free for {job:?}"
            ),
        }
        state.asked += 1;
        if self.failing > 0 && state.asked.is_multiple_of(self.failing.into()) {
            return Err(AdmitError::TooManyJobs { limit: 3 });
        }
        if let Some(index) = before {
            state.held.swap_remove(index);
        }
        state.held.push(Held {
            spec: job.clone(),
            suspended: false,
            aborted: false,
            excluded: BTreeSet::new(),
        });
        state.admitted.push(Admitted {
            spec: job.clone(),
            new: before.is_none(),
        });
        Ok(())
    }

    fn suspend(&self, key: u64) {
        let mut state = self.state();
        let held = state.of(key, "suspension");
        assert!(!held.aborted, "suspension of a job that was aborted");
        assert!(
            !std::mem::replace(&mut held.suspended, true),
            "suspended twice: {held:?}"
        );
    }

    fn exclude(&self, key: u64, member: u8) {
        let mut state = self.state();
        let held = state.of(key, "exclusion from");
        let under_a_quorum = matches!(held.spec.policy, Policy::Quorum { .. });
        assert!(
            under_a_quorum && !held.aborted,
            "exclusion of {member} from {held:?}"
        );
        assert!(
            usize::from(member) < held.spec.members.len(),
            "{member} of {held:?}"
        );
        assert!(
            held.excluded.insert(member),
            "excluded twice: {member} of {held:?}"
        );
    }

    fn abort(&self, key: u64, reason: &AbortReason) {
        let mut state = self.state();
        let held = state.of(key, "abort");
        assert!(
            !std::mem::replace(&mut held.aborted, true),
            "aborted twice: {reason}"
        );
    }

    fn release(&self, key: u64) {
        let mut state = self.state();
        let before = state.held.len();
        state.held.retain(|held| held.spec.key != key);
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
        let state = self.state();
        let used: u64 = state.held.iter().map(|held| held.spec.memory_per_shard()).sum();
        self.host.memory_per_shard - used
    }

    /// Of a member more than there are, and of one less.
    fn lags(&self, key: u64) -> Vec<MemberLag> {
        let members = self
            .state()
            .held
            .iter()
            .find(|held| held.spec.key == key)
            .map_or(0, |held| held.spec.members.len());
        let lag = MemberLag {
            chunks: u64::MAX,
            waiting: Duration::from_nanos(key),
        };
        vec![lag; (members + usize::from(key.is_multiple_of(2))).saturating_sub(1)]
    }

    fn local_endpoints(&self, parent_data: SocketAddr) -> Result<Uplink, String> {
        Err(format!(
            "a root has nothing to do with the parent at {parent_data}"
        ))
    }

    /// Told apart from the keys of jobs that ran elsewhere.
    fn pick_key(&self, random: u64) -> u64 {
        random | 1 << 63
    }
}

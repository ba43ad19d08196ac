//! A data plane without packets, which remembers what it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agg_control::{
    AbortReason, AdmitError, Capabilities, DataPlane, HostKind, JobSpec, MemberLag, ShardCounters, Uplink,
};

/// Bytes per shard.
pub(crate) const MEMORY: u64 = 8 << 20;

pub(crate) struct FakePlane {
    pub(crate) capabilities: Capabilities,
    pub(crate) jobs: Mutex<BTreeMap<u64, JobSpec>>,
    pub(crate) aborted: Mutex<Vec<AbortReason>>,
    pub(crate) suspended: Mutex<BTreeSet<u64>>,
    pub(crate) excluded: Mutex<Vec<(u64, u8)>>,
    pub(crate) broken: bool,
}

impl FakePlane {
    pub(crate) fn new() -> Self {
        let capabilities = Capabilities {
            kind: HostKind::Udp,
            version: "1.2.3".into(),
            epoch: 7,
            data_ip: None,
            base_port: 4100,
            shards: 4,
            lanes: vec![256, 352, 848, 2048, 8192],
            memory_per_shard: MEMORY,
            receive_buffer: 4 << 20,
            receive_ring: 0,
            answers_probes: true,
            shared_memory: String::new(),
        };
        Self {
            capabilities,
            jobs: Mutex::default(),
            aborted: Mutex::default(),
            suspended: Mutex::default(),
            excluded: Mutex::default(),
            broken: false,
        }
    }

    #[allow(dead_code)] // not every test binary looks at it
    pub(crate) fn shared() -> Arc<Self> {
        Arc::new(Self::new())
    }

    pub(crate) fn admitted(&self) -> usize {
        self.jobs.lock().unwrap().len()
    }
}

impl DataPlane for FakePlane {
    fn describe(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn admit(&self, job: &JobSpec) -> Result<(), AdmitError> {
        if self.broken {
            return Err(AdmitError::TooManyJobs { limit: 3 });
        }
        let mut jobs = self.jobs.lock().unwrap();
        let suspended = self.suspended.lock().unwrap().remove(&job.key);
        assert_eq!(jobs.contains_key(&job.key), suspended, "key given twice");
        jobs.insert(job.key, job.clone());
        Ok(())
    }

    fn suspend(&self, key: u64) {
        assert!(
            self.jobs.lock().unwrap().contains_key(&key),
            "suspends an unknown job"
        );
        self.suspended.lock().unwrap().insert(key);
    }

    fn exclude(&self, key: u64, member: u8) {
        let jobs = self.jobs.lock().unwrap();
        assert!(
            usize::from(member) < jobs[&key].members.len(),
            "excludes an unknown member"
        );
        self.excluded.lock().unwrap().push((key, member));
    }

    fn abort(&self, key: u64, reason: &AbortReason) {
        assert!(
            self.jobs.lock().unwrap().contains_key(&key),
            "abort of a job that was released"
        );
        self.aborted.lock().unwrap().push(reason.clone());
    }

    fn release(&self, key: u64) {
        assert!(self.jobs.lock().unwrap().remove(&key).is_some(), "released twice");
        self.suspended.lock().unwrap().remove(&key);
    }

    fn counters(&self) -> Vec<ShardCounters> {
        (0..2)
            .map(|shard| ShardCounters {
                shard,
                values: vec![("merged".into(), 10 + u64::from(shard))],
            })
            .collect()
    }

    fn free_memory(&self) -> u64 {
        let used: u64 = self
            .jobs
            .lock()
            .unwrap()
            .values()
            .map(JobSpec::memory_per_shard)
            .sum();
        MEMORY - used
    }

    fn lags(&self, key: u64) -> Vec<MemberLag> {
        let jobs = self.jobs.lock().unwrap();
        let members = jobs.get(&key).map_or(0, |job| job.members.len() as u64);
        let lag = |member| MemberLag {
            chunks: 10 * member,
            waiting: Duration::from_millis(member),
        };
        (0..members).map(lag).collect()
    }

    fn local_endpoints(&self, parent_data: SocketAddr) -> Result<Uplink, String> {
        let port = |shard| SocketAddr::new(parent_data.ip(), self.capabilities.base_port + shard);
        Ok(Uplink {
            endpoints: (0..self.capabilities.shards).map(port).collect(),
            max_datagram: 1472,
        })
    }
}

//! A data plane without packets, which remembers what it was told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use agg_control::{
    AbortReason, AdmitError, Capabilities, DataPlane, HostKind, JobSpec, ShardCounters, slot_memory,
};

/// Bytes per shard.
pub(crate) const MEMORY: u64 = 8 << 20;

pub(crate) struct FakePlane {
    pub(crate) capabilities: Capabilities,
    pub(crate) jobs: Mutex<BTreeMap<u64, JobSpec>>,
    pub(crate) aborted: Mutex<Vec<AbortReason>>,
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
        };
        Self {
            capabilities,
            jobs: Mutex::default(),
            aborted: Mutex::default(),
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
        assert!(
            self.jobs.lock().unwrap().insert(job.key, job.clone()).is_none(),
            "key given twice"
        );
        Ok(())
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
            .map(|job| slot_memory(job.lanes, job.window))
            .sum();
        MEMORY - used
    }
}

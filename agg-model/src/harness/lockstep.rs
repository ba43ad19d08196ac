//! The real aggregator and the model, one beside the other.

use std::collections::{BTreeMap, BTreeSet};

use agg_core::slot::Head;
use agg_core::{
    Abort, AbortCause, Aggregator, Endpoint, Epoch, Job, JobConfig, Lanes, Member, MemberSet, Parent, Policy,
    Verdict,
};

use crate::packet::{HEADER, bits, members};
use crate::{ModelAggregator, ModelJob, ModelSend, ModelVerdict, Source, To};

/// Counters of what has no model: near memory before a store (R-SPILL) changes nothing that is sent but when.
pub const WITHOUT_MODEL: [&str; 4] = [
    "sums_put_into_store",
    "sums_recalled_from_store",
    "results_forgotten",
    "dropped_no_free_frame",
];

/// What the output buffer holds before: a byte that was not written shows.
const UNWRITTEN: u8 = 0xa5;

/// An aggregator and its model. Every method panics where they differ.
#[derive(Clone, Debug)]
pub struct Lockstep {
    core: Aggregator<Vec<Head>, Vec<i32>>,
    model: ModelAggregator,
    /// What the model counted since the last start.
    counted: BTreeMap<&'static str, u64>,
    /// What it counted before.
    earlier: BTreeMap<&'static str, u64>,
    heads: usize,
    lanes: usize,
    /// When the last packet came.
    now: u64,
}

impl Lockstep {
    /// Both with memory for `heads` generations and `lanes` values.
    pub fn new(heads: usize, lanes: usize) -> Self {
        Self {
            core: Aggregator::new(vec![Head::VACANT; heads], vec![0; lanes]),
            model: ModelAggregator::new(heads, lanes),
            counted: BTreeMap::new(),
            earlier: BTreeMap::new(),
            heads,
            lanes,
            now: 0,
        }
    }

    /// Both with memory for just these jobs, all admitted.
    pub fn with_jobs(jobs: &[ModelJob]) -> Self {
        let lanes = jobs.iter().map(|job| job.heads() * job.lanes).sum();
        let mut both = Self::new(jobs.iter().map(ModelJob::heads).sum(), lanes);
        for job in jobs {
            assert!(both.admit(job), "memory was made for {job:?}");
        }
        both
    }

    /// The model, to look at.
    pub fn model(&self) -> &ModelAggregator {
        &self.model
    }

    /// How often a counter was raised, in this and earlier starts.
    pub fn count(&self, counter: &str) -> u64 {
        [&self.counted, &self.earlier]
            .into_iter()
            .filter_map(|counts| counts.get(counter))
            .sum()
    }

    /// How often each counter was raised.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let both = self.counted.iter().chain(&self.earlier);
        both.map(|(counter, count)| (*counter, *count))
    }

    /// Both start anew, without memory of anything.
    pub fn restart(&mut self) {
        let mut earlier = std::mem::take(&mut self.earlier);
        for (counter, count) in &self.counted {
            *earlier.entry(counter).or_insert(0) += count;
        }
        *self = Self {
            earlier,
            now: self.now,
            ..Self::new(self.heads, self.lanes)
        };
    }

    /// Takes a job in, or both refuse it.
    pub fn admit(&mut self, job: &ModelJob) -> bool {
        let admitted = self.core.admit(&config(job));
        let expected = self.model.admit(job.clone());
        assert_eq!(admitted.is_ok(), expected, "core {admitted:?} for {job:?}");
        expected
    }

    /// R-JOB-2, with a refusal's reason from 4 to 6.
    pub fn abort(&mut self, key: u64, reason: i16, member: u8) {
        let cause = match reason {
            4 => AbortCause::LostMember,
            5 => AbortCause::MemberFailed,
            6 => AbortCause::Ended,
            _ => panic!("{reason} is no reason to abort"),
        };
        self.core.abort(key, Abort { cause, member });
        self.model.abort(key, reason, member);
        self.check_waiting(key);
    }

    /// R-REFORM-1.
    pub fn suspend(&mut self, key: u64) {
        self.core.suspend(key);
        self.model.suspend(key);
        self.check_waiting(key);
    }

    /// R-QUORUM-5.
    pub fn exclude(&mut self, key: u64, member: u8) {
        self.core.exclude(key, member);
        self.model.exclude(key, member);
        self.check_waiting(key);
    }

    /// Both forget a job.
    pub fn release(&mut self, key: u64) {
        self.core.release(key);
        self.model.release(key);
        self.check_waiting(key);
    }

    /// Both handle one packet and must agree on what is sent to whom and on every counter.
    pub fn handle(&mut self, packet: &[u8], source: Source, now: u64) -> ModelVerdict {
        self.now = now;
        let expected = self.model.handle(packet, source, now);
        *self.counted.entry(expected.counter).or_insert(0) += 1;

        // Room for just the answer, so that one byte more would not fit.
        let room = expected.send.as_ref().map_or(HEADER, |send| send.bytes.len());
        let mut out = vec![UNWRITTEN; room];
        let verdict = self.core.handle(packet, &endpoint(source), now, &mut out);
        let sent = match verdict {
            Verdict::Quiet => None,
            Verdict::Reply { len } => Some(ModelSend {
                to: To::Sender,
                bytes: out[..len].to_vec(),
            }),
            Verdict::Broadcast { key, len } => Some(ModelSend {
                to: To::Members(key),
                bytes: out[..len].to_vec(),
            }),
            Verdict::Forward { key, len } => Some(ModelSend {
                to: To::Parent(key),
                bytes: out[..len].to_vec(),
            }),
        };
        for (counter, count) in self.core.counters().iter() {
            let expected_count = self.counted.get(counter.name()).copied().unwrap_or(0);
            let name = counter.name();
            assert_eq!(
                count, expected_count,
                "counter {name}, where the model counts {}",
                expected.counter
            );
        }
        assert_eq!(
            sent, expected.send,
            "left: the core, right: the model, which counts {}",
            expected.counter
        );
        self.check_waiting(key_of(packet));
        expected
    }

    fn check_waiting(&self, key: u64) {
        let waiting = self
            .core
            .waiting(key)
            .map(|(slot, round, set)| (slot, round.0, members(set.0)));
        assert_eq!(
            waiting.collect::<Vec<_>>(),
            self.model.waiting(key),
            "what waits in job {key:#x}"
        );
        let members = self.core.members(key).map(|members| members.len());
        assert_eq!(
            members,
            self.model.job(key).map(|job| job.members.len()),
            "members of job {key:#x}"
        );
        let lags = self.core.lags(key, self.now);
        let lags: Vec<_> = lags.iter().map(|lag| (lag.chunks, lag.waiting)).collect();
        assert_eq!(
            lags,
            self.model.lags(key, self.now),
            "who is behind in job {key:#x}"
        );
        let core = self.core.job(key).map(Standing::of_core);
        assert_eq!(core, self.model.job(key).map(Standing::of_model), "job {key:#x}");
    }
}

/// What packets and the control service change of a job besides its slots.
#[derive(PartialEq, Eq, Debug)]
struct Standing {
    epoch: u32,
    expected: BTreeSet<u8>,
    removed: BTreeSet<u8>,
    late: BTreeSet<u8>,
    suspended: bool,
    aborted: Option<(i16, u8)>,
}

impl Standing {
    fn of_core(job: &Job) -> Self {
        Self {
            epoch: job.epoch.0,
            expected: members(job.expected.0),
            removed: members(job.excluded.0),
            late: members(job.late.0),
            suspended: job.suspended,
            aborted: job.abort.map(|abort| (abort.refusal().to_wire(), abort.member)),
        }
    }

    fn of_model(job: &ModelJob) -> Self {
        Self {
            epoch: job.epoch,
            expected: job.expected(),
            removed: job.removed.clone(),
            late: job.late.clone(),
            suspended: job.suspended,
            aborted: job.aborted,
        }
    }
}

/// A source as the core has it.
pub fn endpoint((ip, port): Source) -> Endpoint {
    Endpoint { ip, port }
}

/// A job as the core is told of it.
pub fn config(job: &ModelJob) -> JobConfig {
    let member = |member: &crate::ModelMember| Member {
        source: endpoint(member.source),
        set: MemberSet(bits(&member.set)),
        workers: member.workers,
    };
    JobConfig {
        key: job.key,
        epoch: Epoch(job.epoch),
        members: job.members.iter().map(member).collect(),
        lanes: Lanes::from_count(job.lanes as u16).expect("a number of lanes that exists"),
        window: job.window,
        generations: job.generations,
        policy: policy(job),
        parent: job.parent.map(|parent| Parent {
            source: endpoint(parent.source),
            member: parent.member,
            epoch: Epoch(parent.epoch),
        }),
        frames: None,
    }
}

/// A job's policy as the core has it.
pub fn policy(job: &ModelJob) -> Policy {
    job.quorum.map_or(Policy::All, |quorum| Policy::Quorum {
        members: quorum.members,
        grace: quorum.grace,
    })
}

/// The key that a packet names, if it is long enough for one.
fn key_of(packet: &[u8]) -> u64 {
    packet.get(8..16).map_or(0, |key| {
        key.iter().rev().fold(0, |key, byte| key << 8 | u64::from(*byte))
    })
}

//! The real aggregator and the model, one beside the other.

use std::collections::BTreeMap;

use agg_core::slot::Head;
use agg_core::{
    Abort, AbortCause, Aggregator, Endpoint, Epoch, JobConfig, Lanes, Member, MemberSet, Verdict,
};

use crate::aggregator::GENERATIONS;
use crate::packet::{HEADER, bits};
use crate::{ModelAggregator, ModelJob, ModelSend, ModelVerdict, Source, To};

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
}

impl Lockstep {
    /// Both with memory for `heads` generations and `lanes` values.
    pub fn new(epoch: u32, heads: usize, lanes: usize) -> Self {
        Self {
            core: Aggregator::new(Epoch(epoch), vec![Head::VACANT; heads], vec![0; lanes]),
            model: ModelAggregator::new(epoch, heads, lanes),
            counted: BTreeMap::new(),
            earlier: BTreeMap::new(),
            heads,
            lanes,
        }
    }

    /// Both with memory for just these jobs, all admitted.
    pub fn with_jobs(epoch: u32, jobs: &[ModelJob]) -> Self {
        let heads = |job: &ModelJob| usize::from(job.window) * GENERATIONS;
        let lanes = jobs.iter().map(|job| heads(job) * job.lanes).sum();
        let mut both = Self::new(epoch, jobs.iter().map(heads).sum(), lanes);
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

    /// R-EPOCH-1: both start anew, without memory of anything.
    pub fn restart(&mut self, epoch: u32) {
        let mut earlier = std::mem::take(&mut self.earlier);
        for (counter, count) in &self.counted {
            *earlier.entry(counter).or_insert(0) += count;
        }
        *self = Self {
            earlier,
            ..Self::new(epoch, self.heads, self.lanes)
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

    /// Both forget a job.
    pub fn release(&mut self, key: u64) {
        self.core.release(key);
        self.model.release(key);
        self.check_waiting(key);
    }

    /// Both handle one packet and must agree on what is sent to whom and on every counter.
    pub fn handle(&mut self, packet: &[u8], source: Source, now: u64) -> ModelVerdict {
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
            .map(|(slot, round, set)| (slot, round.0, crate::packet::members(set.0)));
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
    }
}

/// A source as the core has it.
pub fn endpoint((ip, port): Source) -> Endpoint {
    Endpoint { ip, port }
}

fn config(job: &ModelJob) -> JobConfig {
    let member = |member: &crate::ModelMember| Member {
        source: endpoint(member.source),
        set: MemberSet(bits(&member.set)),
        workers: member.workers,
    };
    JobConfig {
        key: job.key,
        members: job.members.iter().map(member).collect(),
        lanes: Lanes::from_count(job.lanes as u16).expect("a number of lanes that exists"),
        window: job.window,
    }
}

/// The key that a packet names, if it is long enough for one.
fn key_of(packet: &[u8]) -> u64 {
    packet.get(8..16).map_or(0, |key| {
        key.iter().rev().fold(0, |key, byte| key << 8 | u64::from(*byte))
    })
}

//! The aggregator: which packets reach a slot (docs/protocol.md, R-VALID), and what is sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::generation::{Effect, Generation, Stage};
use crate::job::{ModelJob, Source};
use crate::packet::{DATA, FROM_AGGREGATOR, ModelPacket, REFUSAL, Unreadable};
use crate::pool::ModelPool;
use crate::round::is_after;
use crate::verdict::{ModelSend, ModelVerdict, To};

/// Generations of a slot (R-CHUNK-2).
pub const GENERATIONS: usize = 2;
/// Jobs that fit at once, as `agg-core` has it.
const JOBS: usize = 64;

/// An aggregator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelAggregator {
    epoch: u32,
    jobs: BTreeMap<u64, ModelJob>,
    /// By job, slot and generation; what is not here is vacant.
    generations: BTreeMap<(u64, u16, u32), Generation>,
    heads: ModelPool,
    lanes: ModelPool,
}

impl ModelAggregator {
    /// An aggregator without jobs that has memory for `heads` generations and `lanes` values.
    pub fn new(epoch: u32, heads: usize, lanes: usize) -> Self {
        Self {
            epoch,
            jobs: BTreeMap::new(),
            generations: BTreeMap::new(),
            heads: ModelPool::new(heads),
            lanes: ModelPool::new(lanes),
        }
    }

    /// Its epoch.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// A job.
    pub fn job(&self, key: u64) -> Option<&ModelJob> {
        self.jobs.get(&key)
    }

    /// Takes a job in, if it makes sense and fits (R-JOB-1).
    pub fn admit(&mut self, job: ModelJob) -> bool {
        let sensible = (1..=64).contains(&job.members.len())
            && job.members.iter().all(|member| !member.set.is_empty())
            && (0..16).any(|power| job.window == 1 << power)
            && job.key != 0
            && !self.jobs.contains_key(&job.key)
            && self.jobs.len() < JOBS;
        if !sensible {
            return false;
        }
        let heads = usize::from(job.window) * GENERATIONS;
        let lanes = heads * job.lanes;
        let (Some(head), Some(lane)) = (self.heads.find(heads), self.lanes.find(lanes)) else {
            return false;
        };
        self.heads.take(head, heads, job.key);
        self.lanes.take(lane, lanes, job.key);
        self.jobs.insert(job.key, job);
        true
    }

    /// R-JOB-2: from now on each of the job's packets is refused. The first abort stays.
    pub fn abort(&mut self, key: u64, reason: i16, member: u8) {
        if let Some(job) = self.jobs.get_mut(&key)
            && job.aborted.is_none()
        {
            job.aborted = Some((reason, member));
        }
    }

    /// Forgets a job.
    pub fn release(&mut self, key: u64) {
        self.jobs.remove(&key);
        self.heads.free(key);
        self.lanes.free(key);
        self.generations.retain(|(job, _, _), _| *job != key);
    }

    /// The generations that wait for members, in the order of slots and generations: slot, round, members in.
    pub fn waiting(&self, key: u64) -> Vec<(u16, u32, BTreeSet<u8>)> {
        let of_job = self.generations.iter().filter(|((job, _, _), _)| *job == key);
        let open = of_job.filter(|(_, generation)| generation.stage == Stage::Open);
        open.map(|((_, slot, _), generation)| (*slot, generation.round, generation.set.clone()))
            .collect()
    }

    /// The newest round that a slot has seen.
    pub fn newest_round(&self, key: u64, slot: u16) -> Option<u32> {
        let rounds =
            (0..GENERATIONS as u32).filter_map(|generation| self.generations.get(&(key, slot, generation)));
        rounds
            .map(|generation| generation.round)
            .reduce(|a, b| if is_after(b, a) { b } else { a })
    }

    /// Handles one packet.
    pub fn handle(&mut self, bytes: &[u8], source: Source, now: u64) -> ModelVerdict {
        let (packet, values, expected) = match self.check(bytes, source) {
            Ok(valid) => valid,
            Err(verdict) => return verdict,
        };
        let effect = self.merge(&packet, values, &expected, now);
        let (counter, send) = match effect {
            Effect::Quiet(counter) => (counter, None),
            Effect::Reply(counter, packet) => (counter, Some((To::Sender, packet))),
            Effect::ToAll(counter, packet) => (counter, Some((To::Members(packet.key), packet))),
        };
        ModelVerdict {
            counter,
            send: send.map(|(to, packet)| ModelSend {
                to,
                bytes: packet.emit(),
            }),
        }
    }

    /// R-VALID-1 to R-VALID-9: the packet, its values and the members its slot is complete with, or the verdict of
    /// the first check that fails.
    fn check(
        &self,
        bytes: &[u8],
        source: Source,
    ) -> Result<(ModelPacket, Vec<i32>, BTreeSet<u8>), ModelVerdict> {
        let drop = |counter| Err(ModelVerdict::quiet(counter));
        // R-VALID-1
        let packet = match ModelPacket::parse(bytes) {
            Ok(packet) => packet,
            Err(Unreadable::Short) => return drop("dropped_bad_length"),
            Err(Unreadable::Foreign) => return drop("dropped_not_tributary"),
            Err(Unreadable::Check) => return drop("dropped_bad_checksum"),
        };
        // R-VALID-2
        let Some(job) = self.jobs.get(&packet.key) else {
            return drop("dropped_unknown_job");
        };
        // R-VALID-3
        let Some(member) = job.members.get(usize::from(packet.member)) else {
            return drop("dropped_wrong_source");
        };
        // R-VALID-4
        if member.source != source {
            return drop("dropped_wrong_source");
        }
        // R-VALID-5
        if packet.kind != DATA || !packet.up {
            return drop("dropped_wrong_direction");
        }
        // R-VALID-6
        if packet.epoch > self.epoch {
            return drop("dropped_wrong_epoch");
        }
        if packet.epoch < self.epoch {
            // It is about no member, also when the job is aborted.
            return Err(self.refuse(&packet, "refused_old_epoch", 3, FROM_AGGREGATOR));
        }
        // R-VALID-7
        if let Some((reason, about)) = job.aborted {
            return Err(self.refuse(&packet, "refused_job_aborted", reason, about));
        }
        // R-VALID-8
        if !packet.result && (&packet.set, packet.workers) != (&member.set, member.workers) {
            return drop("dropped_forbidden_set");
        }
        if packet.slot >= job.window {
            return drop("dropped_bad_slot");
        }
        // R-VALID-9
        let Some(values) = packet.values(job.lanes) else {
            return drop("dropped_bad_length");
        };
        let expected = job.expected();
        Ok((packet, values, expected))
    }

    /// A refusal to the sender: its packet's own fields, with the current epoch, the reason and the member.
    fn refuse(&self, packet: &ModelPacket, counter: &'static str, reason: i16, about: u8) -> ModelVerdict {
        let refusal = ModelPacket {
            kind: REFUSAL,
            up: false,
            result: false,
            resend: false,
            nonfinite: false,
            header_only: false,
            member: about,
            epoch: self.epoch,
            scale: Some(reason),
            rest: Vec::new(),
            ..packet.clone()
        };
        ModelVerdict {
            counter,
            send: Some(ModelSend {
                to: To::Sender,
                bytes: refusal.emit(),
            }),
        }
    }

    /// R-SLOT-0, and the rest by the generation.
    fn merge(&mut self, packet: &ModelPacket, values: Vec<i32>, expected: &BTreeSet<u8>, now: u64) -> Effect {
        let place = (packet.key, packet.slot, packet.round % GENERATIONS as u32);
        match self.generations.get_mut(&place) {
            Some(generation) if generation.round == packet.round => {
                generation.arrive(packet, values, expected, now)
            }
            Some(generation) if !is_after(packet.round, generation.round) => {
                Effect::Quiet("dropped_stale_round")
            }
            _ if packet.result => Effect::Quiet("dropped_forbidden_set"),
            _ => {
                let mut generation = Generation::opened_by(packet, values);
                let effect = generation.settle(packet, expected, "contributions_merged", "slots_completed");
                self.generations.insert(place, generation);
                effect
            }
        }
    }
}

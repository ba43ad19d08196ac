//! The aggregator: packets that are valid go to their generation, and what comes of it is sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::generation::{Effect, Generation, Stage};
use crate::job::{ModelJob, Source};
use crate::packet::{DATA, ModelPacket, REFUSAL, WANT};
use crate::pool::ModelPool;
use crate::probe;
use crate::round::is_after;
use crate::valid::{Valid, check};
use crate::verdict::ModelVerdict;

/// Jobs that fit at once, as `agg-core` has it.
const JOBS: usize = 64;

/// An aggregator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelAggregator {
    pub(crate) jobs: BTreeMap<u64, ModelJob>,
    /// By job, slot and generation; what is not here is vacant.
    pub(crate) generations: BTreeMap<(u64, u16, u32), Generation>,
    heads: ModelPool,
    lanes: ModelPool,
    /// Which result gives up its frame, where the rules leave that open (R-SPILL-1).
    pub(crate) forgotten: Option<(u16, u32)>,
    /// Which probes are answered.
    probe_epoch: Option<u32>,
}

impl ModelAggregator {
    /// An aggregator without jobs that has memory for `heads` generations and `lanes` values.
    pub fn new(heads: usize, lanes: usize) -> Self {
        Self {
            jobs: BTreeMap::new(),
            generations: BTreeMap::new(),
            heads: ModelPool::new(heads),
            lanes: ModelPool::new(lanes),
            forgotten: None,
            probe_epoch: None,
        }
    }

    /// R-PROBE-2: from now on probes that carry the epoch of its start are answered.
    pub fn answer_probes(&mut self, epoch: u32) {
        self.probe_epoch = Some(epoch);
    }

    /// A job.
    pub fn job(&self, key: u64) -> Option<&ModelJob> {
        self.jobs.get(&key)
    }

    /// The keys of all jobs.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.jobs.keys().copied()
    }

    /// Where the generations of a job are among those of all jobs.
    pub fn first_head(&self, key: u64) -> Option<usize> {
        self.heads.start(key)
    }

    /// Where the values of a job are among those of all jobs.
    pub fn first_lane(&self, key: u64) -> Option<usize> {
        self.lanes.start(key)
    }

    /// Takes a job in, if it makes sense and fits (R-JOB-1). It takes the place of a suspended one of its key.
    pub fn admit(&mut self, job: ModelJob) -> bool {
        let mut others = self.clone();
        if others.jobs.get(&job.key).is_some_and(|job| job.suspended) {
            others.release(job.key);
        }
        if !job.is_sensible() || others.jobs.contains_key(&job.key) || others.jobs.len() == JOBS {
            return false;
        }
        let heads = job.heads();
        let lanes = job.values();
        let (Some(head), Some(lane)) = (others.heads.find(heads), others.lanes.find(lanes)) else {
            return false;
        };
        *self = others;
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

    /// R-REFORM-1: from now on each of the job's packets is refused, until it is admitted anew.
    pub fn suspend(&mut self, key: u64) {
        if let Some(job) = self.jobs.get_mut(&key) {
            job.suspended = true;
        }
    }

    /// R-QUORUM-5: a member is not expected any more.
    pub fn exclude(&mut self, key: u64, member: u8) {
        if let Some(job) = self.jobs.get_mut(&key)
            && let Some(member) = job.members.get(usize::from(member))
        {
            job.removed.extend(member.set.clone());
        }
    }

    /// Forgets a job.
    pub fn release(&mut self, key: u64) {
        self.jobs.remove(&key);
        self.heads.free(key);
        self.lanes.free(key);
        self.generations.retain(|(job, _, _), _| *job != key);
    }

    fn of_job(&self, key: u64) -> impl Iterator<Item = (u16, &Generation)> {
        let of_job = self
            .generations
            .iter()
            .filter(move |((job, _, _), _)| *job == key);
        of_job.map(|((_, slot, _), generation)| (*slot, generation))
    }

    /// The generations that wait for members, in the order of slots and generations: slot, round, members in.
    pub fn waiting(&self, key: u64) -> Vec<(u16, u32, BTreeSet<u8>)> {
        let open = self
            .of_job(key)
            .filter(|(_, generation)| generation.stage == Stage::Open);
        open.map(|(slot, generation)| (slot, generation.round, generation.set.clone()))
            .collect()
    }

    /// For each member: in how many generations it is missed, or was and has not moved past, and since when, in ns.
    pub fn lags(&self, key: u64, now: u64) -> Vec<(u64, u64)> {
        let Some(job) = self.jobs.get(&key) else {
            return Vec::new();
        };
        let expected = job.expected();
        let misses = |generation: &Generation, member: &u8| {
            let missed = expected.contains(member) && !generation.set.contains(member);
            let needs = job.quorum.is_some() && !generation.past.contains(member);
            match generation.stage {
                // An empty one is not missed by anybody: the parent asked for it.
                Stage::Open => missed && !generation.set.is_empty(),
                Stage::Complete => missed && needs,
                Stage::Full | Stage::Recalling | Stage::Conflicting { .. } => false,
            }
        };
        let lag = |set: &BTreeSet<u8>| {
            let behind = || {
                self.of_job(key)
                    .filter(|(_, generation)| set.iter().any(|member| misses(generation, member)))
            };
            let ages = behind().map(|(_, generation)| now - generation.opened_at);
            (behind().count() as u64, ages.max().unwrap_or(0))
        };
        job.members.iter().map(|member| lag(&member.set)).collect()
    }

    /// The newest round that a slot has seen.
    pub fn newest_round(&self, key: u64, slot: u16) -> Option<u32> {
        let of_slot = self.of_job(key).filter(|(of, _)| *of == slot);
        of_slot
            .map(|(_, generation)| generation.round)
            .reduce(|a, b| if is_after(b, a) { b } else { a })
    }

    /// Handles one packet.
    pub fn handle(&mut self, bytes: &[u8], source: Source, now: u64) -> ModelVerdict {
        self.handle_near(bytes, source, now).0
    }

    /// The same; and what is counted besides, in a job with a store.
    pub fn handle_near(
        &mut self,
        bytes: &[u8],
        source: Source,
        now: u64,
    ) -> (ModelVerdict, Vec<&'static str>) {
        if let Some(verdict) = self.probe_epoch.and_then(|epoch| probe::answer(bytes, epoch)) {
            return (verdict, Vec::new());
        }
        let valid = match check(bytes, source, |key| self.jobs.get(&key)) {
            Ok(valid) => valid,
            Err(verdict) => return (verdict, Vec::new()),
        };
        let near = self.jobs[&valid.packet.key].frames.is_some();
        let (effect, counted) = match valid.sender.clone() {
            Some(_) if near => self.take_near(&valid.packet, valid.values.clone(), now),
            Some(sender) => (self.take_from_member(&valid, &sender, now), Vec::new()),
            None => (self.take_from_parent(&valid, now), Vec::new()),
        };
        (ModelVerdict::of(effect), counted)
    }

    /// What a member sent.
    fn take_from_member(&mut self, valid: &Valid, sender: &BTreeSet<u8>, now: u64) -> Effect {
        let packet = &valid.packet;
        // R-QUORUM-2
        for ((key, slot, _), generation) in &mut self.generations {
            if (*key, *slot) == (packet.key, packet.slot) && is_after(packet.round, generation.round) {
                generation.past.extend(sender);
            }
        }
        let effect = self.merge(packet, valid.values.clone(), now);
        let held = self.generations.get(&self.place(packet));
        let held = held.map(|generation| generation.set.clone()).unwrap_or_default();
        let job = self.jobs.get_mut(&packet.key).expect("it was there");
        job.note_lateness(&effect, sender, &held);
        effect
    }

    pub(crate) fn place(&self, packet: &ModelPacket) -> (u64, u16, u32) {
        let generations = self.jobs[&packet.key].generations;
        (packet.key, packet.slot, packet.round % u32::from(generations))
    }

    /// R-SLOT-0, and the rest by the generation.
    pub(crate) fn merge(&mut self, packet: &ModelPacket, values: Vec<i32>, now: u64) -> Effect {
        let place = self.place(packet);
        let job = &self.jobs[&packet.key];
        match self.generations.get_mut(&place) {
            Some(generation) if generation.round == packet.round => {
                return generation.arrive(packet, values, job, now);
            }
            Some(generation) if !is_after(packet.round, generation.round) => {
                return Effect::Quiet("dropped_stale_round");
            }
            _ if packet.result => return Effect::Quiet("dropped_forbidden_set"),
            // R-QUORUM-3
            Some(generation) if job.quorum.is_some() && !generation.is_past(job) => {
                return generation.hold_back(packet, job);
            }
            _ => {}
        }
        let mut generation = Generation::opened_by(packet, values, now);
        let effect = generation.settle(packet, job, "contributions_merged", now);
        self.generations.insert(place, generation);
        effect
    }

    /// What the parent sent: R-LEAF-3 to R-LEAF-5.
    fn take_from_parent(&mut self, valid: &Valid, now: u64) -> Effect {
        let packet = &valid.packet;
        let place = self.place(packet);
        let job = &self.jobs[&packet.key];
        if packet.kind == DATA && !packet.result {
            return Effect::Quiet("dropped_wrong_direction");
        }
        if packet.kind == REFUSAL && !matches!(packet.scale, Some(1 | 2)) {
            return Effect::Quiet("refused_by_parent");
        }
        match self.generations.get_mut(&place) {
            Some(generation) if generation.round == packet.round => {
                generation.arrive_from_parent(packet, valid.values.clone(), job, now)
            }
            held if packet.kind == WANT
                && held
                    .as_ref()
                    .is_none_or(|held| is_after(packet.round, held.round)) =>
            {
                let mut generation = Generation::opened_by_want(packet, now);
                let effect = generation.want_all(packet, job, now);
                self.generations.insert(place, generation);
                effect
            }
            _ => Effect::Quiet("dropped_stale_round"),
        }
    }
}

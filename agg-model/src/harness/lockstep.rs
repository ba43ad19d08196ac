//! The real aggregator and the model, one beside the other.

use std::collections::{BTreeMap, BTreeSet};

use agg_core::slot::{Head, NO_FRAME};
use agg_core::{
    Abort, AbortCause, Aggregator, Endpoint, Epoch, Job, JobConfig, Lanes, Member, MemberSet, Parent, Policy,
    Round, StoreAction, Verdict,
};

use crate::harness::script::Subject;
use crate::packet::{HEADER, bits, members};
use crate::{ModelAggregator, ModelJob, ModelRequest, ModelSend, ModelVerdict, Source, To};

/// Counters of jobs with a store (R-SPILL), which traces and tests of other jobs do not reach.
pub const OF_STORES: [&str; 4] = [
    "sums_put_into_store",
    "sums_recalled_from_store",
    "results_forgotten",
    "dropped_no_free_frame",
];

/// Room for any answer.
const LONGEST: usize = HEADER + 4 * 8192;

/// The real aggregator over memory of its own.
pub type Core = Aggregator<Vec<Head>, Vec<i32>>;

/// What the output buffer holds before: a byte that was not written shows.
const UNWRITTEN: u8 = 0xa5;

/// An aggregator and its model. Every method panics where they differ.
#[derive(Clone, Debug)]
pub struct Lockstep {
    core: Core,
    model: ModelAggregator,
    /// What the model counted since the last start.
    counted: BTreeMap<&'static str, u64>,
    /// What it counted before.
    earlier: BTreeMap<&'static str, u64>,
    heads: usize,
    lanes: usize,
    /// With which probes are answered.
    probe_epoch: Option<u32>,
    /// When the last packet came.
    now: u64,
    /// What stores were given, the last at the end.
    put: Vec<(u64, ModelRequest)>,
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
            probe_epoch: None,
            now: 0,
            put: Vec::new(),
        }
    }

    /// Both answer probes of this epoch, also after a restart.
    #[must_use]
    pub fn answering_probes(mut self, epoch: u32) -> Self {
        self.probe_epoch = Some(epoch);
        self.core.answer_probes(Epoch(epoch));
        self.model.answer_probes(epoch);
        self
    }

    /// Both with memory for just these jobs, all admitted.
    pub fn with_jobs(jobs: &[ModelJob]) -> Self {
        let lanes = jobs.iter().map(ModelJob::values).sum();
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

    /// The core, to look at.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The slot memory of a job: heads and values.
    pub fn slots(&self, key: u64) -> Option<(&[Head], &[i32])> {
        let job = self.model.job(key)?;
        let (head, lane) = (self.model.first_head(key)?, self.model.first_lane(key)?);
        let (heads, values) = self.core.memory();
        Some((
            &heads[head..head + job.heads()],
            &values[lane..lane + job.values()],
        ))
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
        let mut fresh = Self::new(self.heads, self.lanes);
        if let Some(epoch) = self.probe_epoch {
            fresh = fresh.answering_probes(epoch);
        }
        *self = Self {
            earlier,
            now: self.now,
            put: std::mem::take(&mut self.put),
            ..fresh
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
        let key = key_of(packet);
        let own = (packet.len() >= HEADER).then(|| {
            let generations = self.model.job(key).map_or(1, |job| u32::from(job.generations));
            let round = u32::from_le_bytes([packet[20], packet[21], packet[22], packet[23]]);
            (u16::from_le_bytes([packet[6], packet[7]]), round % generations)
        });
        self.choose(key, own, |core| {
            core.handle(packet, &endpoint(source), now, &mut vec![0; LONGEST]);
        });
        let (expected, besides) = self.model.handle_near(packet, source, now);
        self.count_all(&expected, besides);
        self.act(key, &expected, |core, out| {
            core.handle(packet, &endpoint(source), now, out)
        });
        expected
    }

    /// R-SPILL-1: tells the model which result the core is about to forget, if it forgets one.
    fn choose(&mut self, key: u64, own: Option<(u16, u32)>, event: impl FnOnce(&mut Core)) {
        if self.core.frames(key).is_none() {
            return;
        }
        let mut trial = self.core.clone();
        event(&mut trial);
        let near = self.model.near(key).into_iter();
        let complete = near.filter(|(slot, number, complete)| *complete && Some((*slot, *number)) != own);
        for (slot, number, _) in complete.collect::<Vec<_>>() {
            if trial.memory().0[self.index(key, slot, number)].frame() == NO_FRAME {
                self.model.forgets(slot, number);
            }
        }
    }

    /// A generation's place in the memory of all jobs.
    fn index(&self, key: u64, slot: u16, number: u32) -> usize {
        let job = self.model.job(key).expect("a job");
        let first = self.model.first_head(key).expect("it has generations");
        first + usize::from(slot) * usize::from(job.generations) + number as usize
    }

    fn count_all(&mut self, expected: &ModelVerdict, besides: Vec<&'static str>) {
        for counter in besides.into_iter().chain([expected.counter]) {
            *self.counted.entry(counter).or_insert(0) += 1;
        }
    }

    /// R-SPILL-2: the store says that it keeps what it was given so many puts ago.
    pub fn stored(&mut self, back: usize) {
        let Some((key, put)) = self.put.iter().rev().nth(back).cloned() else {
            return;
        };
        let set = MemberSet(bits(&put.set));
        self.core.stored(key, put.place, Round(put.round), set);
        self.model.stored(key, put.place, put.round, &put.set);
        self.check_waiting(key);
        self.check_near(key);
    }

    /// R-SPILL-3: it gives that back.
    pub fn recalled(&mut self, back: usize, now: u64) -> Option<ModelVerdict> {
        let (key, put) = self.put.iter().rev().nth(back).cloned()?;
        self.model.job(key)?;
        self.now = now;
        let (set, values) = (MemberSet(bits(&put.set)), put.put.clone().expect("values"));
        let (place, round) = (put.place, Round(put.round));
        self.choose(key, None, |core| {
            core.recalled(key, place, round, set, &values, now, &mut vec![0; LONGEST]);
        });
        let sum = (put.round, &put.set);
        let (expected, besides) = self.model.recalled(key, place, sum, &values, now);
        self.count_all(&expected, besides);
        self.act(key, &expected, |core, out| {
            core.recalled(key, place, round, set, &values, now, out)
        });
        Some(expected)
    }

    /// R-SPILL-4.
    pub fn store_lost(&mut self, key: u64) {
        self.core.store_lost(key);
        if self.core.frames(key).is_some() {
            // A copy shows what is emptied anyway, and so what is besides.
            let near = self.model.near(key);
            let gone = |(slot, number, _): &(u16, u32, bool)| {
                let head = &self.core.memory().0[self.index(key, *slot, *number)];
                head.frame() == NO_FRAME && !self.model.is_stored(key, *slot, *number)
            };
            let gone: Vec<_> = near.iter().filter(|near| gone(near)).collect();
            assert!(gone.len() <= 1, "{gone:?} are emptied");
            let also = gone.first().map(|(slot, number, _)| (*slot, *number));
            self.model.store_lost(key, also);
        }
        self.check_waiting(key);
        self.check_near(key);
    }

    /// What the core asks of its stores, which the model must find right.
    fn ask_stores(&mut self, key: u64) {
        let mut requests = Vec::new();
        while let Some(request) = self.core.store_request() {
            assert_eq!(request.key, key, "the job of the last packet");
            let put = match request.action {
                StoreAction::Put(values) => Some(values.to_vec()),
                StoreAction::Get => None,
            };
            let counter = if put.is_some() {
                "sums_put_into_store"
            } else {
                "sums_recalled_from_store"
            };
            *self.counted.entry(counter).or_insert(0) += 1;
            requests.push(ModelRequest {
                place: request.place,
                round: request.round.0,
                set: members(request.set.0),
                put,
            });
        }
        if self.core.frames(key).is_some() {
            self.model.requested(key, self.now, &requests);
        }
        let put = requests.into_iter().filter(|request| request.put.is_some());
        self.put.extend(put.map(|request| (key, request)));
    }

    /// Both have frames for the same generations, each another.
    fn check_near(&self, key: u64) {
        let Some(frames) = self.core.frames(key) else {
            return;
        };
        let job = self.model.job(key).expect("the core has it");
        let first = self.index(key, 0, 0);
        let heads = self.core.memory().0[first..first + job.heads()]
            .iter()
            .enumerate();
        let near = heads.filter(|(_, head)| head.frame() != NO_FRAME);
        let (places, numbers): (Vec<_>, BTreeSet<_>) =
            near.map(|(place, head)| (place, head.frame())).unzip();
        let generations = usize::from(job.generations);
        let expected = self.model.near(key).into_iter();
        let expected: Vec<_> = expected
            .map(|(slot, number, _)| usize::from(slot) * generations + number as usize)
            .collect();
        assert_eq!(places, expected, "whose values are near");
        assert_eq!(numbers.len(), places.len(), "a frame is of two");
        assert!(numbers.iter().all(|number| *number < frames - 1), "{numbers:?}");
    }

    /// The core does what the model did.
    fn act(
        &mut self,
        key: u64,
        expected: &ModelVerdict,
        event: impl FnOnce(&mut Core, &mut [u8]) -> Verdict,
    ) {
        // Room for just the answer, so that one byte more would not fit.
        let room = expected.send.as_ref().map_or(HEADER, |send| send.bytes.len());
        let mut out = vec![UNWRITTEN; room];
        let verdict = event(&mut self.core, &mut out);
        self.ask_stores(key);
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
        self.check_waiting(key);
        self.check_near(key);
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

impl Subject for Lockstep {
    fn admit(&mut self, job: &ModelJob) {
        self.admit(job);
    }

    fn abort(&mut self, key: u64, reason: i16, member: u8) {
        self.abort(key, reason, member);
    }

    fn suspend(&mut self, key: u64) {
        self.suspend(key);
    }

    fn exclude(&mut self, key: u64, member: u8) {
        self.exclude(key, member);
    }

    fn release(&mut self, key: u64) {
        self.release(key);
    }

    fn restart(&mut self) {
        self.restart();
    }

    fn newest_round(&self, key: u64, slot: u16) -> Option<u32> {
        self.model.newest_round(key, slot)
    }

    fn handle(&mut self, packet: &[u8], source: Source, now: u64) -> ModelVerdict {
        self.handle(packet, source, now)
    }

    fn stored(&mut self, back: usize) {
        self.stored(back);
    }

    fn recalled(&mut self, back: usize, now: u64) -> Option<ModelVerdict> {
        self.recalled(back, now)
    }

    fn store_lost(&mut self, key: u64) {
        self.store_lost(key);
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
        frames: job.frames,
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

//! Turns [`Step`]s into packets and events for a [`Lockstep`], or for another [`Subject`].

use crate::harness::Lockstep;
use crate::harness::forge::{Sender, forge, forge_down};
use crate::harness::step::{RoundPick, Step};
use crate::packet::members;
use crate::{ModelJob, ModelMember, ModelParent, ModelQuorum, ModelVerdict, Source};

/// How many sent packets are remembered for [`Step::Again`].
const REMEMBERED: usize = 32;

/// The jobs of a script.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Setup {
    /// Each job; those that do not fit beside the others are refused.
    pub jobs: Vec<JobSetup>,
    /// The first epoch.
    pub epoch: u16,
    /// Whether there is memory for all of them, or for about half.
    pub roomy: bool,
}

/// One job of a script. The default is a root's that waits for its one member.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct JobSetup {
    /// The members' sets; an empty one stands for the member's own bit.
    pub sets: Vec<u64>,
    /// Whether chunks have 256 lanes rather than 16.
    pub wide: bool,
    /// The window is 2 to this power, wrapping at 3.
    pub window: u8,
    /// The round that slots begin with.
    pub first_round: u32,
    /// What its aggregator is.
    pub kind: Kind,
}

/// What a job's aggregator is.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Kind {
    /// A root that waits for all.
    #[default]
    Root,
    /// A root with so many frames (wrapping), and a store.
    Spilling(u8),
    /// A leaf with this number (wrapping) among its parent's members.
    Leaf(u8),
    /// A root under a quorum.
    Quorum {
        /// So many members (wrapping).
        members: u8,
        /// The grace, in 250 µs.
        grace: u8,
        /// Generations are 2 to this power and 1, wrapping at 4.
        generations: u8,
    },
}

impl JobSetup {
    /// The job of this number in a script.
    fn job(&self, number: usize, epoch: u32) -> ModelJob {
        let member = |(position, set): (usize, &u64)| {
            // A quorum is of single workers.
            let own = *set == 0 || matches!(self.kind, Kind::Quorum { .. });
            let set = if own { 1 << (position % 64) } else { *set };
            ModelMember {
                source: source(number, position),
                set: members(set),
                workers: set.count_ones(),
            }
        };
        let mut sets = self.sets.clone();
        sets.truncate(64);
        if sets.is_empty() {
            sets.push(0);
        }
        let members: Vec<_> = sets.iter().enumerate().map(member).collect();
        let (count, lanes) = (members.len(), if self.wide { 256 } else { 16 });
        let mut job = ModelJob::new(0x1000 + number as u64, members, lanes, 1 << (self.window % 4));
        job.epoch = epoch;
        match self.kind {
            Kind::Root => {}
            Kind::Spilling(frames) => job.frames = Some(2 + u32::from(frames) % (job.heads() as u32 - 1)),
            Kind::Leaf(member) => {
                job.parent = Some(ModelParent {
                    source: source(number, 500),
                    member: member % 64,
                    epoch: epoch.wrapping_add(u32::from(member / 64)),
                });
            }
            Kind::Quorum {
                members,
                grace,
                generations,
            } => {
                job.quorum = Some(ModelQuorum {
                    members: 1 + members % count as u8,
                    grace: u64::from(grace) * 250_000,
                });
                job.generations = 2 << (generations % 4);
            }
        }
        job
    }
}

fn source(job: usize, member: usize) -> Source {
    let mut ip = [0; 16];
    ip[15] = job as u8;
    ip[0] = 0xfd;
    (ip, 1000 + member as u16)
}

impl Setup {
    /// The jobs, each with the round that its slots begin with.
    pub fn jobs(&self) -> Vec<(ModelJob, u32)> {
        let epoch = u32::from(self.epoch);
        let job = |(number, job): (usize, &JobSetup)| (job.job(number, epoch), job.first_round);
        let mut jobs: Vec<_> = self.jobs.iter().take(4).enumerate().map(job).collect();
        if jobs.is_empty() {
            let pair = JobSetup {
                sets: vec![0; 2],
                ..JobSetup::default()
            };
            jobs.push((pair.job(0, epoch), 0));
        }
        jobs
    }
}

/// What steps are applied to: an aggregator under test that checks itself.
pub trait Subject {
    /// Takes a job in, if it can.
    fn admit(&mut self, job: &ModelJob);

    /// R-JOB-2, with a refusal's reason from 4 to 6.
    fn abort(&mut self, key: u64, reason: i16, member: u8);

    /// R-REFORM-1.
    fn suspend(&mut self, key: u64);

    /// R-QUORUM-5.
    fn exclude(&mut self, key: u64, member: u8);

    /// Forgets a job.
    fn release(&mut self, key: u64);

    /// Starts anew, without memory of anything.
    fn restart(&mut self);

    /// The newest round that a slot has seen.
    fn newest_round(&self, key: u64, slot: u16) -> Option<u32>;

    /// Handles a packet.
    fn handle(&mut self, packet: &[u8], source: Source, now: u64) -> ModelVerdict;

    /// A store has confirmed what it was given so many puts ago. Only of a subject with stores.
    fn stored(&mut self, _back: usize) {}

    /// It gives that back.
    fn recalled(&mut self, _back: usize, _now: u64) -> Option<ModelVerdict> {
        None
    }

    /// It is lost.
    fn store_lost(&mut self, _key: u64) {}
}

/// A subject that steps are applied to.
#[derive(Clone, Debug)]
pub struct Script<S = Lockstep> {
    subject: S,
    jobs: Vec<(ModelJob, u32)>,
    now: u64,
    sent: Vec<(Vec<u8>, Source)>,
}

impl Script {
    /// The jobs admitted, nothing sent.
    pub fn new(setup: &Setup) -> Self {
        let jobs = setup.jobs();
        let mut heads: usize = jobs.iter().map(|(job, _)| job.heads()).sum();
        let mut lanes: usize = jobs.iter().map(|(job, _)| job.values()).sum();
        if !setup.roomy {
            heads = heads.div_ceil(2);
            lanes = lanes.div_ceil(2);
        }
        let subject = Lockstep::new(heads, lanes).answering_probes(setup.epoch.into());
        Self::of(subject, jobs)
    }

    /// What was counted, and the model.
    pub fn lockstep(&self) -> &Lockstep {
        &self.subject
    }
}

impl<S: Subject> Script<S> {
    /// A subject with these jobs, which it has not admitted yet, and the rounds that their slots begin with.
    pub fn of(subject: S, jobs: Vec<(ModelJob, u32)>) -> Self {
        let mut script = Self {
            subject,
            jobs,
            now: 1_000_000_000,
            sent: Vec::new(),
        };
        script.admit_all();
        script
    }

    /// What steps were applied to.
    pub fn into_subject(self) -> S {
        self.subject
    }

    fn admit_all(&mut self) {
        for (job, _) in &self.jobs.clone() {
            self.subject.admit(job);
        }
    }

    fn job(&self, pick: u8) -> &(ModelJob, u32) {
        &self.jobs[usize::from(pick) % self.jobs.len()]
    }

    /// Does one step; panics where core and model differ. The verdict, where the step was a packet.
    pub fn apply(&mut self, step: &Step) -> Option<ModelVerdict> {
        match step {
            Step::Contribute(contribution) => {
                let sender = self.sender(contribution.job, contribution.slot, contribution.round);
                let (bytes, source) = forge(contribution, &sender);
                Some(self.send(bytes, source))
            }
            Step::Down(down) => {
                let sender = self.sender(down.job, down.slot, down.round);
                let (bytes, source) = forge_down(down, &sender);
                Some(self.send(bytes, source))
            }
            Step::Again(ago) => {
                let back = usize::from(*ago) % REMEMBERED;
                let (bytes, source) = self.sent.iter().rev().nth(back)?.clone();
                Some(self.send(bytes, source))
            }
            Step::Raw { job, member, bytes } => {
                let (job, _) = self.job(*job);
                let source = job.members[usize::from(*member) % job.members.len()].source;
                Some(self.send(bytes.clone(), source))
            }
            Step::Wait(quarters) => {
                self.now += u64::from(*quarters) * 250_000;
                None
            }
            Step::Abort { job, reason, member } => {
                let key = self.job(*job).0.key;
                self.subject.abort(key, 4 + i16::from(reason % 3), *member);
                None
            }
            Step::Release(job) => {
                let key = self.job(*job).0.key;
                self.subject.release(key);
                None
            }
            Step::Admit(job) => {
                let job = self.job(*job).0.clone();
                self.subject.admit(&job);
                None
            }
            Step::Suspend(job) => {
                let key = self.job(*job).0.key;
                self.subject.suspend(key);
                None
            }
            Step::Stored(back) => {
                self.subject.stored(usize::from(*back));
                None
            }
            Step::Recalled(back) => self.subject.recalled(usize::from(*back), self.now),
            Step::StoreLost(job) => {
                let key = self.job(*job).0.key;
                self.subject.store_lost(key);
                None
            }
            Step::Exclude { job, member } => {
                let job = &self.job(*job).0;
                let (key, member) = (job.key, member % (job.members.len() as u8 + 1));
                self.subject.exclude(key, member);
                None
            }
            Step::Reform(job) => {
                let number = usize::from(*job) % self.jobs.len();
                let job = &mut self.jobs[number].0;
                job.epoch = job.epoch.saturating_add(1);
                let job = job.clone();
                self.subject.release(job.key);
                self.subject.admit(&job);
                None
            }
            Step::Restart(epochs) => {
                for (job, _) in &mut self.jobs {
                    job.epoch = job.epoch.saturating_add(1 + u32::from(epochs % 4));
                    if let Some(parent) = &mut job.parent {
                        parent.epoch = parent.epoch.saturating_add(u32::from(epochs % 2));
                    }
                }
                self.subject.restart();
                self.admit_all();
                None
            }
        }
    }

    /// Where a packet for a slot of a job goes.
    fn sender(&self, job: u8, slot: u8, round: RoundPick) -> Sender<'_> {
        let (job, first_round) = self.job(job);
        let slot = u16::from(slot) % job.window;
        let newest = self.subject.newest_round(job.key, slot);
        Sender {
            job,
            slot,
            round: round.from(newest.unwrap_or(*first_round)),
            jobs: self.jobs.iter().map(|(job, _)| job).collect(),
        }
    }

    fn send(&mut self, bytes: Vec<u8>, source: Source) -> ModelVerdict {
        let verdict = self.subject.handle(&bytes, source, self.now);
        if self.sent.len() == REMEMBERED {
            self.sent.remove(0);
        }
        self.sent.push((bytes, source));
        verdict
    }
}

impl RoundPick {
    fn from(self, newest: u32) -> u32 {
        match self {
            Self::Newest => newest,
            Self::Off(by) => newest.wrapping_add_signed(i32::from(by)),
            Self::Half(by) => newest.wrapping_add(1 << 31).wrapping_add_signed(i32::from(by)),
            Self::Any(round) => round,
        }
    }
}

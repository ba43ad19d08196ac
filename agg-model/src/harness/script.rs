//! Turns [`Step`]s into packets and events for a [`Lockstep`].

use crate::harness::Lockstep;
use crate::harness::forge::{Sender, forge};
use crate::harness::step::{RoundPick, Step};
use crate::packet::members;
use crate::{ModelJob, ModelMember, ModelVerdict, Source};

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

/// One job of a script.
#[derive(Clone, Debug)]
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
}

impl JobSetup {
    fn job(&self, number: usize) -> ModelJob {
        let member = |(position, set): (usize, &u64)| {
            let set = if *set == 0 { 1 << (position % 64) } else { *set };
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
        ModelJob {
            key: 0x1000 + number as u64,
            members: sets.iter().enumerate().map(member).collect(),
            lanes: if self.wide { 256 } else { 16 },
            window: 1 << (self.window % 4),
            aborted: None,
        }
    }
}

fn source(job: usize, member: usize) -> Source {
    let mut ip = [0; 16];
    ip[15] = job as u8;
    ip[0] = 0xfd;
    (ip, 1000 + member as u16)
}

/// A lockstep that steps are applied to.
#[derive(Clone, Debug)]
pub struct Script {
    lockstep: Lockstep,
    jobs: Vec<(ModelJob, u32)>,
    now: u64,
    sent: Vec<(Vec<u8>, Source)>,
}

impl Script {
    /// The jobs admitted, nothing sent.
    pub fn new(setup: &Setup) -> Self {
        let mut jobs: Vec<_> = setup
            .jobs
            .iter()
            .take(4)
            .enumerate()
            .map(|(n, job)| (job.job(n), job.first_round))
            .collect();
        if jobs.is_empty() {
            jobs.push((
                JobSetup {
                    sets: vec![0; 2],
                    wide: false,
                    window: 0,
                    first_round: 0,
                }
                .job(0),
                0,
            ));
        }
        let generations = |job: &ModelJob| 2 * usize::from(job.window);
        let mut heads: usize = jobs.iter().map(|(job, _)| generations(job)).sum();
        let mut lanes: usize = jobs.iter().map(|(job, _)| generations(job) * job.lanes).sum();
        if !setup.roomy {
            heads = heads.div_ceil(2);
            lanes = lanes.div_ceil(2);
        }
        let lockstep = Lockstep::new(u32::from(setup.epoch), heads, lanes);
        let mut script = Self {
            lockstep,
            jobs,
            now: 1_000_000_000,
            sent: Vec::new(),
        };
        script.admit_all();
        script
    }

    /// What was counted, and the model.
    pub fn lockstep(&self) -> &Lockstep {
        &self.lockstep
    }

    fn admit_all(&mut self) {
        for (job, _) in &self.jobs {
            self.lockstep.admit(job);
        }
    }

    fn job(&self, pick: u8) -> &(ModelJob, u32) {
        &self.jobs[usize::from(pick) % self.jobs.len()]
    }

    /// Does one step; panics where core and model differ. The verdict, where the step was a packet.
    pub fn apply(&mut self, step: &Step) -> Option<ModelVerdict> {
        match step {
            Step::Contribute(contribution) => {
                let (job, first_round) = self.job(contribution.job);
                let slot = u16::from(contribution.slot) % job.window;
                let newest = self
                    .lockstep
                    .model()
                    .newest_round(job.key, slot)
                    .unwrap_or(*first_round);
                let others = self.jobs.iter().map(|(job, _)| job.key).collect();
                let sender = Sender {
                    job,
                    slot,
                    round: contribution.round.from(newest),
                    keys: others,
                };
                let (bytes, source) = forge(contribution, &sender, self.lockstep.model().epoch());
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
                self.lockstep.abort(key, 4 + i16::from(reason % 3), *member);
                None
            }
            Step::Release(job) => {
                let key = self.job(*job).0.key;
                self.lockstep.release(key);
                None
            }
            Step::Admit(job) => {
                let job = self.job(*job).0.clone();
                self.lockstep.admit(&job);
                None
            }
            Step::Restart(epochs) => {
                let epoch = self
                    .lockstep
                    .model()
                    .epoch()
                    .saturating_add(1 + u32::from(epochs % 4));
                self.lockstep.restart(epoch);
                self.admit_all();
                None
            }
        }
    }

    fn send(&mut self, bytes: Vec<u8>, source: Source) -> ModelVerdict {
        let verdict = self.lockstep.handle(&bytes, source, self.now);
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

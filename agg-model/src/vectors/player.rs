//! Plays the packets of a scenario to the model and notes what it does.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use crate::packet::members;
use crate::vectors::lines::source;
use crate::vectors::lines::{
    Abort, Admit, Event, Exclude, Expectation, FORMAT, JobLine, Recalled, Setup, StoreLost, Stored, Suspend,
    VerdictKind,
};
use crate::vectors::text::{Hex, Word};
use crate::vectors::trace::{Datagram, Trace};
use crate::{ModelAggregator, ModelJob, ModelPacket, ModelRequest, ModelVerdict, To};

/// Time between two packets unless the scenario says otherwise, in ns: a fifth of the pause between Wants.
const STEP: u64 = 200_000;

/// A trace that is being written.
#[derive(Debug)]
pub struct Player {
    model: ModelAggregator,
    trace: Trace,
    /// The jobs as they are now.
    jobs: Vec<JobLine>,
    /// What stores keep, by key, slot and round.
    kept: BTreeMap<(u64, u16, u32), Vec<i32>>,
    now: u64,
}

impl Player {
    /// A trace named `name`, of an aggregator with these jobs.
    pub fn new(name: &str, about: &str, epoch: u32, jobs: &[JobLine]) -> Self {
        let models: Vec<_> = jobs.iter().map(|job| job.job(epoch)).collect();
        let heads = models.iter().map(ModelJob::heads).sum();
        let lanes = models.iter().map(ModelJob::values).sum();
        let mut model = ModelAggregator::new(heads, lanes);
        for job in models {
            assert!(model.admit(job.clone()), "{name}: {job:?} is not admitted");
        }
        let (now_jobs, jobs, about) = (jobs.to_vec(), jobs.to_vec(), about.to_owned());
        let setup = Setup {
            format: FORMAT,
            about,
            packets: 0,
            epoch,
            jobs,
        };
        let trace = Trace {
            name: name.to_owned(),
            setup,
            events: Vec::new(),
            datagrams: Vec::new(),
        };
        Self {
            model,
            trace,
            jobs: now_jobs,
            kept: BTreeMap::new(),
            now: 1_000_000_000,
        }
    }

    /// The member that a packet names sends it; of a job or member that does not exist, somebody of the first job does.
    /// The scenario says which rule it shows and what is counted; the model has to agree.
    pub fn send(&mut self, packet: &ModelPacket, rule: &str, counter: &str, about: &str) {
        let job = self.jobs.iter().find(|job| job.key.0 == packet.key);
        let job = job.unwrap_or(&self.jobs[0]);
        let sender = job
            .members
            .get(usize::from(packet.member))
            .unwrap_or(&job.members[0]);
        self.send_bytes(sender.address, packet.emit(), rule, counter, about);
    }

    /// The same with any bytes from anywhere.
    pub fn send_bytes(
        &mut self,
        from: SocketAddrV4,
        payload: Vec<u8>,
        rule: &str,
        counter: &str,
        about: &str,
    ) {
        let (verdict, besides) = self.model.handle_near(&payload, source(from), self.now);
        let name = &self.trace.name;
        assert_eq!(verdict.counter, counter, "{name}: {rule}: {about}");
        let kind = kind(&verdict);
        self.trace.datagrams.push(Datagram {
            source: from,
            payload,
        });
        self.trace.setup.packets += 1;
        self.trace.events.push(Event::Packet(Expectation {
            packet: self.trace.setup.packets,
            now: self.now,
            rule: rule.to_owned(),
            about: about.to_owned(),
            counter: counter.to_owned(),
            also: besides.first().map(|counter| (*counter).to_owned()),
            verdict: kind,
            output: verdict.send.map(|send| Hex(send.bytes)),
        }));
        self.now += STEP;
    }

    /// The store has been given what is at a slot and round, and confirms it.
    pub fn stored(&mut self, job: &JobLine, (slot, round): (u16, u32), set: u64) {
        let (key, place) = (job.key.0, place(slot, round));
        self.model.asked(key);
        let values = self.model.values(key, place).to_vec();
        let put = ModelRequest {
            place,
            round,
            set: members(set),
            put: Some(values.clone()),
        };
        self.model.requested(key, self.now - STEP, &[put]);
        self.model.stored(key, place, round, &members(set));
        self.kept.insert((key, slot, round), values);
        self.trace.events.push(Event::Stored(Stored {
            stored: job.key,
            slot,
            round,
            set: Word(set),
        }));
    }

    /// The store gives back what it was given.
    pub fn recalled(
        &mut self,
        job: &JobLine,
        (slot, round): (u16, u32),
        set: u64,
        rule: &str,
        counter: &str,
        about: &str,
    ) {
        let key = job.key.0;
        let values = &self.kept[&(key, slot, round)];
        let sum = (round, &members(set));
        let (verdict, _) = self
            .model
            .recalled(key, place(slot, round), sum, values, self.now);
        assert_eq!(verdict.counter, counter, "{}: {rule}: {about}", self.trace.name);
        self.trace.events.push(Event::Recalled(Recalled {
            recalled: job.key,
            slot,
            round,
            set: Word(set),
            now: self.now,
            rule: rule.to_owned(),
            about: about.to_owned(),
            counter: counter.to_owned(),
            verdict: kind(&verdict),
            output: verdict.send.map(|send| Hex(send.bytes)),
        }));
        self.now += STEP;
    }

    /// The store is lost; with one frame, what waits in it is emptied, too.
    pub fn store_lost(&mut self, job: &JobLine) {
        let key = job.key.0;
        let near = self.model.near(key);
        let waits = near
            .iter()
            .find(|(slot, number, complete)| !complete && !self.model.is_stored(key, *slot, *number));
        self.model
            .store_lost(key, waits.map(|(slot, number, _)| (*slot, *number)));
        let store_lost = job.key;
        self.trace.events.push(Event::StoreLost(StoreLost { store_lost }));
    }

    /// A job is aborted.
    pub fn abort(&mut self, key: u64, reason: i16, member: u8) {
        self.model.abort(key, reason, member);
        let abort = Abort {
            abort: Word(key),
            reason,
            member,
        };
        self.trace.events.push(Event::Abort(abort));
    }

    /// A job is suspended.
    pub fn suspend(&mut self, key: u64) {
        self.model.suspend(key);
        let suspend = Suspend { suspend: Word(key) };
        self.trace.events.push(Event::Suspend(suspend));
    }

    /// A member is removed.
    pub fn exclude(&mut self, key: u64, member: u8) {
        self.model.exclude(key, member);
        let exclude = Exclude {
            exclude: Word(key),
            member,
        };
        self.trace.events.push(Event::Exclude(exclude));
    }

    /// A job takes the place of the one of its key.
    pub fn admit(&mut self, job: &JobLine) {
        self.model.release(job.key.0);
        assert!(
            self.model.admit(job.job(self.trace.setup.epoch)),
            "{job:?} is not admitted"
        );
        self.jobs.retain(|other| other.key != job.key);
        self.jobs.push(job.clone());
        let admit = Admit { admit: job.clone() };
        self.trace.events.push(Event::Admit(admit));
    }

    /// The next packet comes so long, in ns, after the last.
    pub fn after(&mut self, ns: u64) {
        self.now = self.now - STEP + ns;
    }

    /// The whole trace.
    pub fn finish(self) -> Trace {
        self.trace
    }
}

/// Two generations a slot.
fn place(slot: u16, round: u32) -> u32 {
    u32::from(slot) * 2 + round % 2
}

fn kind(verdict: &ModelVerdict) -> VerdictKind {
    match verdict.send.as_ref().map(|send| send.to) {
        None => VerdictKind::Quiet,
        Some(To::Sender) => VerdictKind::Reply,
        Some(To::Members(_)) => VerdictKind::Broadcast,
        Some(To::Parent(_)) => VerdictKind::Forward,
    }
}

//! The real aggregators, and the times at which packets arrive there.

use std::sync::Mutex;

use agg_core::slot::Head;
use agg_core::{
    Aggregator, Counter, Job, JobConfig, Lanes, Member as JobMember, MemberSet, Parent, Policy, Verdict,
};

use crate::member::KEY;
use crate::network::Packet;
use crate::node::NodeEvent;
use crate::scenario::Scenario;
use crate::topology::Party;
use crate::values::LANES;

/// When a packet arrives: what decides whether its slot is silent (R-SLOT-4, R-LEAF-2) and, under a quorum, whether the
/// grace is over (R-QUORUM-1). Heads are kept as if all their times were 0, so that every combination can be had at
/// any arrival.
#[derive(Clone, Copy, Debug)]
pub struct Instant {
    now: u64,
    grace: u64,
}

/// The slot is silent and young; neither; silent; young. Where the grace is 0, no slot is young.
pub const INSTANTS: [Instant; 4] = [
    Instant { now: 0, grace: 10 },
    Instant {
        now: 1 << 41,
        grace: 10,
    },
    Instant { now: 100, grace: 10 },
    Instant {
        now: 1 << 30,
        grace: 1 << 40,
    },
];

/// That at which whatever waits for time to pass has waited: a fair schedule is slow.
pub const LATE: usize = 1;

/// How many of them make a difference.
pub fn instants(policy: Policy) -> usize {
    match policy {
        Policy::Quorum { grace, .. } if grace > 0 => INSTANTS.len(),
        _ => 2,
    }
}

/// The one real aggregator of a place, with the job in. An aggregator has room for many jobs and is large, so that
/// states of the model hold its job and slot memory only, which are lent to it for each packet.
#[derive(Debug)]
pub struct Engine {
    aggregator: Mutex<Aggregator<Vec<Head>, Vec<i32>>>,
    /// The job before anything.
    pub(crate) job: Job,
    pub(crate) parent: Option<Party>,
}

impl Engine {
    /// An aggregator with the scenario's job in the place `number` of a topology.
    pub fn new(topology: usize, number: usize, scenario: &Scenario) -> Self {
        let topology = &scenario.topologies[topology];
        let place = topology.place(number);
        let generations = usize::from(scenario.generations) * usize::from(scenario.window);
        let mut aggregator = Aggregator::new(vec![Head::VACANT; generations], vec![0; generations * LANES]);
        let members = (0..).zip(&place.members).map(|(number, member)| JobMember {
            source: member.endpoint(),
            set: MemberSet::single(number),
            workers: topology.workers(*member) as u32,
        });
        let parent = place.parent.map(|parent| Parent {
            source: Party::Node(parent).endpoint(),
            member: topology
                .number(parent, Party::Node(number))
                .expect("a parent knows its leaves"),
            epoch: topology.place(parent).epoch,
        });
        let job = JobConfig {
            key: KEY,
            epoch: place.epoch,
            members: members.collect(),
            lanes: Lanes::L16,
            window: scenario.window,
            generations: scenario.generations,
            policy: scenario.policy,
            parent,
            frames: None,
        };
        aggregator.admit(&job).expect("the slots fit the job");
        Self {
            job: *aggregator.job(KEY).expect("it was admitted"),
            aggregator: Mutex::new(aggregator),
            parent: place.parent.map(Party::Node),
        }
    }

    /// The job after an event that is not a packet.
    pub fn after(&self, job: &Job, event: NodeEvent<&Packet>) -> Job {
        let mut aggregator = self.aggregator.lock().expect("no panic under the lock");
        *aggregator.job_mut(KEY).expect("it was admitted") = *job;
        match event {
            NodeEvent::Suspend => aggregator.suspend(KEY),
            NodeEvent::Exclude(member) => aggregator.exclude(KEY, member),
            NodeEvent::Take(..) => {}
        }
        *aggregator.job(KEY).expect("it was admitted")
    }

    /// As [`Aggregator::handle`], with the job and memory of a state; and what was counted.
    pub fn handle(
        &self,
        job: &mut Job,
        (heads, values): (&mut [Head], &mut [i32]),
        packet: &Packet,
        instant: Instant,
        out: &mut [u8],
    ) -> (Verdict, Option<Counter>) {
        let mut aggregator = self.aggregator.lock().expect("no panic under the lock");
        let before = aggregator.counters().clone();
        let memory = aggregator.memory_mut();
        memory.0.clone_from_slice(heads);
        memory.1.copy_from_slice(values);
        let lent = aggregator.job_mut(KEY).expect("it was admitted");
        *lent = Job {
            policy: graced(job.policy, instant),
            ..*job
        };
        let verdict = aggregator.handle(&packet.bytes, &packet.from.endpoint(), instant.now, out);
        *job = Job {
            policy: job.policy,
            ..*aggregator.job(KEY).expect("it was admitted")
        };
        let memory = aggregator.memory();
        for (head, now) in heads.iter_mut().zip(memory.0) {
            *head = now.without_time();
        }
        values.copy_from_slice(memory.1);
        let counted = aggregator.counters().iter();
        let counted = counted
            .into_iter()
            .find(|(counter, count)| *count != before.get(*counter));
        (verdict, counted.map(|(counter, _)| counter))
    }
}

/// The policy with the grace of an instant, unless it is 0.
fn graced(policy: Policy, instant: Instant) -> Policy {
    match policy {
        Policy::Quorum { members, grace } if grace > 0 => Policy::Quorum {
            members,
            grace: instant.grace,
        },
        _ => policy,
    }
}

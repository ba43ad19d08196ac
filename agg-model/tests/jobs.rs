//! Jobs that come and go: core and model admit and refuse the same, and their slots never share memory.

mod common;

use agg_core::Lanes;
use agg_model::harness::Lockstep;
use agg_model::harness::random::Random;
use agg_model::packet::{DATA, ModelPacket, to_bytes};
use agg_model::{ModelJob, ModelMember};
use proptest::collection::vec;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/jobs.txt";

#[derive(Clone, Debug)]
enum Step {
    Admit {
        key: u64,
        members: u8,
        empty_set: bool,
        window: u16,
        wide: bool,
    },
    Release {
        key: u64,
    },
    /// The next one of its key takes its place.
    Suspend {
        key: u64,
    },
    /// A member contributes to a slot: whatever shares its memory shows.
    Contribute {
        key: u64,
        member: u8,
        slot: u16,
        round: u32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let window =
        prop_oneof![6 => (0_u32..5).prop_map(|power| 1 << power), 1 => 0_u16..40, 1 => Just(1 << 15)];
    let odd = prop::bool::weighted(0.05);
    let admit = (0_u64..8, 0_u8..4, odd, window, any::<bool>());
    let contribution = (1_u64..8, 0_u8..3, 0_u16..16, 0_u32..4);
    prop_oneof![
        3 => admit.prop_map(|(key, members, empty_set, window, wide)| Step::Admit { key, members, empty_set, window, wide }),
        2 => (0_u64..8).prop_map(|key| Step::Release { key }),
        1 => (0_u64..8).prop_map(|key| Step::Suspend { key }),
        8 => contribution.prop_map(|(key, member, slot, round)| Step::Contribute { key, member, slot, round }),
    ]
}

fn job(key: u64, members: u8, window: u16, lanes: usize) -> ModelJob {
    let member = |number: u8| ModelMember {
        source: ([key as u8; 16], u16::from(number)),
        set: [number].into(),
        workers: 1,
    };
    ModelJob::new(key, (0..members).map(member).collect(), lanes, window)
}

fn contribution(job: &ModelJob, member: u8, slot: u16, round: u32) -> Vec<u8> {
    let seed = job.key << 16 | u64::from(member) << 8 | u64::from(round);
    let packet = ModelPacket {
        kind: DATA,
        up: true,
        result: false,
        resend: false,
        nonfinite: false,
        header_only: false,
        congested: false,
        member,
        slot,
        key: job.key,
        epoch: 1,
        round,
        set: [member].into(),
        workers: 1,
        scale: None,
        next: None,
        op: 1 << 56 | 1,
        op_seq: 0,
        rest: to_bytes(&Random::new(seed).integers(job.lanes)),
    };
    packet.emit()
}

#[test]
fn job_1_core_and_model_admit_the_same_and_jobs_do_not_share_slots() {
    common::check(3_000, REGRESSIONS, vec(step(), 1..80), |steps| {
        let mut both = Lockstep::new(40, 2_000);
        for step in steps {
            match step {
                Step::Admit {
                    key,
                    members,
                    empty_set,
                    window,
                    wide,
                } => {
                    let mut job = job(key, members, window, if wide { 256 } else { 16 });
                    if let Some(member) = job.members.last_mut().filter(|_| empty_set) {
                        member.set.clear();
                    }
                    both.admit(&job);
                }
                Step::Release { key } => both.release(key),
                Step::Suspend { key } => both.suspend(key),
                Step::Contribute {
                    key,
                    member,
                    slot,
                    round,
                } => {
                    let Some(job) = both.model().job(key).cloned() else {
                        continue;
                    };
                    let member = member % job.members.len() as u8;
                    let source = job.members[usize::from(member)].source;
                    both.handle(&contribution(&job, member, slot % job.window, round), source, 0);
                }
            }
        }
    });
}

#[test]
fn only_so_many_jobs_fit_the_table() {
    let mut both = Lockstep::new(1_000, 16_000);
    let admitted = (1..100).filter(|key| both.admit(&job(*key, 1, 1, 16))).count();
    assert_eq!(admitted, agg_core::aggregator::MAX_JOBS);
    both.release(50);
    assert!(both.admit(&job(500, 1, 1, 16)));
    both.suspend(7);
    assert!(both.admit(&job(7, 2, 1, 16)), "in the place of the suspended one");
}

/// A slot of each size, completed in both generations of the last slot, with the memory just large enough.
#[test]
fn chunk_5_every_size_of_chunk_is_summed() {
    for lanes in Lanes::ALL {
        let job = job(9, 3, 2, lanes.count());
        let mut both = Lockstep::with_jobs(std::slice::from_ref(&job));
        for round in [4, 5, 6] {
            for member in [2, 0, 1] {
                let source = job.members[usize::from(member)].source;
                both.handle(&contribution(&job, member, 1, round), source, 0);
            }
        }
        assert_eq!(both.count("slots_completed"), 3, "{lanes:?}");
    }
}

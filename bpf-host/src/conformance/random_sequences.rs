//! Random sequences of steps, from the property tests' generator.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use agg_core::Counter;
use agg_model::ModelJob;
use agg_model::harness::lockstep::OF_STORES;
use agg_model::harness::strategies::{self, check};
use agg_model::harness::{JobSetup, Kind, Script, Setup, Step};
use bpf_layout::LANES;
use proptest::collection::vec;
use proptest::prelude::*;

use super::frames;
use super::kernel::Kernel;
use super::pair::Pair;
use super::programs::EPOCH;

const REGRESSIONS: &str = "proptest-regressions/conformance.txt";

/// Memory for the largest jobs of any setup.
const MEMORY: u64 = 8 << 20;

/// The jobs as this host can have them: chunks of its sizes, beginning with one of them, IPv4, no store.
fn hosted(setup: &Setup, sizes: usize) -> Vec<(ModelJob, u32)> {
    let mut jobs = setup.jobs();
    for (number, (job, _)) in jobs.iter_mut().enumerate() {
        job.lanes = LANES[(number + sizes) % LANES.len()];
        job.frames = None;
        for member in &mut job.members {
            member.source = frames::v4(member.source);
        }
        if let Some(parent) = &mut job.parent {
            parent.source = frames::v4(parent.source);
        }
    }
    jobs
}

/// What random sequences have reached.
#[derive(Default)]
struct Reached {
    packets: Cell<u64>,
    relayed: Cell<u64>,
    counters: RefCell<BTreeSet<&'static str>>,
}

/// Checks so many sequences of the setup and steps.
fn sequences(
    cases: u32,
    setups: impl Strategy<Value = Setup>,
    steps: impl Strategy<Value = Vec<Step>>,
) -> Reached {
    let kernel = RefCell::new(Kernel::load(MEMORY));
    let reached = Reached::default();
    check(
        cases,
        REGRESSIONS,
        (setups, 0..LANES.len(), steps),
        |(mut setup, sizes, steps)| {
            // The loaded program's.
            setup.epoch = EPOCH;
            let mut kernel = kernel.borrow_mut();
            let jobs = hosted(&setup, sizes);
            let models: Vec<ModelJob> = jobs.iter().map(|(job, _)| job.clone()).collect();
            let mut script = Script::of(Pair::new(&mut kernel, &models), jobs);
            for step in &steps {
                script.apply(step);
            }
            let pair = script.into_subject();
            reached.packets.set(reached.packets.get() + pair.packets());
            reached.relayed.set(reached.relayed.get() + pair.relayed());
            let counted = Counter::ALL.iter().map(|counter| counter.name());
            reached
                .counters
                .borrow_mut()
                .extend(counted.filter(|name| pair.count(name) > 0));
        },
    );
    println!(
        "{} packets, {} of them without room for their answer, {} of {} counters raised",
        reached.packets.get(),
        reached.relayed.get(),
        reached.counters.borrow().len(),
        Counter::ALL.len()
    );
    reached
}

fn alone(job: JobSetup) -> Setup {
    Setup {
        jobs: vec![job],
        epoch: EPOCH,
        roomy: true,
    }
}

/// Roots, leaves and quorums beside each other; aborts, suspensions, removed members, releases and restarts; packets forged and
/// damaged.
#[test]
#[ignore = "needs root"]
fn random_sequences_of_several_jobs_give_the_same_in_the_kernel_as_in_user_space() {
    let reached = sequences(500, strategies::setup(), vec(strategies::step(), 1..300));
    let names = Counter::ALL.iter().map(|counter| counter.name());
    // There are no stores here.
    let missing: Vec<_> = names
        .filter(|name| !OF_STORES.contains(name) && !reached.counters.borrow().contains(name))
        .collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

/// One slot and few members, so that sequences go deep: completed, replayed, wanted, restored, recycled.
#[test]
#[ignore = "needs root"]
fn random_sequences_in_a_single_slot_give_the_same_in_the_kernel_as_in_user_space() {
    let sets = prop_oneof![Just(vec![0, 0]), Just(vec![0, 0, 0]), vec(1_u64..8, 2..4)];
    let setup = sets.prop_map(|sets| {
        alone(JobSetup {
            sets,
            first_round: u32::MAX - 2,
            ..JobSetup::default()
        })
    });
    sequences(250, setup, vec(strategies::step(), 1..300));
}

/// One slot of a leaf: full, sent up again, wanted, refused, answered from above and restored from below.
#[test]
#[ignore = "needs root"]
fn random_sequences_at_a_leaf_give_the_same_in_the_kernel_as_in_user_space() {
    let sets = prop_oneof![Just(vec![0]), Just(vec![0, 0]), vec(1_u64..8, 2..4)];
    let setup = (sets, 0_u8..64).prop_map(|(sets, member)| {
        alone(JobSetup {
            sets,
            first_round: u32::MAX - 2,
            kind: Kind::Leaf(member),
            ..JobSetup::default()
        })
    });
    let reached = sequences(250, setup, vec(strategies::leaf_step(), 1..300));
    assert!(reached.relayed.get() > 0, "no parent's Want needed room");
}

/// A slot or two under a quorum: released early, late members, history that is full, members that are removed.
#[test]
#[ignore = "needs root"]
fn random_sequences_under_a_quorum_give_the_same_in_the_kernel_as_in_user_space() {
    let setup = (2_usize..5, strategies::quorum(), 0_u8..2).prop_map(|(members, kind, window)| {
        alone(JobSetup {
            sets: vec![0; members],
            window,
            first_round: u32::MAX - 2,
            kind,
            ..JobSetup::default()
        })
    });
    sequences(250, setup, vec(strategies::quorum_step(), 1..300));
}

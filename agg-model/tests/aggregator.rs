//! The real aggregator does just what the model does: verdict, bytes and counters, after every packet of any sequence.

mod common;

use std::cell::RefCell;
use std::collections::BTreeSet;

use agg_core::Counter;
use agg_model::To;
use agg_model::harness::lockstep::OF_STORES;
use agg_model::harness::step::{Contribution, RoundPick};
use agg_model::harness::{JobSetup, Kind, Oddity, Script, Setup, Step};
use proptest::collection::vec;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/aggregator.txt";

fn run(setup: &Setup, steps: &[Step]) -> Script {
    let mut script = Script::new(setup);
    for step in steps {
        script.apply(step);
    }
    script
}

fn alone(job: JobSetup) -> Setup {
    Setup {
        jobs: vec![job],
        epoch: 5,
        roomy: true,
    }
}

#[test]
fn core_and_model_agree_after_every_step() {
    common::check(
        2500,
        REGRESSIONS,
        (common::setup(), vec(common::step(), 1..120)),
        |(setup, steps)| {
            run(&setup, &steps);
        },
    );
}

/// One slot and few members, so that sequences go deep: completed, replayed, wanted, restored, recycled.
#[test]
fn core_and_model_agree_in_a_single_slot() {
    let setup = prop_oneof![Just(vec![0, 0]), Just(vec![0, 0, 0]), vec(1_u64..8, 2..4)].prop_map(|sets| {
        let job = JobSetup {
            sets,
            wide: false,
            window: 0,
            first_round: u32::MAX - 2,
            kind: Kind::Root,
        };
        alone(job)
    });
    common::check(
        2500,
        REGRESSIONS,
        (setup, vec(common::step(), 1..80)),
        |(setup, steps)| {
            run(&setup, &steps);
        },
    );
}

/// One slot of a leaf: full, sent up again, wanted, refused, answered from above and restored from below.
#[test]
fn leaf_core_and_model_agree_in_a_single_slot() {
    let sets = prop_oneof![Just(vec![0]), Just(vec![0, 0]), vec(1_u64..8, 2..4)];
    let setup = (sets, 0_u8..64).prop_map(|(sets, member)| {
        alone(JobSetup {
            sets,
            first_round: u32::MAX - 2,
            kind: Kind::Leaf(member),
            ..JobSetup::default()
        })
    });
    let steps = vec(common::leaf_step(), 1..80);
    common::check(2500, REGRESSIONS, (setup, steps), |(setup, steps)| {
        run(&setup, &steps);
    });
}

/// A slot or two under a quorum: released early, late members, history that is full, members that are removed.
#[test]
fn quorum_core_and_model_agree_in_few_slots() {
    let setup = (2_usize..5, common::quorum(), 0_u8..2).prop_map(|(members, kind, window)| {
        alone(JobSetup {
            sets: vec![0; members],
            window,
            first_round: u32::MAX - 2,
            kind,
            ..JobSetup::default()
        })
    });
    let steps = vec(common::quorum_step(), 1..120);
    common::check(2500, REGRESSIONS, (setup, steps), |(setup, steps)| {
        run(&setup, &steps);
    });
}

/// A few slots over fewer frames: results forgotten, sums put, recalled late or twice, lost; no frame to be had.
#[test]
fn spill_core_and_model_agree_over_few_frames() {
    let sets = prop_oneof![Just(vec![0, 0]), Just(vec![0, 0, 0]), vec(1_u64..8, 2..4)];
    let setup = (sets, 0_u8..3, any::<u8>()).prop_map(|(sets, window, frames)| {
        alone(JobSetup {
            sets,
            window,
            first_round: u32::MAX - 2,
            kind: Kind::Spilling(frames),
            ..JobSetup::default()
        })
    });
    let reached: RefCell<BTreeSet<&'static str>> = RefCell::default();
    let steps = vec(common::spill_step(), 1..160);
    common::check(4000, REGRESSIONS, (setup, steps), |(setup, steps)| {
        let script = run(&setup, &steps);
        reached
            .borrow_mut()
            .extend(script.lockstep().counts().map(|(counter, _)| counter));
    });
    for counter in OF_STORES {
        assert!(reached.borrow().contains(counter), "{counter} never counted");
    }
}

/// The sequences above are worth something only if they reach everything that an aggregator can do.
#[test]
fn random_sequences_reach_every_counter() {
    let names = Counter::ALL.iter().map(|counter| counter.name());
    let missing: RefCell<Vec<_>> = RefCell::new(names.filter(|name| !OF_STORES.contains(name)).collect());
    common::check(
        1500,
        REGRESSIONS,
        (common::setup(), vec(common::step(), 1..120)),
        |(setup, steps)| {
            let script = run(&setup, &steps);
            missing
                .borrow_mut()
                .retain(|name| script.lockstep().count(name) == 0);
        },
    );
    assert!(missing.borrow().is_empty(), "never reached: {missing:?}");
}

fn one_slot(sets: &[u64]) -> Script {
    Script::new(&alone(JobSetup {
        sets: sets.to_vec(),
        first_round: 1,
        ..JobSetup::default()
    }))
}

fn contribute(member: u8, resend: bool, oddities: &[Oddity]) -> Step {
    Step::Contribute(Contribution {
        job: 0,
        member,
        slot: 0,
        round: RoundPick::Newest,
        resend,
        next: 3,
        values: member,
        oddities: oddities.to_vec(),
    })
}

fn counters(script: &mut Script, steps: &[Step]) -> Vec<&'static str> {
    steps
        .iter()
        .filter_map(|step| Some(script.apply(step)?.counter))
        .collect()
}

/// The order that the core has: a RESULT that may be taken is checked for R-OP-4 and R-NUM-4 before it replaces.
#[test]
fn slot_2_a_result_of_another_operation_conflicts() {
    for (oddity, counter) in [
        (Oddity::OpSeq(1), "refused_operation_differs"),
        (Oddity::Scale(77), "refused_scale_differs"),
    ] {
        let mut script = one_slot(&[0, 0]);
        let steps = [
            contribute(0, false, &[]),
            contribute(0, true, &[]),
            contribute(1, false, &[Oddity::Result, oddity]),
            contribute(1, false, &[Oddity::Result]),
        ];
        let seen = counters(&mut script, &steps);
        assert_eq!(seen, ["contributions_merged", "wants_sent", counter, counter]);
    }
}

/// Whether a Want went out survives that the values are replaced.
#[test]
fn slot_5_and_6_a_replaced_generation_stays_asked() {
    let mut script = one_slot(&[0b001, 0b011, 0b110]);
    let steps = [
        contribute(0, false, &[]),
        contribute(0, true, &[]),
        contribute(1, false, &[]),
        contribute(1, true, &[]),
        Step::Wait(4),
        contribute(1, true, &[]),
        contribute(2, false, &[Oddity::Result, Oddity::Workers(9)]),
    ];
    let seen = counters(&mut script, &steps);
    let expected = [
        "contributions_merged",
        "wants_sent",
        "contributions_replaced",
        "duplicates",
        "wants_sent",
        "slots_restored",
    ];
    assert_eq!(seen, expected);
}

/// Rounds that are just half the round space apart are neither before nor after: dropped as stale, both ways.
#[test]
fn chunk_4_half_the_round_space_away_is_not_after() {
    let mut script = one_slot(&[0, 0]);
    let at = |round| {
        let Step::Contribute(contribution) = contribute(0, false, &[]) else {
            unreachable!()
        };
        Step::Contribute(Contribution {
            round,
            ..contribution
        })
    };
    let steps = [
        at(RoundPick::Any(2)),
        at(RoundPick::Half(0)),
        at(RoundPick::Half(-2)),
        at(RoundPick::Any(0)),
    ];
    let seen = counters(&mut script, &steps);
    assert_eq!(
        seen,
        [
            "contributions_merged",
            "dropped_stale_round",
            "contributions_merged",
            "dropped_stale_round"
        ]
    );
}

/// The question's length comes back, to whoever asked; an answer, another epoch and a length that no chunk has do not.
#[test]
fn probe_2_only_a_question_of_its_epoch_is_answered() {
    const PROBE: Oddity = Oddity::Kind(4);
    let mut script = one_slot(&[0, 0]);
    let mut ask = |oddities: &[Oddity]| script.apply(&contribute(0, false, oddities)).unwrap();

    let answer = ask(&[PROBE, Oddity::Port(9), Oddity::Key(77)]);
    let send = answer.send.unwrap();
    assert_eq!(
        (answer.counter, send.to, send.bytes.len()),
        ("probes_answered", To::Sender, 120)
    );
    for (oddity, counter) in [
        (Oddity::Down, "dropped_wrong_direction"),
        (Oddity::Epoch(1), "dropped_wrong_epoch"),
        (Oddity::Epoch(-1), "dropped_wrong_epoch"),
        (Oddity::Longer(1), "dropped_bad_length"),
        (Oddity::OtherShape, "dropped_not_tributary"),
    ] {
        let verdict = ask(&[PROBE, oddity]);
        assert_eq!((verdict.counter, verdict.send), (counter, None));
    }
    assert_eq!(ask(&[]).counter, "contributions_merged");
}

//! The real aggregator does just what the model does: verdict, bytes and counters, after every packet of any sequence.

mod common;

use std::cell::RefCell;

use agg_core::Counter;
use agg_model::harness::step::{Contribution, RoundPick};
use agg_model::harness::{JobSetup, Oddity, Script, Setup, Step};
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
        };
        Setup {
            jobs: vec![job],
            epoch: 1,
            roomy: true,
        }
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

/// The sequences above are worth something only if they reach everything that an aggregator can do.
#[test]
fn random_sequences_reach_every_counter() {
    let missing: RefCell<Vec<_>> = RefCell::new(Counter::ALL.iter().map(|counter| counter.name()).collect());
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
    let job = JobSetup {
        sets: sets.to_vec(),
        wide: false,
        window: 0,
        first_round: 1,
    };
    Script::new(&Setup {
        jobs: vec![job],
        epoch: 5,
        roomy: true,
    })
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

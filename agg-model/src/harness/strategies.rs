//! Strategies for setups and steps, and the configuration that property tests share.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::harness::step::{Contribution, Down, Oddity, RoundPick, Says, Step};
use crate::harness::{JobSetup, Kind, Setup};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, RngSeed, TestRunner};

/// Runs `property` on `cases` values of `strategy`; shrunk failures are kept in `regressions`.
pub fn check<S: Strategy>(cases: u32, regressions: &'static str, strategy: S, property: impl Fn(S::Value)) {
    let run = TestRunner::new(config(cases, regressions)).run(&strategy, |value| {
        property(value);
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}

/// `cases` cases from a seed that is printed: a new one each run, or `PROPTEST_RNG_SEED`. Failures are kept, shrunk,
/// beside the tests. `PROPTEST_CASES` says how many cases instead.
fn config(cases: u32, regressions: &'static str) -> Config {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if config.rng_seed == RngSeed::Random {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a clock after 1970");
        config.rng_seed = RngSeed::Fixed(since.as_nanos() as u64);
    }
    println!("seed: PROPTEST_RNG_SEED={}", config.rng_seed);
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    config.max_shrink_iters = 20_000;
    config.failure_persistence = Some(Box::new(FileFailurePersistence::Direct(regressions)));
    config
}

fn round() -> impl Strategy<Value = RoundPick> {
    prop_oneof![
        20 => Just(RoundPick::Newest),
        6 => Just(RoundPick::Off(1)),
        4 => (-3_i8..4).prop_map(RoundPick::Off),
        1 => (-2_i8..3).prop_map(RoundPick::Half),
        1 => any::<u32>().prop_map(RoundPick::Any),
    ]
}

fn oddity() -> impl Strategy<Value = Oddity> {
    prop_oneof![
        8 => Just(Oddity::Result),
        1 => Just(Oddity::Down),
        1 => any::<u8>().prop_map(Oddity::Kind),
        2 => (0_u8..32).prop_map(Oddity::Flags),
        1 => any::<u8>().prop_map(Oddity::Member),
        2 => any::<u8>().prop_map(Oddity::SetOf),
        1 => any::<u64>().prop_map(Oddity::Set),
        1 => any::<u32>().prop_map(Oddity::Workers),
        1 => any::<u8>().prop_map(Oddity::JobKey),
        1 => any::<u64>().prop_map(Oddity::Key),
        1 => any::<u8>().prop_map(Oddity::SourceOf),
        1 => any::<u16>().prop_map(Oddity::Port),
        2 => (-2_i8..3).prop_map(Oddity::Epoch),
        1 => any::<u8>().prop_map(Oddity::Op),
        1 => any::<u8>().prop_map(Oddity::OpKind),
        1 => any::<u8>().prop_map(Oddity::OpSeq),
        1 => any::<i16>().prop_map(Oddity::Scale),
        2 => prop_oneof![Just(i16::MIN), any::<i16>()].prop_map(Oddity::Next),
        2 => Just(Oddity::NonFinite),
        1 => Just(Oddity::OtherShape),
        1 => any::<u8>().prop_map(Oddity::SourceOfParent),
        1 => Just(Oddity::EpochOfParent),
        1 => (0_u16..10).prop_map(Oddity::Slot),
        1 => any::<u16>().prop_map(Oddity::Shorter),
        1 => any::<u8>().prop_map(Oddity::Longer),
        2 => (0_u16..600).prop_map(Oddity::Flip),
        2 => (0_u16..448).prop_map(Oddity::Wrong),
    ]
}

fn oddities() -> impl Strategy<Value = Vec<Oddity>> {
    prop_oneof![6 => Just(Vec::new()), 2 => vec(oddity(), 1), 1 => vec(oddity(), 2..4)]
}

fn contribution() -> impl Strategy<Value = Contribution> {
    let place = (0_u8..4, 0_u8..8, 0_u8..8, round());
    let what = (any::<bool>(), any::<i8>(), any::<u8>(), oddities());
    (place, what).prop_map(
        |((job, member, slot, round), (resend, next, values, oddities))| Contribution {
            job,
            member,
            slot,
            round,
            resend,
            next,
            values,
            oddities,
        },
    )
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        3 => Just(Says::Result),
        3 => Just(Says::Want),
        1 => (1_i8..3).prop_map(Says::Refusal),
        1 => any::<i8>().prop_map(Says::Refusal),
    ]
}

/// What a parent sends.
fn down() -> impl Strategy<Value = Down> {
    let place = (0_u8..4, 0_u8..8, round());
    let set = prop_oneof![Just(0), any::<u64>()];
    let what = (says(), set, any::<u8>(), oddities());
    (place, what).prop_map(|((job, slot, round), (says, set, values, oddities))| Down {
        job,
        slot,
        round,
        says,
        set,
        values,
        oddities,
    })
}

/// One step, mostly packets of members.
pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => contribution().prop_map(Step::Contribute),
        6 => down().prop_map(Step::Down),
        8 => any::<u8>().prop_map(Step::Again),
        1 => (0_u8..4, 0_u8..8, vec(any::<u8>(), 0..80)).prop_map(|(job, member, bytes)| Step::Raw { job, member, bytes }),
        8 => (0_u8..9).prop_map(Step::Wait),
        1 => (0_u8..4, 0_u8..3, any::<u8>()).prop_map(|(job, reason, member)| Step::Abort { job, reason, member }),
        1 => (0_u8..4).prop_map(Step::Suspend),
        1 => (0_u8..4).prop_map(Step::Reform),
        1 => (0_u8..4, any::<u8>()).prop_map(|(job, member)| Step::Exclude { job, member }),
        1 => (0_u8..4).prop_map(Step::Release),
        2 => (0_u8..4).prop_map(Step::Admit),
        1 => (0_u8..4).prop_map(Step::Restart),
    ]
}

/// The members' sets of a job: single workers, children with disjoint sets, or any sets that overlap as they come.
fn sets() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        3 => vec(Just(0), 1..5),
        1 => Just(vec![0b11, 0b100, 0b11_1000]),
        1 => Just(vec![0; 64]),
        4 => vec(1_u64..32, 1..6),
        1 => vec(any::<u64>(), 1..4),
    ]
}

/// One step of a leaf: as much from its parent as from its members, and nothing that ends the job.
pub fn leaf_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => contribution().prop_map(Step::Contribute),
        15 => down().prop_map(Step::Down),
        4 => any::<u8>().prop_map(Step::Again),
        5 => (0_u8..6).prop_map(Step::Wait),
    ]
}

/// One step of a job under a quorum: contributions that come one after the other, and time.
pub fn quorum_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => contribution().prop_map(Step::Contribute),
        4 => any::<u8>().prop_map(Step::Again),
        10 => (0_u8..6).prop_map(Step::Wait),
        1 => (0_u8..4, any::<u8>()).prop_map(|(job, member)| Step::Exclude { job, member }),
    ]
}

/// One step of a job with a store, which answers as it likes.
pub fn spill_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => contribution().prop_map(Step::Contribute),
        4 => any::<u8>().prop_map(Step::Again),
        8 => (0_u8..6).prop_map(Step::Wait),
        16 => (0_u8..6).prop_map(Step::Stored),
        16 => (0_u8..8).prop_map(Step::Recalled),
        1 => Just(Step::StoreLost(0)),
    ]
}

/// A quorum of a few, with a grace about as long as steps wait.
pub fn quorum() -> impl Strategy<Value = Kind> {
    (0_u8..4, 0_u8..12, 0_u8..4).prop_map(|(members, grace, generations)| Kind::Quorum {
        members,
        grace,
        generations,
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => Just(Kind::Root),
        2 => any::<u8>().prop_map(Kind::Leaf),
        2 => quorum(),
        2 => any::<u8>().prop_map(Kind::Spilling),
    ]
}

fn job() -> impl Strategy<Value = JobSetup> {
    let first_round = prop_oneof![Just(0), (0_u32..4).prop_map(|back| u32::MAX - back), any::<u32>()];
    let wide = prop_oneof![5 => Just(false), 1 => Just(true)];
    (sets(), wide, 0_u8..4, first_round, kind()).prop_map(|(sets, wide, window, first_round, kind)| {
        JobSetup {
            sets,
            wide,
            window,
            first_round,
            kind,
        }
    })
}

/// The jobs of a test.
pub fn setup() -> impl Strategy<Value = Setup> {
    (
        vec(job(), 1..4),
        any::<u16>(),
        prop_oneof![4 => Just(true), 1 => Just(false)],
    )
        .prop_map(|(jobs, epoch, roomy)| Setup { jobs, epoch, roomy })
}

//! Small operations of floats that go by predicted exponents (R-NUM-11): the bits are the model's, whatever happens.

mod common;

use std::cell::Cell;

use agg_model::harness::cluster::End;
use agg_model::harness::feed::{Feed, Guest, Lost, Meal};
use agg_model::harness::random::Random;
use agg_model::harness::{Cluster, Site, Tree, Values, Weather};
use common::operations::{Op, repeated, weather};
use proptest::collection::vec;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/predictions.txt";

/// How many operations of the runs of a test went by predictions that were right, and wrong.
#[derive(Default)]
struct Tally(Cell<[u64; 2]>);

impl Tally {
    fn add(&self, predicted: [u64; 2]) {
        let [right, wrong] = self.0.get();
        self.0.set([right + predicted[0], wrong + predicted[1]]);
    }

    fn assert_both(&self) {
        let [right, wrong] = self.0.get();
        println!("{right} predictions were right, {wrong} wrong");
        assert!(right > 100 && wrong > 100, "too few to tell");
    }
}

fn inputs(operations: &[Op], workers: usize, seed: u64) -> Vec<Vec<Values>> {
    let mut random = Random::new(seed ^ 1);
    let mut inputs = |op: &Op| (0..workers).map(|_| op.input(&mut random)).collect();
    operations.iter().map(&mut inputs).collect()
}

/// An aggregator that starts anew is refilled by resends and kept results, also in the middle of what was predicted.
#[test]
fn num_11_every_worker_has_the_bits_of_the_model() {
    let tally = Tally::default();
    let plan = (2_usize..6, 0_u32..5, repeated(80), weather(), any::<u64>());
    common::check(
        500,
        REGRESSIONS,
        plan,
        |(workers, window, operations, weather, seed)| {
            let mut cluster = Cluster::new(workers, 1 << window, 16, 0, weather, seed);
            cluster.run_all(inputs(&operations, workers, seed));
            cluster.check_sums();
            tally.add(cluster.workers[0].predicted());
        },
    );
    tally.assert_both();
}

/// Jobs that re-form as other trees, and lose a rank: those who go on predict alike.
#[test]
fn num_11_survivors_predict_alike() {
    let tally = Tally::default();
    let lost = Cell::new(0);
    let shape = (2_usize..7, 1_u32..4, 0_u32..4);
    let plan = (shape, repeated(80), weather(), 0_u64..60_000_000, any::<u64>());
    common::check(
        400,
        REGRESSIONS,
        plan,
        |((workers, levels, window), operations, weather, time, seed)| {
            let ranks: Vec<usize> = (0..workers).collect();
            let mut cluster = Cluster::at(Site {
                tree: Tree::random(&ranks, levels, &mut Random::new(seed ^ 7)),
                levels,
                window: 1 << window,
                lanes: 16,
                first_chunk: (1 << 32) * (1 << window) - 40,
                quorum: None,
                silent_restarts: false,
                weather,
                seed,
            });
            cluster.lose_at(time, seed as usize % workers);
            cluster.run_all(inputs(&operations, workers, seed));
            cluster.check_sums();
            lost.set(lost.get() + usize::from(cluster.ranks().len() < workers));
            tally.add(cluster.workers[cluster.ranks()[0]].predicted());
        },
    );
    tally.assert_both();
    assert!(lost.get() > 100, "only {} ranks were lost in time", lost.get());
}

/// As R-NUM-2 states it, with an exponent that is two more at most.
#[test]
fn num_11_sums_keep_the_bound() {
    let tally = Tally::default();
    let plan = (1_usize..20, repeated(80), any::<u64>());
    common::check(200, REGRESSIONS, plan, |(workers, operations, seed)| {
        let operations: Vec<_> = operations
            .into_iter()
            .filter(|op| matches!(op, Op::F32(..)))
            .collect();
        let inputs = inputs(&operations, workers, seed);
        let mut cluster = Cluster::new(workers, 8, 16, 0, Weather::FAIR, seed);
        cluster.run_all(inputs.clone());
        for (inputs, end) in inputs.iter().zip(cluster.ends(0)) {
            let End::Reduced(sums) = end else {
                panic!("{end:?}")
            };
            check_bound(inputs, &sums.floats().expect("floats"));
        }
        tally.add(cluster.workers[0].predicted());
    });
    tally.assert_both();
}

fn check_bound(inputs: &[Values], sums: &[f32]) {
    let floats: Vec<Vec<f32>> = inputs
        .iter()
        .map(|input| input.floats().expect("floats"))
        .collect();
    let agreed = Values::agreed(inputs, 16).expect("floats");
    let n = inputs.len();
    let headroom = n.next_power_of_two().trailing_zeros() as i32;
    for (at, got) in sums.iter().enumerate() {
        let exact: f64 = floats.iter().map(|values| f64::from(values[at])).sum();
        let unit = agreed[at / 16].map_or(0.0, |e| 2_f64.powi(i32::from(e) + 2 - 31 + headroom));
        let bound = n as f64 * unit + exact.abs() * 2_f64.powi(-24);
        let error = (f64::from(*got) - exact).abs();
        assert!(
            error <= bound,
            "element {at} of {n}: {got:e}, not {exact:e}: {error:e} > {bound:e}"
        );
    }
}

/// Anything at all is fed to a worker that calls the same small operations again and again, also at new places.
#[test]
fn num_11_a_worker_takes_what_was_predicted_rightly() {
    let meal = prop_oneof![
        12 => (any::<u8>(), -2_i8..3, prop::bool::weighted(0.1))
            .prop_map(|(pick, next, nonfinite)| Meal::Result { pick, next, nonfinite }),
        1 => any::<u8>().prop_map(Meal::Old),
        1 => any::<u8>().prop_map(Meal::Early),
        1 => (any::<u8>(), 0_u16..448).prop_map(|(pick, bit)| Meal::ResultWrong { pick, bit }),
        1 => (any::<u8>(), any::<u64>(), -1_i8..3).prop_map(|(pick, set, epoch)| Meal::Want { pick, set, epoch }),
        1 => (any::<u8>(), -1_i8..3).prop_map(|(pick, epoch)| Meal::WantKept { pick, epoch }),
        1 => any::<u8>().prop_map(Meal::Busy),
        1 => (0_u16..2000).prop_map(Meal::Wait),
        1 => (0_u8..4, 0_u8..2, 0_u8..4, prop::option::of((any::<bool>(), 0_u8..20))).prop_map(
            |(member, fewer, epoch, lost)| Meal::Rejoin {
                member,
                fewer,
                epoch,
                lost: lost.map(|(ahead, chunks)| Lost { ahead, chunks }),
            },
        ),
        // A sum of one or two blocks, or one with feedback; or the first again.
        8 => (prop::sample::select(vec![14_u16, 29]), prop::sample::select(vec![0_u8, 66, 66]))
            .prop_map(|(elements, kind)| Meal::Start { elements, kind }),
    ];
    let guest = (1_u8..5, 0_u8..4).prop_map(|(workers, window)| Guest {
        workers,
        window,
        first_round: 0,
        quorum: false,
    });
    let tally = Tally::default();
    common::check(
        2_000,
        REGRESSIONS,
        (guest, vec(meal, 1..300)),
        |(guest, meals)| {
            let mut feed = Feed::new(&guest);
            for meal in &meals {
                feed.eat(meal);
            }
            tally.add(feed.watch().predicted());
        },
    );
    tally.assert_both();
}

//! Operations and networks of tests with whole clusters.

use agg_model::ModelKind;
use agg_model::harness::random::Random;
use agg_model::harness::{Data, Values, Weather};
use agg_model::kind::ElementKind;
use proptest::collection::vec;
use proptest::prelude::*;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    I32(usize),
    /// Elements, and the powers of two that magnitudes lie between.
    F32(usize, i32, i32),
    /// So many zeros.
    Zeros(usize),
    /// As F32, with values that are not finite.
    NonFinite(usize),
    /// Another kind, by its number among all, of so many elements.
    Kind(usize, usize),
    Barrier,
}

impl Op {
    pub fn input(self, random: &mut Random) -> Values {
        match self {
            Self::I32(elements) => Values::i32(random.integers(elements)),
            Self::F32(elements, lowest, highest) => Values::f32(random.floats(elements, lowest, highest)),
            Self::Zeros(elements) => Values::f32(vec![0.0; elements]),
            Self::NonFinite(elements) => {
                let mut values = random.floats(elements, -10, 10);
                if random.permille(700) {
                    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][random.below(3) as usize];
                    values[random.below(elements as u64) as usize] = odd;
                }
                Values::f32(values)
            }
            Self::Kind(number, elements) => {
                let kinds = ModelKind::all();
                match kinds[number % kinds.len()] {
                    ModelKind::Barrier => Values::BARRIER,
                    kind @ ModelKind::Reduce {
                        element: ElementKind::I32,
                        ..
                    } => Values {
                        kind,
                        data: Data::I32(random.integers(elements)),
                    },
                    kind => {
                        let mut values = random.floats(elements, -20, 17);
                        if random.permille(200) {
                            values[random.below(elements as u64) as usize] = f32::NAN;
                        }
                        Values::floats_of(kind, values)
                    }
                }
            }
            Self::Barrier => Values::BARRIER,
        }
    }
}

pub fn op(most: usize) -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1..most).prop_map(Op::I32),
        4 => (1..most, -149_i32..127, 1_i32..60).prop_map(|(n, low, span)| Op::F32(n, low, (low + span).min(127))),
        1 => (1..most).prop_map(Op::NonFinite),
        4 => (any::<usize>(), 1..most).prop_map(|(number, n)| Op::Kind(number, n)),
        1 => Just(Op::Barrier),
    ]
}

/// Operations of few kinds and sizes again and again, whose magnitudes change little from one to the next: exponents can be
/// predicted, rightly and wrongly (R-NUM-11).
pub fn repeated(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let step = (0_usize..2, 0_u8..20, prop_oneof![8 => -1_i32..2, 1 => -6_i32..7]);
    let sizes = (1..most, 1..most, -100_i32..100);
    (sizes, vec(step, 2..20)).prop_map(|((one, other, mut power), steps)| {
        let op = |(size, what, change)| {
            let elements = [one, other][size];
            power += change;
            match what {
                0 => Op::I32(elements),
                1 => Op::Zeros(elements),
                2 => Op::NonFinite(elements),
                3..6 => Op::Kind(usize::from(what), elements),
                _ => Op::F32(elements, power - 8, power),
            }
        };
        steps.into_iter().map(op).collect()
    })
}

pub fn weather() -> impl Strategy<Value = Weather> {
    let jitter = prop_oneof![Just(1), Just(300_000_u64), Just(3_000_000)];
    let chances = (0_u64..250, 0_u64..250, 0_u64..150, jitter);
    let restarts = (1_u64..80_000_000, 0_u64..60, 0_u32..4);
    (chances, restarts).prop_map(
        |((loss, duplicate, damage, jitter), (straggle, restart, restarts))| Weather {
            loss,
            duplicate,
            damage,
            jitter,
            straggle,
            restart,
            restarts,
        },
    )
}

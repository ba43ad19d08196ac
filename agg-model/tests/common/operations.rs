//! Operations and networks of tests with whole clusters.

use agg_model::harness::random::Random;
use agg_model::harness::{Values, Weather};
use proptest::prelude::*;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    I32(usize),
    /// Elements, and the powers of two that magnitudes lie between.
    F32(usize, i32, i32),
    /// As F32, with values that are not finite.
    NonFinite(usize),
    Barrier,
}

impl Op {
    pub fn input(self, random: &mut Random) -> Values {
        match self {
            Self::I32(elements) => Values::I32(random.integers(elements)),
            Self::F32(elements, lowest, highest) => Values::F32(random.floats(elements, lowest, highest)),
            Self::NonFinite(elements) => {
                let mut values = random.floats(elements, -10, 10);
                if random.permille(700) {
                    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][random.below(3) as usize];
                    values[random.below(elements as u64) as usize] = odd;
                }
                Values::F32(values)
            }
            Self::Barrier => Values::Barrier,
        }
    }
}

pub fn op(most: usize) -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1..most).prop_map(Op::I32),
        4 => (1..most, -149_i32..127, 1_i32..60).prop_map(|(n, low, span)| Op::F32(n, low, (low + span).min(127))),
        1 => (1..most).prop_map(Op::NonFinite),
        1 => Just(Op::Barrier),
    ]
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

//! The configurations that are explored, for the tests and the table in `docs/verification.md`.

use agg_core::OpKind;

use crate::scenario::{Scenario, Trouble};
use crate::values::Step;

const BARRIER: Step = Step {
    kind: OpKind::Barrier,
    blocks: 1,
};

/// Two members share a slot for three rounds: the smallest in which a generation is recycled.
pub fn one_slot() -> Scenario {
    Scenario::new("2 workers, W=1, 3 rounds", 2, 1, vec![Step::i32(3)])
}

/// Two members, two slots, three rounds.
pub fn two_slots() -> Scenario {
    Scenario::new("2 workers, W=2, 3 rounds", 2, 2, vec![Step::i32(6)])
}

/// Three members share a slot.
pub fn three_workers() -> Scenario {
    Scenario::new("3 workers, W=1, 3 rounds", 3, 1, vec![Step::i32(3)])
}

/// Three members, two slots, two rounds.
pub fn three_workers_two_slots() -> Scenario {
    Scenario::new("3 workers, W=2, 2 rounds", 3, 2, vec![Step::i32(4)])
}

/// Floats, whose header-only chunks agree on exponents, then integers over the same slots.
pub fn floats_then_integers() -> Scenario {
    Scenario::new(
        "2 workers, W=2, f32 (3) then i32 (2)",
        2,
        2,
        vec![Step::f32(3), Step::i32(2)],
    )
}

/// Floats with fewer chunks than slots, a barrier, floats again: the exponents of another operation are at hand.
pub fn short_floats() -> Scenario {
    let script = vec![Step::f32(1), BARRIER, Step::f32(2)];
    Scenario::new("2 workers, W=2, f32 (1), barrier, f32 (2)", 2, 2, script)
}

/// Operations of one chunk each: a worker is between operations after each result.
pub fn many_operations() -> Scenario {
    Scenario::new(
        "2 workers, W=1, 4 operations of 1 chunk",
        2,
        1,
        vec![Step::i32(1); 3].into_iter().chain([BARRIER]).collect(),
    )
}

/// The numbers of rounds wrap around.
pub fn wrap_around() -> Scenario {
    let first_chunk = (u64::from(u32::MAX) - 1) * 2;
    Scenario {
        first_chunk,
        ..Scenario::new("2 workers, W=2, 3 rounds, wrapping", 2, 2, vec![Step::i32(6)])
    }
}

/// The ranks disagree on the second operation.
pub fn disagreement() -> Scenario {
    let disagrees = Some(vec![Step::i32(1), Step::i32(3)]);
    Scenario {
        disagrees,
        ..Scenario::new(
            "3 workers, W=1, the last disagrees",
            3,
            1,
            vec![Step::i32(1), Step::f32(2)],
        )
    }
}

/// Hosts take any number of packets before they send.
pub fn batched() -> Scenario {
    Scenario::new("2 workers, W=1, 2 rounds, batched", 2, 1, vec![Step::i32(2)]).batched()
}

/// The same with two slots and an operation that follows.
pub fn batched_slots() -> Scenario {
    Scenario::new(
        "2 workers, W=2, i32 (2) then i32 (1), batched",
        2,
        2,
        vec![Step::i32(2), Step::i32(1)],
    )
    .batched()
}

/// Members' addresses send back whatever they get.
pub fn reflected() -> Scenario {
    Scenario {
        reflects: true,
        ..Scenario::new("2 workers, W=1, 2 rounds, reflected", 2, 1, vec![Step::i32(2)])
    }
}

/// The same with trouble, which its name tells.
pub fn troubled(scenario: Scenario, trouble: Trouble) -> Scenario {
    let suffix = match trouble {
        Trouble::None => "",
        Trouble::Restart => ", restart",
        Trouble::FailOver => ", fail-over",
    };
    Scenario {
        name: scenario.name + suffix,
        ..scenario
    }
    .with(trouble)
}

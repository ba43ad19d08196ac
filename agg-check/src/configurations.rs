//! The configurations that are explored, for the tests and the table in `docs/verification.md`.

use agg_core::OpKind;

use crate::scenario::{Scenario, Trouble};
use crate::topology::Topology;
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

/// Floats of one block again and again. With two workers the exponents are 7, 11, 11, 10: the second operation goes by a wrong
/// prediction, the third by none, the fourth by a right one.
pub fn repeated_floats() -> Scenario {
    repeated_floats_of(2)
}

/// Floats of two blocks, predicted wrongly, over two slots.
pub fn mispredicted_floats() -> Scenario {
    Scenario::new("2 workers, W=2, f32 (2) twice", 2, 2, vec![Step::f32(2); 2])
}

/// Floats of two blocks, predicted rightly, then integers: results that were held back are those of earlier rounds then.
pub fn predicted_floats() -> Scenario {
    let script = vec![BARRIER, Step::f32(2), Step::f32(2), Step::i32(2)];
    Scenario::new("2 workers, W=2, barrier, f32 (2) twice, i32 (2)", 2, 2, script)
}

/// The same with other workers: exponents of three are 13, 17, 17, 16.
pub fn repeated_floats_of(members: usize) -> Scenario {
    let name = format!("{members} workers, W=1, f32 (1) 4 times");
    Scenario::new(&name, members, 1, vec![Step::f32(1); 4])
}

/// The same over two levels.
pub fn repeated_floats_over_leaves() -> Scenario {
    let script = repeated_floats().script;
    Scenario::new("1 + 1 workers at leaves, W=1, f32 (1) 4 times", 2, 1, script)
        .over(Topology::tree(&[], &[&[0], &[1]]))
}

/// Floats of more blocks than slots, so that no exponent is predicted, twice: the second operation's go ahead.
pub fn announced_floats() -> Scenario {
    Scenario::new(
        "2 workers, W=1, f32 (2) announced, twice",
        2,
        1,
        vec![Step::f32(2); 2],
    )
    .announcing()
}

/// The same with two slots.
pub fn announced_floats_two_slots() -> Scenario {
    let script = vec![Step::f32(3), Step::f32(3)];
    Scenario::new("2 workers, W=2, f32 (3) announced, twice", 2, 2, script).announcing()
}

/// An integer, floats that go ahead, and an integer: what is announced can end with a worker before it is called.
pub fn announced_after_integer(members: usize) -> Scenario {
    let script = vec![Step::i32(1), Step::f32(2), Step::i32(1)];
    let name = format!("{members} workers, W=1, i32 (1), f32 (2) announced, i32 (1)");
    Scenario::new(&name, members, 1, script).announcing()
}

/// Integers while exponents are agreed on, and floats of other sizes.
pub fn announced_after_integers() -> Scenario {
    let script = vec![Step::i32(2), Step::f32(3), Step::i32(1)];
    Scenario::new(
        "2 workers, W=2, i32 (2), f32 (3) announced, i32 (1)",
        2,
        2,
        script,
    )
    .announcing()
}

/// The last rank disagrees on an operation that others may have announced.
pub fn announced_disagreement() -> Scenario {
    Scenario {
        disagrees: Some(vec![Step::i32(1), Step::f32(3)]),
        ..Scenario::new(
            "3 workers, W=1, the last disagrees on what is announced",
            3,
            1,
            vec![Step::i32(1), Step::f32(2)],
        )
        .announcing()
    }
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

/// Each block's smallest is another worker's.
pub fn smallest() -> Scenario {
    Scenario::new("3 workers, W=1, min (3)", 3, 1, vec![Step::min(3)])
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

/// Two workers at one leaf, one at the other.
pub fn two_leaves() -> Scenario {
    Scenario::new("2 + 1 workers at leaves, W=1, 3 rounds", 3, 1, vec![Step::i32(3)])
        .over(Topology::tree(&[], &[&[0, 1], &[2]]))
}

/// A worker at each of two leaves, two slots and so many chunks.
pub fn two_small_leaves(chunks: usize) -> Scenario {
    let name = format!("1 + 1 workers at leaves, W=2, {chunks} chunks");
    Scenario::new(&name, 2, 2, vec![Step::i32(chunks)]).over(Topology::tree(&[], &[&[0], &[1]]))
}

/// Floats over two levels: exponents come from other leaves.
pub fn floats_over_leaves() -> Scenario {
    Scenario::new(
        "1 + 1 workers at leaves, W=1, f32 (2), barrier",
        2,
        1,
        vec![Step::f32(2), BARRIER],
    )
    .over(Topology::tree(&[], &[&[0], &[1]]))
}

/// A worker beside a leaf.
pub fn beside_a_leaf() -> Scenario {
    Scenario::new(
        "2 workers at a leaf, 1 beside it, W=1, 3 rounds",
        3,
        1,
        vec![Step::i32(3)],
    )
    .over(Topology::tree(&[2], &[&[0, 1]]))
}

/// A worker beside a leaf with one, two slots.
pub fn beside_a_small_leaf() -> Scenario {
    Scenario::new(
        "1 worker at a leaf, 1 beside it, W=2, 2 rounds",
        2,
        2,
        vec![Step::i32(4)],
    )
    .over(Topology::tree(&[1], &[&[0]]))
}

/// Ranks of different leaves disagree.
pub fn disagreement_over_leaves() -> Scenario {
    Scenario {
        disagrees: Some(vec![Step::i32(1), Step::i32(3)]),
        ..Scenario::new(
            "2 + 1 workers at leaves, W=1, the last disagrees",
            3,
            1,
            vec![Step::i32(1), Step::f32(2)],
        )
        .over(Topology::tree(&[], &[&[0, 1], &[2]]))
    }
}

/// A job of one aggregator whose workers get each other's numbers.
pub fn renumbered(scenario: Scenario) -> Scenario {
    let order: Vec<_> = (0..scenario.members).rev().collect();
    named(scenario, ", re-formed in reverse").reforming(Topology::flat(&order))
}

/// A leaf is lost; its workers go to the root.
pub fn to_the_root(scenario: Scenario) -> Scenario {
    named(scenario, ", a leaf lost, its worker to the root").reforming(Topology::tree(&[2], &[&[0, 1], &[]]))
}

/// A leaf is lost; its workers go to the other leaf.
pub fn to_the_other_leaf(scenario: Scenario) -> Scenario {
    named(scenario, ", a leaf lost, its worker to the other")
        .reforming(Topology::tree(&[], &[&[2, 0, 1], &[]]))
}

fn named(scenario: Scenario, suffix: &str) -> Scenario {
    Scenario {
        name: scenario.name + suffix,
        ..scenario
    }
}

/// Operations of one or two chunks, so that survivors of a death are in different ones.
pub fn short_operations(members: usize) -> Scenario {
    let script = vec![Step::i32(1), Step::i32(2), Step::i32(1)];
    let name = format!("{members} workers, W=1, operations of 1, 2, 1 chunks");
    Scenario::new(&name, members, 1, script)
}

/// The same with two slots.
pub fn short_operations_two_slots(members: usize) -> Scenario {
    let script = vec![Step::i32(2), Step::i32(3), Step::i32(1)];
    let name = format!("{members} workers, W=2, operations of 2, 3, 1 chunks");
    Scenario::new(&name, members, 2, script)
}

/// Short operations over two leaves, one of which loses a worker.
pub fn death_at_a_leaf() -> Scenario {
    let script = short_operations(3).script;
    Scenario::new(
        "2 + 1 workers at leaves, W=1, short operations, worker 0 dies",
        3,
        1,
        script,
    )
    .over(Topology::tree(&[], &[&[0, 1], &[2]]))
    .shrinking(0, Topology::tree(&[], &[&[1], &[2]]))
}

/// Two of three let a slot go, but not that of the barrier between two sums.
pub fn quorum_and_barrier(generations: u16) -> Scenario {
    let script = vec![Step::f32(1), BARRIER, Step::f32(1)];
    let name = format!("2 of 3 workers, W=1, f32 (1), barrier, f32 (1), G={generations}");
    Scenario::new(&name, 3, 1, script).quorum(2, 0, generations)
}

/// Two of three let a slot go; two slots.
pub fn quorum_two_slots(blocks: usize) -> Scenario {
    let name = format!("2 of 3 workers, W=2, f32 ({blocks}), G=2");
    Scenario::new(&name, 3, 2, vec![Step::f32(blocks)]).quorum(2, 0, 2)
}

/// Results come before hosts have sent.
pub fn quorum_batched() -> Scenario {
    named(quorum(1, 0, 2), ", batched").batched()
}

/// Two of three let a slot go.
pub fn quorum(blocks: usize, grace: u64, generations: u16) -> Scenario {
    let grace_name = if grace > 0 { ", grace" } else { "" };
    let name = format!("2 of 3 workers, W=1, f32 ({blocks}), G={generations}{grace_name}");
    Scenario::new(&name, 3, 1, vec![Step::f32(blocks)]).quorum(2, grace, generations)
}

/// Less near memory than chunks in flight, and a store.
pub fn spilling(scenario: Scenario, frames: u32) -> Scenario {
    named(scenario, &format!(", {frames} frames")).spilling(frames)
}

/// One frame, besides that through which results pass, and a store: three rounds of a slot; two slots; sums of two in the
/// store while the third is late; exponents; ranks that disagree.
pub fn stores() -> Vec<Scenario> {
    let disagreement = Scenario {
        disagrees: Some(vec![Step::i32(1), Step::i32(2)]),
        ..Scenario::new(
            "2 workers, W=1, the last disagrees",
            2,
            1,
            vec![Step::i32(1), Step::f32(1)],
        )
    };
    let scenarios = [
        one_slot(),
        Scenario::new("2 workers, W=2, 1 round", 2, 2, vec![Step::i32(2)]),
        Scenario::new("3 workers, W=1, 1 round", 3, 1, vec![Step::i32(1)]),
        Scenario::new("2 workers, W=1, f32 (2)", 2, 1, vec![Step::f32(2)]),
        Scenario::new("2 workers, W=1, min (2)", 2, 1, vec![Step::min(2)]),
        disagreement,
    ];
    scenarios.map(|scenario| spilling(scenario, 2)).into()
}

/// The same with trouble, which its name tells.
pub fn troubled(scenario: Scenario, trouble: Trouble) -> Scenario {
    let suffix = match trouble {
        Trouble::None => String::new(),
        Trouble::Restart => ", restart".into(),
        Trouble::FailOver => ", fail-over".into(),
        Trouble::Reform => ", re-formed".into(),
        Trouble::Shrink(worker) => format!(", worker {worker} dies"),
        Trouble::Exclude(worker) => format!(", worker {worker} is removed"),
    };
    named(scenario, &suffix).with(trouble)
}

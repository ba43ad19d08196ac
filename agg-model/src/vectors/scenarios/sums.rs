//! Sums without any loss.

use super::{BARRIER, EPOCH, SUM_F32, SUM_I32, contribution, resent, workers};
use crate::harness::random::Random;
use crate::packet::to_bytes;
use crate::vectors::{Player, Trace};
use crate::{ModelPacket, ModelScale, ModelSum};

/// Three chunks in a window of two; the last is not full.
pub fn integers() -> Trace {
    let job = workers(3);
    let about = "three workers sum 40 integers, in three chunks of 16 lanes, the last padded with zeros";
    let mut player = Player::new("sum-i32", about, EPOCH, std::slice::from_ref(&job));
    let part = |member: u8, chunk: u64| {
        let mut values = Random::new(u64::from(member) + 10 * chunk).integers(16);
        // Sums that wrap, both ways (R-NUM-1).
        (values[0], values[1]) = (i32::MAX - i32::from(member), i32::MIN);
        if chunk == 2 {
            values[8..].fill(0);
        }
        let rest = to_bytes(&values);
        ModelPacket {
            op: SUM_I32 | 40,
            op_seq: 0,
            rest,
            ..contribution(&job, member, chunk)
        }
    };
    let merged = "contributions_merged";
    player.send(&part(0, 0), "R-SLOT-0", merged, "member 0 opens slot 0");
    player.send(
        &part(2, 0),
        "R-SLOT-3",
        merged,
        "member 2 is disjoint: values add",
    );
    player.send(&part(2, 1), "R-SLOT-0", merged, "member 2 opens slot 1");
    player.send(
        &part(1, 0),
        "R-SLOT-7",
        "slots_completed",
        "member 1 is the last of slot 0: its result goes to all",
    );
    player.send(
        &part(1, 2),
        "R-CHUNK-2",
        merged,
        "member 1 opens round 1 of slot 0, in its other generation",
    );
    player.send(&part(1, 1), "R-SLOT-3", merged, "member 1, slot 1");
    player.send(
        &part(0, 1),
        "R-NUM-1",
        "slots_completed",
        "member 0 completes slot 1: sums wrap",
    );
    player.send(
        &part(0, 2),
        "R-CHUNK-3",
        merged,
        "member 0 goes on with what comes after slot 0's result",
    );
    player.send(
        &part(2, 2),
        "R-CHUNK-5",
        "slots_completed",
        "member 2 completes the last chunk: the padding adds up to zeros",
    );
    player.finish()
}

/// Exponents go one window ahead of the values (R-NUM-3).
pub fn floats() -> Trace {
    let job = workers(2);
    let about =
        "two workers sum 40 floats: two header-only chunks with exponents, then three chunks of values";
    let mut player = Player::new("sum-f32", about, EPOCH, std::slice::from_ref(&job));
    // The second block is all zeros: it has no exponent. The third is not full.
    let tensors = [1, 2].map(|seed| {
        let mut tensor = Random::new(seed).floats(40, -20, 10 * seed as i32);
        tensor[16..32].fill(0.0);
        tensor
    });
    let block = |member: usize, index: usize| tensors[member].chunks(16).nth(index);
    let exponent = |member, index| block(member, index).and_then(ModelSum::exponent);
    let part = |member: u8, chunk: usize| {
        let plain = contribution(&job, member, chunk as u64);
        let next = exponent(usize::from(member), chunk);
        let head = ModelPacket {
            op: SUM_F32 | 40,
            op_seq: 1,
            next,
            ..plain
        };
        let Some(index) = chunk.checked_sub(2) else {
            return ModelPacket {
                header_only: true,
                rest: Vec::new(),
                ..head
            };
        };
        let scale = (0..2).filter_map(|member| exponent(member, index)).max();
        let values = block(usize::from(member), index).unwrap_or_default();
        let how = ModelScale {
            exponent: scale,
            workers: 2,
            bits: 32,
        };
        let mut values: Vec<i32> = values.iter().map(|x| how.quantize(*x)).collect();
        values.resize(16, 0);
        ModelPacket {
            scale,
            rest: to_bytes(&values),
            ..head
        }
    };
    let merged = "contributions_merged";
    let done = "slots_completed";
    player.send(
        &part(0, 0),
        "R-OP-2",
        merged,
        "member 0 announces the exponent of block 0, without values",
    );
    player.send(
        &part(1, 0),
        "R-NUM-3",
        done,
        "member 1 does too: the result has the larger exponent and no values",
    );
    player.send(
        &part(1, 1),
        "R-NUM-3",
        merged,
        "member 1 has no exponent for block 1, which is all zeros",
    );
    player.send(
        &part(1, 2),
        "R-OP-3",
        merged,
        "member 1 sends block 0 with the agreed scale, and the exponent of block 2",
    );
    player.send(
        &part(0, 1),
        "R-NUM-3",
        done,
        "nobody has an exponent for block 1: the result says none",
    );
    player.send(&part(0, 2), "R-NUM-2", done, "member 0 completes block 0");
    player.send(
        &part(0, 3),
        "R-NUM-3",
        merged,
        "block 1 goes without a scale, as zeros; past the end there is no next exponent",
    );
    player.send(&part(1, 3), "R-NUM-3", done, "block 1 is complete");
    player.send(&part(0, 4), "R-NUM-3", merged, "member 0, block 2");
    player.send(&part(1, 4), "R-NUM-2", done, "block 2 is complete");
    player.finish()
}

/// Chunks of the sizes that programmable devices can sum.
pub fn wide(name: &str, lanes: u16) -> Trace {
    let mut job = workers(2);
    job.lanes = lanes;
    let about =
        format!("two workers sum chunks of {lanes} lanes; the packet of a chunk is lost and a result too");
    let mut player = Player::new(name, &about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk| contribution(&job, member, chunk);
    let merged = "contributions_merged";
    player.send(&part(0, 0), "R-SLOT-0", merged, "member 0 opens slot 0");
    player.send(&part(0, 1), "R-SLOT-0", merged, "member 0 opens slot 1");
    player.send(
        &part(1, 1),
        "R-SLOT-7",
        "slots_completed",
        "member 1 completes slot 1; its packet for slot 0 was lost",
    );
    player.send(
        &resent(part(0, 0)),
        "R-SLOT-4",
        "wants_sent",
        "member 0 sends again: a Want says who is in",
    );
    player.send(
        &resent(part(1, 0)),
        "R-SLOT-7",
        "slots_completed",
        "member 1 answers: slot 0 is complete",
    );
    player.send(
        &resent(part(1, 0)),
        "R-SLOT-1",
        "results_replayed",
        "the result did not reach member 1: it gets it once more",
    );
    let mut short = part(0, 2);
    short.rest.truncate(64);
    player.send(
        &short,
        "R-VALID-9",
        "dropped_bad_length",
        "a chunk of 16 lanes is none of this job",
    );
    player.send(
        &part(1, 2),
        "R-SLOT-0",
        merged,
        "member 1 opens round 1 of slot 0",
    );
    player.send(
        &part(0, 2),
        "R-SLOT-7",
        "slots_completed",
        "member 0 completes it",
    );
    player.send(
        &part(0, 4),
        "R-SLOT-0",
        merged,
        "member 0 recycles the generation of round 0: nothing of its values stays",
    );
    player.send(
        &part(1, 4),
        "R-SLOT-7",
        "slots_completed",
        "member 1 completes round 2",
    );
    player.finish()
}

/// A NaN anywhere is a NaN in the result (R-NUM-6).
pub fn not_finite() -> Trace {
    let job = workers(3);
    let about = "a worker's chunk has a NaN: its flag is in the result";
    let mut player = Player::new("nonfinite", about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk| ModelPacket {
        op: SUM_F32 | 1000,
        scale: Some(-3),
        next: Some(i16::from(member)),
        ..contribution(&job, member, chunk)
    };
    let nan = |packet| ModelPacket {
        nonfinite: true,
        ..packet
    };
    let merged = "contributions_merged";
    player.send(&part(0, 0), "R-SLOT-0", merged, "member 0's values are finite");
    player.send(&nan(part(1, 0)), "R-NUM-6", merged, "member 1 had a NaN");
    player.send(
        &part(2, 0),
        "R-NUM-6",
        "slots_completed",
        "member 2's are finite: the flag stays",
    );
    player.send(
        &resent(part(2, 0)),
        "R-SLOT-1",
        "results_replayed",
        "the flag is in a replay too",
    );
    player.send(
        &nan(part(0, 1)),
        "R-NUM-6",
        merged,
        "a flag that is there from the start",
    );
    player.send(
        &resent(part(0, 1)),
        "R-SLOT-4",
        "wants_sent",
        "a Want has no flag",
    );
    player.send(&part(1, 1), "R-SLOT-3", merged, "member 1");
    player.send(
        &part(2, 1),
        "R-SLOT-7",
        "slots_completed",
        "member 2 completes: the flag is in the result",
    );
    player.send(
        &part(0, 4),
        "R-SLOT-0",
        merged,
        "round 2 recycles round 0: the flag does not stay",
    );
    player.send(&part(1, 4), "R-SLOT-3", merged, "member 1");
    player.send(
        &part(2, 4),
        "R-SLOT-7",
        "slots_completed",
        "no flag in this result",
    );
    player.finish()
}

/// One header-only chunk (R-OP-2).
pub fn barrier() -> Trace {
    let job = workers(3);
    let about = "a barrier of three workers is one chunk without values; then an operation with values in the same slot";
    let mut player = Player::new("barrier", about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk| ModelPacket {
        op: BARRIER | 1,
        header_only: true,
        rest: Vec::new(),
        ..contribution(&job, member, chunk)
    };
    let merged = "contributions_merged";
    player.send(&part(1, 0), "R-OP-2", merged, "member 1 comes first");
    player.send(&part(2, 0), "R-SLOT-3", merged, "member 2");
    player.send(
        &resent(part(1, 0)),
        "R-SLOT-4",
        "wants_sent",
        "member 1 waits long and asks",
    );
    player.send(
        &part(0, 0),
        "R-SLOT-7",
        "slots_completed",
        "member 0: all are there",
    );
    player.send(
        &resent(part(1, 0)),
        "R-SLOT-1",
        "results_replayed",
        "the result without values once more",
    );
    for member in 0..3 {
        let counter = if member < 2 { merged } else { "slots_completed" };
        let sum = ModelPacket {
            op_seq: 4,
            ..contribution(&job, member, 4)
        };
        player.send(
            &sum,
            "R-SLOT-0",
            counter,
            "round 2 of the slot has values; round 0 had none",
        );
    }
    player.finish()
}

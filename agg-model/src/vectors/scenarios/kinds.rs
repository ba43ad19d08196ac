//! Kinds of operations beside sums in 32 bits (R-OP-6).

use super::{EPOCH, contribution, resent, result, workers};
use crate::harness::random::Random;
use crate::kind::{ElementKind, Op};
use crate::packet::to_bytes;
use crate::vectors::{JobLine, Player, QuorumLine, Trace};
use crate::{ModelKind, ModelPacket, ModelScale, ModelSum};

const MERGED: &str = "contributions_merged";
const DONE: &str = "slots_completed";

const fn kind(op: Op, element: ElementKind, bits: u32) -> ModelKind {
    ModelKind::Reduce { op, element, bits }
}

const MIN_I32: ModelKind = kind(Op::Min, ElementKind::I32, 32);
const MAX_F32: ModelKind = kind(Op::Max, ElementKind::F32, 32);

/// What a member sends for a chunk of another kind; the values are the same.
fn of_kind(kind: ModelKind, packet: ModelPacket) -> ModelPacket {
    ModelPacket {
        op: kind.tag(1000),
        ..packet
    }
}

/// The smallest and the largest; the slot's own values of an earlier round do not count.
pub fn min_and_max() -> Trace {
    let job = workers(3);
    let about = "the smallest of integers, then the largest of floats, with NaN, infinities and both zeros";
    let mut player = Player::new("min-max", about, EPOCH, std::slice::from_ref(&job));
    let smallest = |member, chunk| of_kind(MIN_I32, contribution(&job, member, chunk));
    player.send(&smallest(1, 0), "R-OP-6", MERGED, "member 1 opens slot 0");
    player.send(&smallest(0, 0), "R-SLOT-3", MERGED, "member 0: the smaller stay");
    player.send(
        &resent(smallest(0, 0)),
        "R-SLOT-4",
        "wants_sent",
        "once more: nothing changes but that it is asked",
    );
    player.send(&smallest(2, 0), "R-SLOT-7", DONE, "member 2: complete");
    player.send(
        &resent(smallest(1, 0)),
        "R-SLOT-1",
        "results_replayed",
        "the result once more",
    );
    let largest = |member: u8, chunk| {
        let mut floats = Random::new(u64::from(member)).floats(16, -3, 3);
        floats[0] = [1.0, f32::NAN, f32::NEG_INFINITY][usize::from(member)];
        floats[1] = [-0.0, 0.0, -1.0][usize::from(member)];
        floats[2] = [f32::MAX, f32::INFINITY, f32::NAN][usize::from(member)];
        floats[3] = [-0.0, -f32::MIN_POSITIVE, f32::from_bits(1 << 31 | 1)][usize::from(member)];
        let none = ModelScale {
            exponent: None,
            workers: 3,
            bits: 32,
        };
        let numbers = floats.iter().map(|x| ModelSum::number(MAX_F32, *x, none));
        ModelPacket {
            rest: to_bytes(&numbers.collect::<Vec<_>>()),
            op_seq: 4,
            ..of_kind(MAX_F32, contribution(&job, member, chunk))
        }
    };
    player.send(
        &largest(2, 4),
        "R-NUM-8",
        MERGED,
        "member 2 opens round 2 of slot 0: what was there is gone",
    );
    player.send(&largest(1, 4), "R-NUM-8", MERGED, "member 1: the larger stay");
    player.send(&largest(0, 4), "R-SLOT-7", DONE, "member 0: complete");
    player.send(
        &of_kind(MIN_I32, contribution(&job, 0, 1)),
        "R-SLOT-0",
        MERGED,
        "member 0 opens slot 1",
    );
    player.send(
        &contribution(&job, 1, 1),
        "R-OP-4",
        "refused_operation_differs",
        "member 1 has a sum of as many: another operation",
    );
    player.finish()
}

/// Lanes that hold several elements add as any.
pub fn narrow() -> Trace {
    let job = workers(3);
    let about = "sums in 16 bits and averages in 8: the elements of a lane add, each by itself";
    let mut player = Player::new("narrow", about, EPOCH, std::slice::from_ref(&job));
    let part = |kind: ModelKind, member: u8, chunk| {
        let scale = ModelScale {
            exponent: Some(3),
            workers: 3,
            bits: kind.bits(),
        };
        let floats = Random::new(u64::from(member) + 7).floats(kind.elements_of(16), -4, 3);
        let numbers: Vec<_> = floats.iter().map(|x| scale.quantize(*x)).collect();
        ModelPacket {
            scale: scale.exponent,
            next: Some(3),
            rest: to_bytes(&ModelSum::pack(&numbers, 16, kind.bits())),
            ..of_kind(kind, contribution(&job, member, chunk))
        }
    };
    let half = kind(Op::Sum, ElementKind::F32, 16);
    player.send(
        &part(half, 0, 0),
        "R-NUM-7",
        MERGED,
        "member 0, two elements a lane",
    );
    player.send(&part(half, 1, 0), "R-NUM-7", MERGED, "member 1: lanes add");
    player.send(&part(half, 2, 0), "R-SLOT-7", DONE, "member 2: complete");
    let quarter = kind(Op::Avg, ElementKind::Bf16, 8);
    player.send(
        &part(quarter, 1, 1),
        "R-NUM-9",
        MERGED,
        "member 1, four elements a lane, of an average: a sum on its way",
    );
    player.send(&part(quarter, 2, 1), "R-NUM-7", MERGED, "member 2");
    player.send(&part(quarter, 0, 1), "R-SLOT-7", DONE, "member 0: complete");
    player.finish()
}

/// What waits in the store is combined as what is here.
pub fn spilled() -> Trace {
    let about = "the smallest so far is put into the store and comes back: no zeros stand for what is there";
    let job = JobLine {
        frames: Some(2),
        ..workers(3)
    };
    let mut player = Player::new("spill-min", about, EPOCH, std::slice::from_ref(&job));
    let part = |member: u8, chunk| {
        let values: Vec<i32> = (0..16).map(|lane| 100 + 10 * i32::from(member) + lane).collect();
        ModelPacket {
            rest: to_bytes(&values),
            ..of_kind(MIN_I32, contribution(&job, member, chunk))
        }
    };
    player.send(&part(0, 0), "R-SPILL-2", MERGED, "member 0; it is put");
    player.stored(&job, (0, 0), 0b001);
    player.send(&part(1, 0), "R-SPILL-3", MERGED, "merged apart from that");
    player.send(
        &part(2, 0),
        "R-SPILL-3",
        MERGED,
        "full: the store's part is asked for",
    );
    player.recalled(
        &job,
        (0, 0),
        0b001,
        "R-SPILL-3",
        DONE,
        "the smaller of both parts stay",
    );
    player.send(
        &resent(part(2, 0)),
        "R-SLOT-1",
        "results_replayed",
        "as of any slot",
    );
    player.finish()
}

/// Which kinds a quorum lets go.
pub fn quorum() -> Trace {
    let job = JobLine {
        quorum: Some(QuorumLine { members: 2, grace: 0 }),
        ..workers(3)
    };
    let about = "a quorum of two of three: an average of bf16 in 8 bits is let go, the largest waits for all";
    let mut player = Player::new("quorum-kinds", about, EPOCH, std::slice::from_ref(&job));
    let average = kind(Op::Avg, ElementKind::Bf16, 8);
    let part = |kind, member, chunk| of_kind(kind, contribution(&job, member, chunk));
    player.send(&part(average, 0, 0), "R-QUORUM-1", MERGED, "member 0");
    player.send(
        &part(average, 2, 0),
        "R-QUORUM-1",
        DONE,
        "member 2: these two are enough",
    );
    player.send(
        &part(MAX_F32, 0, 1),
        "R-QUORUM-1",
        MERGED,
        "member 0, the largest",
    );
    player.send(
        &part(MAX_F32, 2, 1),
        "R-QUORUM-1",
        MERGED,
        "member 2: it waits for the third",
    );
    player.send(&part(MAX_F32, 1, 1), "R-SLOT-7", DONE, "member 1: complete");
    player.finish()
}

/// Every number that is no kind, and the last of the checks before it.
pub fn unknown() -> Trace {
    let job = workers(2);
    let about = "kinds of operations that do not exist reach no slot; those that do, do";
    let mut player = Player::new("unknown-kinds", about, EPOCH, std::slice::from_ref(&job));
    let part = |number: u8| ModelPacket {
        op: u64::from(number) << 56 | 1000,
        ..contribution(&job, 1, 0)
    };
    let dropped = "dropped_unknown_operation";
    for (number, about) in [
        (0, "0"),
        (4, "4"),
        (0x7f, "127"),
        (0xff, "all bits"),
        (0x80, "the sum of i32 has another number"),
        (0x84, "so has that of f32"),
        (0x90, "no average of i32"),
        (0x81, "no narrow integers"),
        (0xa5, "no narrow minimum"),
        (0xb6, "nor maximum"),
        (0x87, "no width of this number"),
        (0xc5, "bit 6"),
    ] {
        player.send(&part(number), "R-VALID-8", dropped, about);
    }
    player.send(
        &ModelPacket {
            op: 0x87 << 56 | 1000,
            ..result(&job, 1, 0)
        },
        "R-VALID-8",
        dropped,
        "a RESULT, too",
    );
    let both = |change: fn(&mut ModelPacket)| {
        let mut packet = part(0x87);
        change(&mut packet);
        packet
    };
    player.send(
        &both(|packet| packet.slot = 7),
        "R-VALID-8",
        "dropped_bad_slot",
        "a bad slot, too: that comes first",
    );
    player.send(
        &both(|packet| packet.rest.clear()),
        "R-VALID-8",
        dropped,
        "no values, too: that comes later",
    );
    player.send(&part(1), "R-SLOT-0", MERGED, "a sum of i32");
    player.finish()
}

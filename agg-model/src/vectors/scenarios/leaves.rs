//! An aggregator with a parent (R-LEAF).

use std::net::{Ipv4Addr, SocketAddrV4};

use super::{EPOCH, MIN_I32, SUM_F32, contribution, resent, result, workers};
use crate::ModelPacket;
use crate::packet::{DATA, FROM_AGGREGATOR, REFUSAL, WANT, to_bytes};
use crate::vectors::{JobLine, ParentLine, Player, Trace};

/// The parent's epoch: another one than the leaf's.
const ABOVE: u32 = 40;
/// The leaf's number among the parent's members.
const NUMBER: u8 = 5;
const PARENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 2), 4601);

/// A leaf of two workers.
fn leaf() -> JobLine {
    JobLine {
        parent: Some(ParentLine {
            address: PARENT,
            member: NUMBER,
            epoch: ABOVE,
        }),
        ..workers(2)
    }
}

/// A worker's part of a chunk, with exponents.
fn part(member: u8, chunk: u64) -> ModelPacket {
    ModelPacket {
        op: SUM_F32 | 1000,
        scale: Some(3),
        next: Some(i16::from(member) - 2),
        ..contribution(&leaf(), member, chunk)
    }
}

/// What the parent says of a chunk that its members in `set` are in.
fn from_parent(kind: u8, set: &[u8], chunk: u64) -> ModelPacket {
    ModelPacket {
        kind,
        member: FROM_AGGREGATOR,
        epoch: ABOVE,
        set: set.iter().copied().collect(),
        workers: 100,
        ..part(0, chunk).without_flags()
    }
}

fn result_from_parent(chunk: u64) -> ModelPacket {
    ModelPacket {
        result: true,
        nonfinite: true,
        next: Some(17),
        rest: to_bytes(&[-123_456_789; 16]),
        ..from_parent(DATA, &[0, 2, NUMBER], chunk)
    }
}

struct Leaf(Player);

impl Leaf {
    fn new(name: &str, about: &str) -> Self {
        Self(Player::new(name, about, EPOCH, &[leaf()]))
    }

    fn send(&mut self, packet: &ModelPacket, rule: &str, counter: &str, about: &str) {
        self.0.send(packet, rule, counter, about);
    }

    /// From the parent's address.
    fn down(&mut self, packet: &ModelPacket, rule: &str, counter: &str, about: &str) {
        self.0.send_bytes(PARENT, packet.emit(), rule, counter, about);
    }
}

const MERGED: &str = "contributions_merged";
const UP: &str = "contributions_forwarded";
const AGAIN: &str = "contributions_forwarded_again";
const TAKEN: &str = "results_from_parent";
const WANTED: &str = "wants_sent";
const DUPLICATE: &str = "duplicates";

/// R-LEAF-1 and R-LEAF-3, and what R-VALID-10 drops.
pub fn forward_and_result() -> Trace {
    let about = "a leaf of two workers sends its sum up and passes the parent's result down";
    let mut leaf = Leaf::new("leaf-result", about);
    leaf.down(
        &result_from_parent(0),
        "R-LEAF-3",
        "dropped_stale_round",
        "a result that no generation waits for",
    );
    leaf.send(&part(0, 0), "R-SLOT-0", MERGED, "member 0");
    leaf.send(
        &ModelPacket { nonfinite: true, ..part(1, 0) },
        "R-LEAF-1",
        UP,
        "member 1 makes it full: the parent gets the sum, with the leaf's number, set and workers and the parent's epoch",
    );
    leaf.send(
        &part(1, 0),
        "R-LEAF-2",
        DUPLICATE,
        "there is no result yet to answer with",
    );
    let good = result_from_parent(0);
    for (packet, counter, about) in [
        (
            ModelPacket {
                epoch: EPOCH,
                ..good.clone()
            },
            "dropped_wrong_epoch",
            "of the leaf's own epoch, not the parent's",
        ),
        (
            ModelPacket {
                slot: 2,
                ..good.clone()
            },
            "dropped_bad_slot",
            "of a slot outside the window",
        ),
        (
            ModelPacket {
                header_only: true,
                ..good.clone()
            },
            "dropped_bad_length",
            "with values it says not to have",
        ),
        (
            ModelPacket {
                kind: WANT,
                ..good.clone()
            },
            "dropped_bad_length",
            "a Want with values",
        ),
    ] {
        leaf.down(&packet, "R-VALID-10", counter, about);
    }
    let foreign = leaf_member();
    leaf.0.send_bytes(
        foreign,
        good.emit(),
        "R-VALID-10",
        "dropped_wrong_source",
        "a member cannot speak for the parent",
    );
    let plain = ModelPacket {
        result: false,
        ..good.clone()
    };
    leaf.down(
        &plain,
        "R-LEAF-3",
        "dropped_wrong_direction",
        "a contribution that comes from above is none",
    );
    let upwards = ModelPacket {
        up: true,
        ..good.clone()
    };
    leaf.down(
        &upwards,
        "R-VALID-3",
        "dropped_wrong_source",
        "with UP it would be a member's: there is no member 255",
    );
    let other = ModelPacket {
        op_seq: 9,
        ..good.clone()
    };
    leaf.down(
        &other,
        "R-LEAF-3",
        "dropped_forbidden_set",
        "a result of another operation",
    );
    let other = ModelPacket {
        scale: Some(4),
        ..good.clone()
    };
    leaf.down(
        &other,
        "R-LEAF-3",
        "dropped_forbidden_set",
        "and of another scale",
    );
    leaf.down(
        &good,
        "R-LEAF-3",
        TAKEN,
        "the parent's result: it goes to every member, under the leaf's epoch and set",
    );
    leaf.down(&good, "R-LEAF-3", DUPLICATE, "and once only");
    leaf.send(
        &resent(part(0, 0)),
        "R-SLOT-1",
        "results_replayed",
        "member 0 did not get it",
    );
    leaf.send(&part(0, 2), "R-SLOT-0", MERGED, "round 1: member 0");
    leaf.down(
        &result_from_parent(2),
        "R-LEAF-3",
        TAKEN,
        "the result may come before the local set is full: others had it",
    );
    leaf.send(
        &part(1, 2),
        "R-SLOT-1",
        "results_replayed",
        "member 1 comes too late and gets it",
    );
    leaf.down(
        &result_from_parent(4),
        "R-LEAF-3",
        "dropped_stale_round",
        "the result of a later round opens nothing",
    );
    leaf.0.finish()
}

fn leaf_member() -> SocketAddrV4 {
    leaf().members[0].address
}

/// R-LEAF-2.
pub fn resends() -> Trace {
    let about = "a full leaf sends up again when a worker sends again, at most once in 1 ms";
    let mut leaf = Leaf::new("leaf-resend", about);
    leaf.send(&part(1, 1), "R-SLOT-0", MERGED, "member 1");
    leaf.send(
        &resent(part(1, 1)),
        "R-SLOT-4",
        WANTED,
        "member 1 asks: it is not full yet",
    );
    leaf.send(&part(0, 1), "R-LEAF-1", UP, "member 0: up it goes");
    leaf.0.after(999_999);
    leaf.send(
        &resent(part(1, 1)),
        "R-LEAF-2",
        DUPLICATE,
        "a resend 999999 ns later is too early",
    );
    leaf.0.after(1);
    leaf.send(
        &part(1, 1),
        "R-LEAF-2",
        DUPLICATE,
        "a copy without RESEND is no resend",
    );
    leaf.send(
        &resent(part(1, 1)),
        "R-LEAF-2",
        AGAIN,
        "a resend after 1 ms: up again, with RESEND",
    );
    leaf.0.after(999_999);
    leaf.send(
        &resent(part(0, 1)),
        "R-LEAF-2",
        DUPLICATE,
        "the pause counts from the last time",
    );
    leaf.0.after(1);
    let whole = ModelPacket {
        op: SUM_F32 | 1000,
        scale: Some(3),
        resend: true,
        ..result(&super::workers(2), 0, 1)
    };
    leaf.send(
        &whole,
        "R-LEAF-2",
        DUPLICATE,
        "a RESULT of a member is nothing to a full generation",
    );
    let other = ModelPacket {
        op_seq: 8,
        ..resent(part(0, 1))
    };
    leaf.send(
        &other,
        "R-LEAF-2",
        AGAIN,
        "nor is anything merged or compared: any contribution with RESEND will do",
    );
    leaf.down(&result_from_parent(1), "R-LEAF-3", TAKEN, "the result");
    leaf.0.finish()
}

/// R-LEAF-4, in each state.
pub fn wants() -> Trace {
    let about =
        "a parent's Want meets generations that are vacant, older, merging, full, complete and conflicting";
    let mut leaf = Leaf::new("leaf-want", about);
    let want = |set: &[u8], chunk| from_parent(WANT, set, chunk);
    leaf.down(
        &want(&[1], 0),
        "R-LEAF-4",
        WANTED,
        "vacant: it is opened empty, and the members are asked",
    );
    leaf.down(
        &want(&[1], 0),
        "R-LEAF-4",
        WANTED,
        "again, as often as the parent asks",
    );
    leaf.send(
        &resent(part(0, 0)),
        "R-SLOT-3",
        MERGED,
        "member 0 sends again: the generation holds just that",
    );
    leaf.down(
        &want(&[1], 0),
        "R-LEAF-4",
        WANTED,
        "merging: the members learn that member 0 is in",
    );
    let whole = |member, chunk| ModelPacket {
        op: SUM_F32 | 1000,
        scale: Some(3),
        workers: 100,
        ..result(&super::workers(2), member, chunk)
    };
    leaf.send(
        &whole(1, 0),
        "R-SLOT-2",
        "slots_restored",
        "member 1 has the result: it was asked, so it is taken",
    );
    leaf.down(
        &want(&[1], 0),
        "R-LEAF-4",
        "results_sent_to_parent",
        "complete: the parent gets the result",
    );
    leaf.down(
        &want(&[1, NUMBER], 0),
        "R-LEAF-4",
        "results_sent_to_parent",
        "whoever the Want says is in",
    );
    leaf.down(
        &want(&[1], 4),
        "R-LEAF-4",
        WANTED,
        "of a later round: the generation is recycled, empty",
    );
    let other = ModelPacket {
        scale: Some(9),
        ..part(1, 4)
    };
    leaf.send(
        &other,
        "R-SLOT-3",
        MERGED,
        "an empty generation conflicts with nothing: the arrival's scale counts",
    );
    leaf.send(
        &ModelPacket {
            scale: Some(9),
            ..part(0, 4)
        },
        "R-LEAF-1",
        UP,
        "member 0 makes it full",
    );
    leaf.down(
        &want(&[1], 4),
        "R-LEAF-4",
        AGAIN,
        "full, and the parent lacks it: up again at once, with RESEND",
    );
    leaf.down(
        &want(&[1, NUMBER], 4),
        "R-LEAF-4",
        WANTED,
        "full, and the parent has it: the members learn that others are waited for",
    );
    leaf.down(
        &want(&[1], 0),
        "R-LEAF-4",
        "dropped_stale_round",
        "of an earlier round",
    );
    leaf.send(&part(0, 1), "R-SLOT-0", MERGED, "slot 1: member 0");
    leaf.send(
        &ModelPacket {
            op_seq: 4,
            ..part(1, 1)
        },
        "R-OP-4",
        "refused_operation_differs",
        "member 1 differs",
    );
    leaf.down(&want(&[1], 1), "R-LEAF-4", DUPLICATE, "conflicting: nothing");
    leaf.down(&want(&[1], 5), "R-LEAF-4", WANTED, "a later round of that slot");
    leaf.send(
        &whole(1, 5),
        "R-SLOT-2",
        "slots_restored",
        "an empty generation takes a RESULT too",
    );
    leaf.0.finish()
}

/// R-LEAF-5.
pub fn refusals() -> Trace {
    let about = "members of other leaves called something else: the members of this one are told";
    let mut leaf = Leaf::new("leaf-refusal", about);
    let refusal = |reason, chunk| ModelPacket {
        op: SUM_F32 | 77,
        op_seq: 6,
        scale: Some(reason),
        member: 2,
        ..from_parent(REFUSAL, &[1, 2], chunk)
    };
    leaf.down(
        &refusal(1, 0),
        "R-LEAF-5",
        "dropped_stale_round",
        "of a generation that is vacant",
    );
    leaf.send(&part(0, 0), "R-SLOT-0", MERGED, "member 0");
    leaf.down(
        &refusal(1, 2),
        "R-LEAF-5",
        "dropped_stale_round",
        "of another round",
    );
    for reason in [3, 4, 5, 6, 7, 8, 0, -1, 99] {
        let about = format!("reason {reason} is not about this generation");
        leaf.down(&refusal(reason, 0), "R-LEAF-5", "refused_by_parent", &about);
    }
    leaf.down(
        &refusal(1, 0),
        "R-LEAF-5",
        "refused_operation_differs",
        "another operation: every member is told which, about nobody of this leaf",
    );
    leaf.down(
        &refusal(2, 0),
        "R-LEAF-5",
        "dropped_stale_round",
        "the first refusal stays",
    );
    leaf.send(
        &part(1, 0),
        "R-SLOT-1",
        "refused_operation_differs",
        "member 1 gets it with its contribution",
    );
    leaf.down(
        &result_from_parent(0),
        "R-LEAF-3",
        "dropped_stale_round",
        "a result comes too late",
    );
    leaf.send(&part(1, 1), "R-SLOT-0", MERGED, "slot 1: member 1");
    leaf.send(&part(0, 1), "R-LEAF-1", UP, "member 0 makes it full");
    leaf.down(
        &refusal(2, 1),
        "R-LEAF-5",
        "refused_scale_differs",
        "another scale, when it is full already",
    );
    leaf.send(
        &resent(part(1, 1)),
        "R-SLOT-1",
        "refused_scale_differs",
        "its resends are answered so, too",
    );
    leaf.send(&part(0, 2), "R-SLOT-0", MERGED, "round 1: member 0");
    leaf.send(&part(1, 2), "R-LEAF-1", UP, "member 1");
    leaf.down(&result_from_parent(2), "R-LEAF-3", TAKEN, "the result");
    leaf.down(
        &refusal(1, 2),
        "R-LEAF-5",
        "dropped_stale_round",
        "what is complete does not conflict",
    );
    leaf.0.finish()
}

/// R-SLOT-3 by another kind (R-OP-6).
pub fn smallest() -> Trace {
    let about = "a leaf: the smallest of its members goes up, that of all comes down";
    let mut leaf = Leaf::new("leaf-min", about);
    let min = |packet| ModelPacket {
        op: MIN_I32 | 1000,
        scale: None,
        next: None,
        ..packet
    };
    leaf.send(&min(part(1, 0)), "R-OP-6", MERGED, "member 1");
    leaf.send(&min(part(0, 0)), "R-LEAF-1", UP, "member 0: full, and up it goes");
    let result = min(result_from_parent(0));
    leaf.down(
        &ModelPacket {
            op: 0x83 << 56 | 1000,
            ..result.clone()
        },
        "R-VALID-10",
        "dropped_unknown_operation",
        "the parent says something of a kind that does not exist",
    );
    leaf.down(&result, "R-LEAF-3", TAKEN, "the parent's result, for all members");
    leaf.0.finish()
}

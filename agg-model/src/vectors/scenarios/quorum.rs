//! Jobs under a quorum (R-QUORUM).

use super::{BARRIER, EPOCH, KEY, SUM_F32, contribution, resent, result, workers};
use crate::ModelPacket;
use crate::vectors::{JobLine, Player, QuorumLine, Trace};

const MERGED: &str = "contributions_merged";
const DONE: &str = "slots_completed";
const REPLAYED: &str = "results_replayed";
const HELD: &str = "contributions_held_back";
const DUPLICATE: &str = "duplicates";
const WANTED: &str = "wants_sent";

/// So many of three workers are enough, after a grace in ns.
fn quorum(members: u8, grace: u64, generations: u16) -> JobLine {
    JobLine {
        generations: Some(generations),
        quorum: Some(QuorumLine { members, grace }),
        ..workers(3)
    }
}

/// A worker's part of a sum of f32.
fn part(member: u8, chunk: u64) -> ModelPacket {
    ModelPacket {
        op: SUM_F32 | 1000,
        scale: Some(3),
        next: Some(i16::from(member)),
        ..contribution(&workers(3), member, chunk)
    }
}

/// R-QUORUM-1 without a grace, and R-QUORUM-4's replays.
pub fn release() -> Trace {
    let about = "two of three are enough at once; the third gets the result that does not hold it";
    let mut player = Player::new("quorum-release", about, EPOCH, &[quorum(2, 0, 4)]);
    player.send(&part(0, 0), "R-SLOT-0", MERGED, "member 0: one is not enough");
    player.send(
        &part(1, 0),
        "R-QUORUM-1",
        DONE,
        "member 1: two are; the result names them and 2 workers",
    );
    player.send(
        &part(2, 0),
        "R-SLOT-1",
        REPLAYED,
        "member 2 is late: it gets the result, which does not change",
    );
    player.send(&part(2, 1), "R-SLOT-0", MERGED, "slot 1: member 2 is first");
    player.send(
        &part(2, 1),
        "R-SLOT-4",
        DUPLICATE,
        "a copy of it is not a second member",
    );
    player.send(&part(0, 1), "R-QUORUM-1", DONE, "member 0 is the second");
    let integers = ModelPacket {
        op: contribution(&workers(3), 0, 2).op,
        ..part(0, 2)
    };
    let integers = |member| ModelPacket {
        rest: part(member, 2).rest,
        next: Some(9),
        member,
        set: [member].into(),
        ..integers.clone()
    };
    player.send(
        &integers(0),
        "R-SLOT-0",
        MERGED,
        "a sum of i32 is no matter of a quorum: member 0",
    );
    player.send(&integers(1), "R-QUORUM-1", MERGED, "member 1 is not enough");
    player.send(&integers(2), "R-SLOT-7", DONE, "it is complete with all");
    let headers = |member| ModelPacket {
        header_only: true,
        rest: Vec::new(),
        ..part(member, 3)
    };
    player.send(
        &headers(1),
        "R-SLOT-0",
        MERGED,
        "header-only chunks of a sum of f32 are: member 1",
    );
    player.send(
        &headers(0),
        "R-QUORUM-1",
        DONE,
        "member 0 completes: the larger of two exponents",
    );
    let barrier = |member| ModelPacket {
        op: BARRIER | 1,
        scale: None,
        ..ModelPacket {
            slot: 0,
            round: 2,
            ..headers(member)
        }
    };
    player.send(&barrier(0), "R-SLOT-0", MERGED, "a barrier is not: member 0");
    player.send(&barrier(1), "R-QUORUM-1", MERGED, "member 1");
    player.send(&barrier(2), "R-SLOT-7", DONE, "all");
    let whole = ModelPacket {
        op: SUM_F32 | 1000,
        scale: Some(3),
        ..result(&workers(3), 0, 5)
    };
    player.send(&part(2, 5), "R-SLOT-0", MERGED, "round 2 of slot 1: member 2");
    player.send(&resent(part(2, 5)), "R-SLOT-4", WANTED, "member 2 asks");
    player.send(
        &whole,
        "R-SLOT-2",
        "dropped_forbidden_set",
        "under a quorum no RESULT is taken, asked or not",
    );
    player.finish()
}

/// R-QUORUM-1: the grace, and who is late.
pub fn grace() -> Trace {
    let about = "two of three are enough after a grace of 2 ms, or at once when the third is late";
    let mut player = Player::new("quorum-grace", about, EPOCH, &[quorum(2, 2_000_000, 8)]);
    player.send(&part(0, 0), "R-SLOT-0", MERGED, "member 0: the grace begins");
    player.send(
        &part(1, 0),
        "R-QUORUM-1",
        MERGED,
        "member 1 makes two, 0.2 ms later: too early",
    );
    player.after(1_799_999);
    player.send(
        &part(1, 0),
        "R-QUORUM-1",
        DUPLICATE,
        "1 ns before the end of the grace",
    );
    player.after(1);
    player.send(
        &part(1, 0),
        "R-QUORUM-1",
        DONE,
        "the grace is over: even a copy lets it go, and member 2 is late",
    );
    player.send(&part(1, 1), "R-SLOT-0", MERGED, "slot 1: member 1");
    player.send(
        &part(0, 1),
        "R-QUORUM-1",
        DONE,
        "nobody waits for member 2, which is late",
    );
    player.send(
        &part(2, 0),
        "R-SLOT-1",
        REPLAYED,
        "a contribution to what is complete does not make it punctual",
    );
    player.send(&part(1, 2), "R-SLOT-0", MERGED, "round 1 of slot 0: member 1");
    player.send(
        &part(2, 2),
        "R-QUORUM-1",
        MERGED,
        "member 2 is in time again: no longer late, so member 0 is waited for",
    );
    player.send(&part(1, 3), "R-SLOT-0", MERGED, "round 1 of slot 1: member 1");
    player.send(&part(0, 3), "R-QUORUM-1", MERGED, "and so is member 2");
    player.after(3_000_000);
    player.send(
        &resent(part(1, 3)),
        "R-QUORUM-1",
        DONE,
        "after the grace it goes, before any Want; member 2 is late",
    );
    player.send(
        &resent(part(1, 2)),
        "R-QUORUM-1",
        DONE,
        "and slot 0, with member 2 and without member 0",
    );
    player.send(&part(1, 4), "R-SLOT-0", MERGED, "round 2 of slot 0: member 1");
    player.send(
        &part(0, 4),
        "R-QUORUM-1",
        DONE,
        "member 2 is late still: what it had contributed before does not count",
    );
    player.send(
        &part(0, 5),
        "R-SLOT-0",
        MERGED,
        "member 0 was late as well, until now",
    );
    player.send(
        &resent(part(0, 5)),
        "R-SLOT-4",
        WANTED,
        "one alone waits, whoever is late",
    );
    player.send(&part(1, 5), "R-QUORUM-1", DONE, "the second");
    player.finish()
}

/// R-QUORUM-2 and R-QUORUM-3.
pub fn history() -> Trace {
    let about =
        "a slot with two generations: members 0 and 1 cannot be more than two rounds ahead of member 2";
    let mut player = Player::new("quorum-history", about, EPOCH, &[quorum(2, 0, 2)]);
    for round in [0, 1] {
        player.send(&part(0, 2 * round), "R-SLOT-0", MERGED, "member 0");
        player.send(&part(1, 2 * round), "R-QUORUM-1", DONE, "member 1 completes");
    }
    player.send(
        &part(0, 4),
        "R-QUORUM-3",
        HELD,
        "round 2 would recycle round 0, which member 2 may need",
    );
    player.send(
        &resent(part(0, 4)),
        "R-QUORUM-3",
        HELD,
        "with RESEND it is answered: a Want of round 2 that names who is past round 0",
    );
    player.send(
        &resent(part(1, 4)),
        "R-QUORUM-3",
        HELD,
        "member 1 is, too: whatever became of its contributions",
    );
    player.send(
        &resent(part(2, 0)),
        "R-SLOT-1",
        REPLAYED,
        "member 2 gets the result of round 0",
    );
    player.send(
        &resent(part(0, 4)),
        "R-QUORUM-3",
        HELD,
        "having it is not proven by asking for it",
    );
    player.send(
        &part(2, 2),
        "R-QUORUM-2",
        REPLAYED,
        "its contribution to round 1 proves it",
    );
    player.send(
        &resent(part(0, 4)),
        "R-QUORUM-3",
        MERGED,
        "all are past round 0: it is recycled",
    );
    player.send(
        &part(2, 0),
        "R-SLOT-0",
        "dropped_stale_round",
        "a copy of member 2's first contribution",
    );
    player.send(&part(1, 4), "R-QUORUM-1", DONE, "round 2 is complete");
    player.send(
        &part(1, 6),
        "R-QUORUM-3",
        HELD,
        "round 3: member 2 may need round 1",
    );
    player.send(
        &part(2, 4),
        "R-QUORUM-2",
        REPLAYED,
        "it has contributed to round 2: it does not",
    );
    player.send(&part(1, 6), "R-QUORUM-3", MERGED, "all are past round 1");
    player.finish()
}

/// R-QUORUM-5.
pub fn removed() -> Trace {
    let about = "a member that is not heard is removed: nothing waits for it any more";
    let mut player = Player::new("quorum-removed", about, EPOCH, &[quorum(3, 0, 2)]);
    player.send(&part(0, 0), "R-SLOT-0", MERGED, "member 0");
    player.send(&part(2, 0), "R-SLOT-3", MERGED, "member 2: three are needed");
    player.send(&part(0, 1), "R-SLOT-0", MERGED, "slot 1: member 0");
    player.send(&part(1, 1), "R-SLOT-3", MERGED, "slot 1: member 1");
    player.exclude(KEY, 1);
    player.send(
        &part(1, 0),
        "R-VALID-7",
        "refused_member_removed",
        "reason 8, about nobody",
    );
    player.send(
        &resent(part(2, 0)),
        "R-QUORUM-5",
        DONE,
        "the next arrival completes what waited for member 1 only",
    );
    player.send(
        &part(2, 1),
        "R-QUORUM-5",
        DONE,
        "what member 1 has contributed counts",
    );
    player.send(&part(0, 2), "R-SLOT-0", MERGED, "round 1: member 0");
    player.send(
        &part(0, 4),
        "R-QUORUM-3",
        HELD,
        "round 2: member 2 may need round 0",
    );
    player.send(
        &part(2, 2),
        "R-QUORUM-1",
        DONE,
        "of two that are left two are enough",
    );
    player.send(
        &part(0, 4),
        "R-QUORUM-3",
        MERGED,
        "both are past round 0; member 1 need not be",
    );
    player.finish()
}

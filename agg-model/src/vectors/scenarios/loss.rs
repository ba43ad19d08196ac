//! Packets that are lost, doubled and sent again.

use super::{EPOCH, SUM_F32, contribution, resent, result, workers};
use crate::ModelPacket;
use crate::vectors::{Player, Trace};

/// R-SLOT-4: duplicates, and the pause between Wants, to the nanosecond.
pub fn resends_and_wants() -> Trace {
    let job = workers(3);
    let about = "a contribution is lost; the others send again, Wants go out at most once in 1 ms";
    let mut player = Player::new("loss", about, EPOCH, std::slice::from_ref(&job));
    let part = |member| contribution(&job, member, 5);
    player.send(
        &part(0),
        "R-SLOT-0",
        "contributions_merged",
        "member 0; member 1's packet is lost",
    );
    player.send(&part(2), "R-SLOT-3", "contributions_merged", "member 2");
    player.send(
        &part(0),
        "R-SLOT-4",
        "duplicates",
        "member 0's packet was doubled on the way: nothing to do",
    );
    player.send(
        &resent(part(0)),
        "R-SLOT-4",
        "wants_sent",
        "member 0 sends again: a Want carries the set {0, 2}",
    );
    player.after(1);
    player.send(
        &resent(part(2)),
        "R-SLOT-4",
        "duplicates",
        "member 2 sends again 1 ns later: one Want is enough",
    );
    player.after(999_998);
    player.send(
        &resent(part(2)),
        "R-SLOT-4",
        "duplicates",
        "999999 ns after the Want it is still too early",
    );
    player.after(1);
    player.send(
        &resent(part(2)),
        "R-SLOT-4",
        "wants_sent",
        "1 ms after the Want the next one goes out",
    );
    player.after(999_999);
    player.send(
        &resent(part(0)),
        "R-SLOT-4",
        "duplicates",
        "the pause counts from the last Want",
    );
    player.after(1);
    player.send(
        &part(0),
        "R-SLOT-4",
        "duplicates",
        "a doubled packet without RESEND never asks",
    );
    player.send(
        &resent(part(1)),
        "R-SLOT-7",
        "slots_completed",
        "member 1 answers the Want: RESEND or not, it is merged",
    );
    player.send(
        &part(1),
        "R-SLOT-1",
        "results_replayed",
        "member 1's first packet arrives late: its sender gets the result",
    );
    player.finish()
}

/// R-SLOT-1: what a complete generation answers.
pub fn replays() -> Trace {
    let job = workers(2);
    let about = "a complete generation answers whatever comes for its round, and never changes";
    let mut player = Player::new("replay", about, EPOCH, std::slice::from_ref(&job));
    let part = |member| ModelPacket {
        scale: Some(4),
        next: Some(-9),
        ..contribution(&job, member, 0)
    };
    let replayed = "results_replayed";
    player.send(&part(0), "R-SLOT-0", "contributions_merged", "member 0");
    player.send(&part(1), "R-SLOT-7", "slots_completed", "member 1 completes");
    player.send(
        &resent(part(0)),
        "R-SLOT-1",
        replayed,
        "member 0 did not get the result",
    );
    player.send(
        &resent(part(0)),
        "R-SLOT-1",
        replayed,
        "nor the second: replays have no pause",
    );
    let other = contribution(&job, 1, 8);
    let other = ModelPacket {
        rest: other.rest,
        next: Some(100),
        ..part(1)
    };
    player.send(
        &other,
        "R-SLOT-1",
        replayed,
        "other values and another exponent change nothing",
    );
    let other = ModelPacket {
        op_seq: 9,
        scale: None,
        header_only: true,
        rest: Vec::new(),
        ..part(1)
    };
    player.send(
        &other,
        "R-SLOT-1",
        replayed,
        "another operation does not conflict: the round is done",
    );
    let other = ModelPacket {
        scale: Some(4),
        next: Some(-9),
        ..result(&job, 1, 0)
    };
    player.send(
        &other,
        "R-SLOT-1",
        replayed,
        "a RESULT is answered as any other packet",
    );
    player.finish()
}

/// R-SLOT-2: a slot that lost its memory is refilled by members that have the result.
pub fn restoration() -> Trace {
    let job = workers(3);
    let about = "an aggregator with empty memory: members 0 and 2 have the result already, member 1 has not";
    let mut player = Player::new("restoration", about, EPOCH, std::slice::from_ref(&job));
    let float = |packet| ModelPacket {
        op: SUM_F32 | 1000,
        scale: Some(-5),
        ..packet
    };
    let part = |member| float(contribution(&job, member, 6));
    let whole = |member| float(result(&job, member, 6));
    let refused = "dropped_forbidden_set";
    player.send(
        &whole(0),
        "R-SLOT-0",
        refused,
        "a RESULT that nobody asked for, in a vacant generation",
    );
    player.send(
        &resent(part(1)),
        "R-SLOT-0",
        "contributions_merged",
        "member 1 sends again and opens the generation",
    );
    player.send(&whole(0), "R-SLOT-2", refused, "a RESULT before any Want");
    player.send(
        &resent(part(1)),
        "R-SLOT-4",
        "wants_sent",
        "member 1 sends again: a Want goes to all",
    );
    let later = ModelPacket { round: 5, ..whole(0) };
    player.send(
        &later,
        "R-SLOT-0",
        refused,
        "a RESULT of a later round does not recycle",
    );
    let earlier = ModelPacket { round: 1, ..whole(0) };
    player.send(
        &earlier,
        "R-SLOT-0",
        "dropped_stale_round",
        "a RESULT of an earlier round is stale",
    );
    let answer = ModelPacket {
        nonfinite: true,
        next: Some(2),
        set: [0, 5, 63].into(),
        workers: 40,
        ..whole(2)
    };
    player.send(
        &answer,
        "R-SLOT-2",
        "slots_restored",
        "member 2's RESULT, of another level's set, replaces everything and goes to all with the set of this one",
    );
    player.send(
        &whole(0),
        "R-SLOT-1",
        "results_replayed",
        "member 0's RESULT comes too late: it is answered, not taken",
    );
    player.send(
        &resent(part(1)),
        "R-SLOT-1",
        "results_replayed",
        "member 1 asks once more and gets member 2's RESULT",
    );
    player.finish()
}

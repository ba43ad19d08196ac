//! Rounds that follow each other in a slot, also around 2^32.

use super::{EPOCH, contribution, resent, result, workers};
use crate::ModelPacket;
use crate::vectors::{Player, Trace};

/// R-SLOT-0 and R-CHUNK-4.
pub fn recycled_and_stale() -> Trace {
    let job = workers(2);
    let about = "newer rounds recycle a generation, older ones are stale, in wrap-around order";
    let mut player = Player::new("rounds", about, EPOCH, std::slice::from_ref(&job));
    let merged = "contributions_merged";
    let (stale, done) = ("dropped_stale_round", "slots_completed");
    // Always slot 1, and values that depend on the round.
    let part = |member: u8, round: u32| contribution(&job, member, 2 * u64::from(round) + 1);
    let last = u32::MAX;
    player.send(
        &part(0, last - 1),
        "R-SLOT-0",
        merged,
        "round 2^32-2, a vacant generation",
    );
    player.send(&part(1, last - 1), "R-SLOT-7", done, "and complete");
    player.send(
        &part(0, last),
        "R-CHUNK-2",
        merged,
        "round 2^32-1 is in the other generation",
    );
    player.send(
        &part(0, 0),
        "R-CHUNK-4",
        merged,
        "round 0 is after 2^32-2: it recycles the complete generation",
    );
    player.send(
        &resent(part(1, last - 1)),
        "R-SLOT-0",
        stale,
        "round 2^32-2 is before 0",
    );
    player.send(
        &part(1, last),
        "R-CHUNK-3",
        done,
        "round 2^32-1 is not touched: it completes",
    );
    player.send(
        &part(1, 0),
        "R-SLOT-7",
        done,
        "round 0 completes with nothing left of the values before",
    );
    player.send(&part(1, 1), "R-CHUNK-4", merged, "round 1 recycles 2^32-1");
    player.send(&resent(part(1, 1)), "R-SLOT-4", "wants_sent", "member 1 asks");
    player.send(
        &part(0, 3),
        "R-SLOT-0",
        merged,
        "round 3 recycles round 1 that is not complete",
    );
    let whole = ModelPacket {
        round: 3,
        ..result(&job, 1, 7)
    };
    player.send(
        &whole,
        "R-SLOT-2",
        "dropped_forbidden_set",
        "round 3 was not asked for, whatever round 1 was",
    );
    player.send(
        &resent(part(0, 3)),
        "R-SLOT-4",
        "wants_sent",
        "nor does the pause of round 1's Want count for round 3",
    );
    player.send(&part(1, 1), "R-SLOT-0", stale, "round 1 is gone");
    player.send(
        &part(0, 1 << 31),
        "R-CHUNK-4",
        stale,
        "round 2^31 is exactly half the space from round 0: stale",
    );
    player.send(
        &part(0, (1 << 31) - 2),
        "R-CHUNK-4",
        merged,
        "round 2^31-2 is after round 0, however far",
    );
    player.send(
        &part(1, last - 1),
        "R-CHUNK-4",
        stale,
        "round 2^32-2 is exactly half the space from 2^31-2: stale",
    );
    player.send(&part(1, 0), "R-CHUNK-4", stale, "round 0 is before 2^31-2");
    player.send(
        &part(1, last - 3),
        "R-CHUNK-4",
        merged,
        "round 2^32-4 is after 2^31-2",
    );
    player.send(
        &part(0, last - 3),
        "R-SLOT-7",
        done,
        "and completes with both members",
    );
    player.send(
        &part(0, 3),
        "R-SLOT-4",
        "duplicates",
        "round 3 in the other generation is as it was",
    );
    player.finish()
}

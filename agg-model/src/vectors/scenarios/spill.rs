//! Jobs with a store (R-SPILL): one frame, besides that of RESULTs.

use super::{EPOCH, contribution, resent, result, workers};
use crate::vectors::{JobLine, Player, Trace};

const MERGED: &str = "contributions_merged";
const DONE: &str = "slots_completed";
const DROPPED: &str = "dropped_no_free_frame";

fn spilling(members: u8) -> JobLine {
    JobLine {
        frames: Some(2),
        ..workers(members)
    }
}

/// R-SPILL-2 and R-SPILL-3.
pub fn put_and_recall() -> Trace {
    let about = "sums that wait for the third member are put into the store and come back";
    let job = spilling(3);
    let mut player = Player::new("spill-put-and-recall", about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk| contribution(&job, member, chunk);
    player.send(&part(0, 0), "R-SPILL-2", MERGED, "member 0; its sum is put");
    player.stored(&job, (0, 0), 0b001);
    player.send(&part(0, 1), "R-SPILL-2", MERGED, "the frame is free again; put");
    player.stored(&job, (1, 0), 0b001);
    player.send(
        &part(1, 0),
        "R-SPILL-3",
        MERGED,
        "merged apart from what is in the store",
    );
    player.recalled(
        &job,
        (0, 0),
        0b001,
        "R-SPILL-2",
        MERGED,
        "asked back to be put as a whole",
    );
    player.stored(&job, (0, 0), 0b011);
    player.send(
        &part(1, 1),
        "R-SPILL-3",
        MERGED,
        "the other slot; the answer of the store is lost",
    );
    player.send(
        &part(2, 0),
        "R-SPILL-1",
        DROPPED,
        "no frame, and no result to forget",
    );
    player.send(
        &part(2, 1),
        "R-SPILL-3",
        MERGED,
        "full: the store's part is asked for",
    );
    player.recalled(&job, (1, 0), 0b001, "R-SPILL-3", DONE, "and added");
    player.recalled(&job, (1, 0), 0b001, "R-SPILL-3", "duplicates", "it comes twice");
    player.send(
        &resent(part(2, 0)),
        "R-SPILL-1",
        MERGED,
        "the result of the other slot is forgotten",
    );
    player.recalled(&job, (0, 0), 0b011, "R-SPILL-3", DONE, "both parts make the sum");
    player.send(
        &resent(part(0, 0)),
        "R-SLOT-1",
        "results_replayed",
        "as of any slot",
    );
    player.finish()
}

/// R-SPILL-4.
pub fn store_lost() -> Trace {
    let about = "the store is lost: what it held is sent again";
    let job = spilling(2);
    let mut player = Player::new("spill-store-lost", about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk| contribution(&job, member, chunk);
    player.send(&part(0, 0), "R-SPILL-2", MERGED, "put");
    player.stored(&job, (0, 0), 0b01);
    player.store_lost(&job);
    player.send(
        &part(1, 0),
        "R-SPILL-4",
        MERGED,
        "the slot was emptied: it holds just this",
    );
    player.send(&resent(part(0, 0)), "R-SLOT-7", DONE, "member 0 sends again");
    player.send(
        &part(0, 2),
        "R-SPILL-1",
        MERGED,
        "the result before is forgotten; put",
    );
    player.stored(&job, (0, 1), 0b01);
    player.send(
        &part(1, 2),
        "R-SPILL-3",
        MERGED,
        "full: the store's part is asked for",
    );
    player.store_lost(&job);
    player.recalled(
        &job,
        (0, 1),
        0b01,
        "R-SPILL-4",
        "duplicates",
        "too late: nothing waits for it",
    );
    player.send(&resent(part(1, 2)), "R-SPILL-4", MERGED, "nothing is left of it");
    player.send(&resent(part(0, 2)), "R-SLOT-7", DONE, "complete");
    player.send(&part(0, 1), "R-SPILL-1", MERGED, "a sum takes the frame");
    player.store_lost(&job);
    player.send(
        &part(1, 3),
        "R-SPILL-4",
        MERGED,
        "it was emptied, as no other frame was free",
    );
    player.finish()
}

/// R-SPILL-1.
pub fn evicted_result() -> Trace {
    let about = "a result is forgotten for its frame; who lacks it is helped by the others";
    let job = spilling(2);
    let mut player = Player::new("spill-evicted-result", about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk| contribution(&job, member, chunk);
    player.send(&part(0, 0), "R-SLOT-0", MERGED, "member 0");
    player.send(
        &part(1, 0),
        "R-SLOT-7",
        DONE,
        "complete; the result to member 1 is lost",
    );
    player.send(
        &part(0, 1),
        "R-SPILL-1",
        MERGED,
        "its frame is needed: the result is forgotten",
    );
    player.send(&part(1, 0), "R-SPILL-1", DROPPED, "a late copy finds no frame");
    player.send(
        &resent(part(1, 0)),
        "R-SPILL-1",
        DROPPED,
        "sent again: a Want goes out",
    );
    player.send(&resent(part(1, 0)), "R-SPILL-1", DROPPED, "once in 1 ms");
    player.send(
        &result(&job, 0, 0),
        "R-SPILL-1",
        "slots_restored",
        "member 0's result passes through",
    );
    player.send(
        &result(&job, 0, 0),
        "R-SLOT-2",
        "dropped_forbidden_set",
        "it is forgotten again, and not asked for",
    );
    player.send(
        &resent(part(1, 2)),
        "R-SPILL-1",
        DROPPED,
        "a new round is opened, empty and asked",
    );
    player.finish()
}

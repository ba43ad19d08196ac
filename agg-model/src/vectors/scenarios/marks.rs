//! Contributions that the network has marked.

use super::{EPOCH, contribution, resent, workers};
use crate::ModelPacket;
use crate::vectors::{Player, Trace};

/// R-ECN-2: whoever gets the result learns that a contribution was marked. Here a leaf says so; a host finds the same in the
/// IP header.
pub fn marks() -> Trace {
    let job = workers(3);
    let about = "a contribution that was marked marks its result; a result sent again says so; each names who came last";
    let mut player = Player::new("marks", about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk| contribution(&job, member, chunk);
    let marked = |packet| ModelPacket {
        congested: true,
        ..packet
    };
    let (merged, done) = ("contributions_merged", "slots_completed");
    player.send(&part(0, 0), "R-SLOT-0", merged, "slot 0: member 0");
    player.send(&marked(part(2, 0)), "R-SLOT-3", merged, "member 2, marked");
    player.send(
        &marked(resent(part(0, 0))),
        "R-SLOT-4",
        "wants_sent",
        "member 0 asks: a Want has no flag",
    );
    player.send(
        &part(1, 0),
        "R-SLOT-7",
        done,
        "member 1 completes: the result is marked, by 1",
    );
    player.send(
        &resent(part(0, 0)),
        "R-SLOT-1",
        "results_replayed",
        "once more, with RESEND, by nobody",
    );
    player.send(
        &marked(part(1, 1)),
        "R-SLOT-0",
        merged,
        "slot 1: member 1, marked",
    );
    player.send(&part(0, 1), "R-SLOT-3", merged, "member 0");
    player.send(
        &part(2, 1),
        "R-SLOT-7",
        done,
        "member 2 completes: marked by the first",
    );
    player.send(
        &part(1, 4),
        "R-SLOT-0",
        merged,
        "slot 0 again: the mark does not stay",
    );
    player.send(
        &marked(resent(part(1, 4))),
        "R-SLOT-4",
        "wants_sent",
        "what is held already marks nothing",
    );
    player.send(&part(2, 4), "R-SLOT-3", merged, "member 2");
    player.send(&part(0, 4), "R-SLOT-7", done, "member 0 completes: no mark");
    player.finish()
}

//! Members that stand for several, as child aggregators do.

use super::{EPOCH, child, contribution, job, resent, result, worker};
use crate::ModelPacket;
use crate::vectors::{Player, Trace};

/// R-SLOT-3 to R-SLOT-6 with sets of several members, as they arise when children fail over.
pub fn supersets_and_overlaps() -> Trace {
    let high = 0xc000_0000_0000_0000;
    let job = job(vec![
        worker(0),
        worker(1),
        child(2, 0b011, 2),
        child(3, 0b110, 5),
        child(4, high, 1000),
        child(5, 0b111 | high, 1007),
    ]);
    let about = "members whose sets contain or overlap each other: a sum is always one of distinct members";
    let mut player = Player::new("sets", about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk| {
        let next = Some(10 - i16::from(member));
        ModelPacket {
            scale: Some(1),
            next,
            ..contribution(&job, member, chunk)
        }
    };
    let nan = |packet| ModelPacket {
        nonfinite: true,
        ..packet
    };
    let (merged, done) = ("contributions_merged", "slots_completed");
    let (replaced, overlapping) = ("contributions_replaced", "contributions_overlapping");
    player.send(
        &nan(part(0, 0)),
        "R-SLOT-0",
        merged,
        "member 0, set {0}, with NONFINITE",
    );
    player.send(
        &part(2, 0),
        "R-SLOT-5",
        replaced,
        "member 2, set {0, 1}: replaces {0}, its flag and its larger next",
    );
    player.send(&part(0, 0), "R-SLOT-4", "duplicates", "member 0 is held already");
    player.send(&part(1, 0), "R-SLOT-4", "duplicates", "and member 1");
    player.send(
        &part(4, 0),
        "R-SLOT-3",
        merged,
        "member 4, set {62, 63}, 1000 workers",
    );
    player.send(
        &part(3, 0),
        "R-SLOT-6",
        overlapping,
        "member 3, set {1, 2}, overlaps {0, 1, 62, 63}: replaces all",
    );
    player.send(
        &part(4, 0),
        "R-SLOT-3",
        merged,
        "member 4 was dropped and comes again",
    );
    player.send(
        &part(1, 0),
        "R-SLOT-4",
        "duplicates",
        "member 1 is in member 3's values",
    );
    player.send(
        &part(0, 0),
        "R-SLOT-7",
        done,
        "member 0 completes {0, 1, 2, 62, 63}",
    );

    player.send(&part(4, 1), "R-SLOT-0", merged, "slot 1: member 4");
    player.send(
        &part(5, 1),
        "R-SLOT-5",
        done,
        "member 5 has all: it replaces and completes at once",
    );

    player.send(&part(0, 2), "R-SLOT-0", merged, "round 1: member 0");
    player.send(&resent(part(0, 2)), "R-SLOT-4", "wants_sent", "member 0 asks");
    player.send(&part(2, 2), "R-SLOT-5", replaced, "member 2 replaces");
    player.send(
        &resent(part(2, 2)),
        "R-SLOT-4",
        "duplicates",
        "the pause goes on after a replacement",
    );
    player.send(&part(3, 2), "R-SLOT-6", overlapping, "member 3 replaces");
    let whole = ModelPacket {
        scale: Some(1),
        workers: 1007,
        ..result(&job, 1, 2)
    };
    player.send(
        &whole,
        "R-SLOT-6",
        "slots_restored",
        "the generation stays asked: member 1's RESULT is taken",
    );

    player.send(&part(3, 3), "R-SLOT-0", merged, "round 1 of slot 1: member 3");
    player.send(
        &part(5, 3),
        "R-SLOT-5",
        done,
        "member 5 contains it and completes",
    );
    player.send(&part(2, 4), "R-SLOT-0", merged, "round 2: member 2");
    player.send(&part(4, 4), "R-SLOT-3", merged, "member 4");
    player.send(&part(3, 4), "R-SLOT-6", overlapping, "member 3 overlaps");
    player.send(
        &resent(part(1, 4)),
        "R-SLOT-4",
        "wants_sent",
        "member 1 is held in {1, 2}: a Want carries {1, 2} and 5 workers",
    );
    player.send(
        &part(2, 4),
        "R-SLOT-6",
        overlapping,
        "member 2 overlaps the other way",
    );
    player.finish()
}

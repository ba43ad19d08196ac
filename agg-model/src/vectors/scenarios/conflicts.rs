//! Members that disagree (R-OP-4, R-NUM-4).

use super::{EPOCH, SUM_F32, contribution, resent, result, workers};
use crate::ModelPacket;
use crate::vectors::{Player, Trace};

/// Another operation, number or shape.
pub fn operations() -> Trace {
    let job = workers(3);
    let about = "members that call different operations are told so, each of them";
    let mut player = Player::new("conflict-operation", about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk| contribution(&job, member, chunk);
    let (merged, refused) = ("contributions_merged", "refused_operation_differs");
    player.send(&part(0, 0), "R-SLOT-0", merged, "member 0 opens the generation");
    player.send(&part(1, 0), "R-SLOT-3", merged, "member 1 agrees");
    let other = ModelPacket {
        op: SUM_F32 | 77,
        ..part(2, 0)
    };
    player.send(
        &other,
        "R-OP-4",
        refused,
        "member 2 calls another operation: a refusal to all names it and tells theirs",
    );
    player.send(
        &resent(part(0, 0)),
        "R-SLOT-1",
        refused,
        "member 0 gets the refusal once more",
    );
    player.send(
        &part(2, 0),
        "R-SLOT-1",
        refused,
        "member 2 too, even if it agrees now",
    );
    let whole = result(&job, 1, 0);
    player.send(&whole, "R-SLOT-1", refused, "a RESULT does not help");

    player.send(&part(1, 1), "R-SLOT-0", merged, "slot 1: member 1");
    let other = ModelPacket {
        op_seq: 4,
        scale: Some(5),
        ..part(0, 1)
    };
    player.send(
        &other,
        "R-OP-4",
        refused,
        "the same operation of another number; the scale differs too, but is checked later",
    );

    player.send(&part(2, 2), "R-SLOT-0", merged, "round 1: member 2, with values");
    let other = ModelPacket {
        header_only: true,
        rest: Vec::new(),
        ..part(0, 2)
    };
    player.send(&other, "R-OP-4", refused, "header-only against values");
    player.send(&other, "R-SLOT-1", refused, "sent again: the offender stays");

    player.send(
        &ModelPacket {
            header_only: true,
            rest: Vec::new(),
            ..part(0, 3)
        },
        "R-SLOT-0",
        merged,
        "header-only first",
    );
    player.send(&part(2, 3), "R-OP-4", refused, "values against header-only");

    let other = ModelPacket {
        op_seq: 8,
        ..part(0, 4)
    };
    player.send(
        &other,
        "R-SLOT-0",
        merged,
        "round 2 recycles the conflicting generation",
    );
    let differs = ModelPacket {
        op_seq: 9,
        ..part(0, 4)
    };
    player.send(
        &differs,
        "R-OP-4",
        refused,
        "a duplicate that differs conflicts too: the check comes before the sets",
    );
    player.send(&part(1, 8), "R-SLOT-0", merged, "and round 4 recycles that one");
    player.finish()
}

/// Another scale, and a RESULT that differs.
pub fn scales() -> Trace {
    let job = workers(3);
    let about =
        "a member that scaled with another exponent is a defect: everybody is told, nothing is summed";
    let mut player = Player::new("conflict-scale", about, EPOCH, std::slice::from_ref(&job));
    let part = |member, chunk, scale| ModelPacket {
        op: SUM_F32 | 1000,
        scale,
        next: Some(i16::from(member)),
        ..contribution(&job, member, chunk)
    };
    let (merged, refused) = ("contributions_merged", "refused_scale_differs");
    player.send(
        &part(0, 0, Some(5)),
        "R-SLOT-0",
        merged,
        "member 0 has the scale 5",
    );
    player.send(&part(1, 0, Some(4)), "R-NUM-4", refused, "member 1 has 4");
    player.send(
        &part(2, 0, Some(5)),
        "R-SLOT-1",
        refused,
        "member 2 gets the same refusal",
    );
    let other = ModelPacket {
        op_seq: 99,
        ..part(2, 0, Some(5))
    };
    player.send(
        &other,
        "R-SLOT-1",
        refused,
        "another operation does not make it another refusal",
    );

    player.send(&part(0, 1, None), "R-SLOT-0", merged, "slot 1: no scale");
    player.send(&part(2, 1, Some(0)), "R-NUM-4", refused, "none is not 0");

    let asked = "wants_sent";
    player.send(&part(0, 2, Some(-3)), "R-SLOT-0", merged, "round 1: member 0");
    player.send(&resent(part(0, 2, Some(-3))), "R-SLOT-4", asked, "member 0 asks");
    let whole = ModelPacket {
        op: SUM_F32 | 1000,
        scale: Some(-2),
        ..result(&job, 1, 2)
    };
    player.send(
        &whole,
        "R-SLOT-2",
        refused,
        "a RESULT of another scale conflicts before it is taken",
    );

    player.send(
        &part(0, 3, Some(-3)),
        "R-SLOT-0",
        merged,
        "round 1 of slot 1: member 0",
    );
    player.send(&resent(part(0, 3, Some(-3))), "R-SLOT-4", asked, "member 0 asks");
    let whole = ModelPacket {
        scale: Some(-3),
        ..result(&job, 1, 3)
    };
    player.send(
        &whole,
        "R-SLOT-2",
        "refused_operation_differs",
        "a RESULT of another operation does too",
    );

    player.send(&part(0, 4, Some(-3)), "R-SLOT-0", merged, "round 2: member 0");
    let whole = ModelPacket {
        scale: Some(9),
        ..result(&job, 1, 4)
    };
    player.send(
        &whole,
        "R-SLOT-2",
        "dropped_forbidden_set",
        "a RESULT that may not be taken is dropped, whatever its scale",
    );
    player.send(
        &part(1, 4, Some(-3)),
        "R-SLOT-3",
        merged,
        "and conflicts with nothing",
    );
    player.finish()
}

//! Jobs that are aborted, aggregators that were restarted, and jobs beside each other.

use super::{EPOCH, KEY, SUM_F32, contribution, resent, result, workers};
use crate::ModelPacket;
use crate::vectors::text::Word;
use crate::vectors::{JobLine, Player, Trace};

/// R-VALID-7 and R-JOB-2.
pub fn aborted() -> Trace {
    let other = |key| JobLine {
        key: Word(key),
        ..workers(2)
    };
    let (lost, left, ended) = (workers(3), other(2), other(u64::MAX));
    let jobs = [lost.clone(), left.clone(), ended.clone()];
    let about = "three jobs are aborted: a member was lost, one gave up, the operator ended it";
    let mut player = Player::new("aborted", about, EPOCH, &jobs);
    let refused = "refused_job_aborted";
    player.send(
        &contribution(&lost, 0, 0),
        "R-SLOT-0",
        "contributions_merged",
        "before",
    );
    player.send(
        &contribution(&left, 0, 0),
        "R-SLOT-0",
        "contributions_merged",
        "in the second job too",
    );
    player.abort(KEY, 4, 2);
    player.send(
        &contribution(&lost, 1, 0),
        "R-VALID-7",
        refused,
        "a member was lost: reason 4, about member 2",
    );
    let wide = ModelPacket {
        scale: Some(-7),
        next: Some(9),
        op: SUM_F32 | 5,
        ..resent(contribution(&lost, 0, 1))
    };
    player.send(
        &wide,
        "R-VALID-7",
        refused,
        "the other fields are those of the packet, its flags and values are not sent back",
    );
    player.send(
        &contribution(&left, 1, 0),
        "R-SLOT-7",
        "slots_completed",
        "the second job goes on",
    );
    player.abort(2, 5, 1);
    player.abort(2, 4, 0);
    player.send(
        &resent(contribution(&left, 0, 0)),
        "R-VALID-7",
        refused,
        "a member gave up: reason 5, about member 1; the first abort stays",
    );
    player.abort(u64::MAX, 6, 255);
    player.send(
        &contribution(&ended, 0, 0),
        "R-VALID-7",
        refused,
        "the operator ended it: reason 6, about nobody",
    );
    player.send(
        &result(&lost, 1, 0),
        "R-VALID-7",
        refused,
        "a RESULT is refused too",
    );
    let odd = ModelPacket {
        slot: 9,
        set: [5].into(),
        rest: vec![1, 2, 3],
        ..contribution(&lost, 1, 0)
    };
    player.send(&odd, "R-VALID-7", refused, "and a packet that fails later checks");
    let old = ModelPacket {
        epoch: EPOCH - 1,
        ..contribution(&lost, 1, 0)
    };
    player.send(
        &old,
        "R-VALID-6",
        "refused_old_epoch",
        "an old epoch comes first: reason 3, about nobody",
    );
    let new = ModelPacket {
        epoch: EPOCH + 1,
        ..contribution(&lost, 1, 0)
    };
    player.send(&new, "R-VALID-6", "dropped_wrong_epoch", "and a newer one");
    let down = ModelPacket {
        up: false,
        ..contribution(&lost, 1, 0)
    };
    player.send(
        &down,
        "R-VALID-5",
        "dropped_wrong_direction",
        "what is not UP is never answered",
    );
    player.finish()
}

/// R-REFORM-1 and R-REFORM-2.
pub fn reformed() -> Trace {
    let job = workers(3);
    let about = "a job is suspended and admitted anew with an epoch on, other members and empty slots";
    let mut player = Player::new("reformed", about, EPOCH, std::slice::from_ref(&job));
    let (merged, refused) = ("contributions_merged", "refused_job_reforming");
    player.send(&contribution(&job, 0, 0), "R-SLOT-0", merged, "member 0");
    player.send(&contribution(&job, 1, 0), "R-SLOT-3", merged, "member 1");
    player.suspend(KEY);
    player.send(
        &contribution(&job, 2, 0),
        "R-REFORM-1",
        refused,
        "reason 7, about nobody",
    );
    player.send(
        &result(&job, 1, 0),
        "R-VALID-7",
        refused,
        "a RESULT is refused, too",
    );
    let old = ModelPacket {
        epoch: EPOCH - 1,
        ..contribution(&job, 1, 0)
    };
    player.send(&old, "R-VALID-6", "refused_old_epoch", "an old epoch comes first");
    let odd = ModelPacket {
        slot: 9,
        ..contribution(&job, 1, 0)
    };
    player.send(&odd, "R-VALID-7", refused, "the slot is not looked at");
    // Member 1 has gone; member 2 is number 1 now.
    let mut smaller = workers(2);
    smaller.epoch = Some(EPOCH + 3);
    smaller.members[1].address = job.members[2].address;
    player.admit(&smaller);
    let part = |member, chunk| ModelPacket {
        epoch: EPOCH + 3,
        ..resent(contribution(&smaller, member, chunk))
    };
    let before = resent(contribution(&job, 0, 0));
    player.send(
        &before,
        "R-VALID-6",
        "refused_old_epoch",
        "member 0 has not heard of it",
    );
    let gone = ModelPacket {
        epoch: EPOCH + 3,
        ..contribution(&job, 1, 0)
    };
    let address = job.members[1].address;
    player.send_bytes(
        address,
        gone.emit(),
        "R-VALID-4",
        "dropped_wrong_source",
        "who was member 1 is no more",
    );
    player.send(
        &part(0, 0),
        "R-REFORM-2",
        merged,
        "member 0 sends again: the slot is empty",
    );
    player.send(&part(0, 0), "R-SLOT-4", "wants_sent", "and asks");
    let whole = ModelPacket {
        epoch: EPOCH + 3,
        ..result(&job, 1, 0)
    };
    player.send(
        &whole,
        "R-SLOT-2",
        "slots_restored",
        "the new member 1 had the result, of three workers",
    );
    player.send(&part(1, 1), "R-SLOT-0", merged, "slot 1: member 1");
    player.send(
        &part(0, 1),
        "R-SLOT-7",
        "slots_completed",
        "it is complete with two",
    );
    player.suspend(KEY);
    player.abort(KEY, 4, 0);
    player.send(
        &part(0, 2),
        "R-VALID-7",
        "refused_job_aborted",
        "that it is aborted comes before that it re-forms",
    );
    player.finish()
}

/// R-VALID-6 and R-EPOCH-2.
pub fn epochs() -> Trace {
    let job = workers(2);
    let epoch = 0x8000_0000;
    let about = "an aggregator that was restarted: members learn its epoch from refusals and send again";
    let mut player = Player::new("epochs", about, epoch, std::slice::from_ref(&job));
    let part = |member, epoch| ModelPacket {
        epoch,
        scale: Some(3),
        ..contribution(&job, member, 2)
    };
    let (refused, dropped) = ("refused_old_epoch", "dropped_wrong_epoch");
    player.send(
        &part(0, epoch - 1),
        "R-VALID-6",
        refused,
        "the epoch before: a refusal with the current one",
    );
    player.send(
        &resent(part(1, 0)),
        "R-VALID-6",
        refused,
        "epoch 0 is older too: epochs do not wrap around",
    );
    player.send(
        &part(1, epoch + 1),
        "R-VALID-6",
        dropped,
        "a newer epoch is nobody's",
    );
    player.send(&part(1, u32::MAX), "R-VALID-6", dropped, "the newest of all too");
    let odd = ModelPacket {
        slot: 9,
        set: [5].into(),
        rest: vec![1, 2, 3],
        ..part(1, epoch - 1)
    };
    player.send(
        &odd,
        "R-VALID-6",
        refused,
        "an old epoch is refused before the set, the slot and the length are looked at",
    );
    let whole = ModelPacket {
        epoch: epoch - 1,
        ..result(&job, 1, 2)
    };
    player.send(&whole, "R-VALID-6", refused, "a RESULT of an old epoch");
    player.send(
        &resent(part(0, epoch)),
        "R-EPOCH-3",
        "contributions_merged",
        "member 0 has moved and sends again",
    );
    player.send(
        &resent(part(1, epoch)),
        "R-SLOT-7",
        "slots_completed",
        "member 1 too: the result is of the new epoch",
    );
    player.finish()
}

/// Jobs share nothing.
pub fn two_jobs() -> Trace {
    let first = workers(2);
    // The same members in another order.
    let mut second = JobLine {
        key: Word(KEY + 1),
        window: 4,
        ..workers(2)
    };
    second.members.swap(0, 1);
    for (member, number) in second.members.iter_mut().zip(0..) {
        member.set = Word(1 << number);
    }
    let about = "two jobs of the same two addresses, the second with a larger window and other numbers";
    let mut player = Player::new("two-jobs", about, EPOCH, &[first.clone(), second.clone()]);
    let merged = "contributions_merged";
    player.send(
        &contribution(&first, 0, 1),
        "R-SLOT-0",
        merged,
        "the first job, slot 1",
    );
    player.send(
        &contribution(&second, 0, 1),
        "R-VALID-2",
        merged,
        "the second job, slot 1: not the same slot",
    );
    let foreign = first.members[0].address;
    let packet = contribution(&second, 0, 1).emit();
    player.send_bytes(
        foreign,
        packet,
        "R-VALID-4",
        "dropped_wrong_source",
        "who is member 0 of the first job is member 1 of the second",
    );
    player.send(
        &contribution(&second, 1, 1),
        "R-SLOT-7",
        "slots_completed",
        "the second job is complete",
    );
    let far = ModelPacket {
        slot: 3,
        ..contribution(&second, 1, 1)
    };
    player.send(
        &far,
        "R-SLOT-0",
        merged,
        "slot 3 is in the window of the second job",
    );
    let far = ModelPacket {
        slot: 3,
        ..contribution(&first, 1, 1)
    };
    player.send(
        &far,
        "R-VALID-8",
        "dropped_bad_slot",
        "and not in that of the first",
    );
    player.send(
        &contribution(&first, 1, 1),
        "R-SLOT-7",
        "slots_completed",
        "the first job is complete",
    );
    player.finish()
}

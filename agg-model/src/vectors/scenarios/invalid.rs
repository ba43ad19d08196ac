//! Packets that reach no slot (R-VALID).

use std::net::{Ipv4Addr, SocketAddrV4};

use super::{EPOCH, contribution, resent, result, workers};
use crate::ModelPacket;
use crate::checksum::seal;
use crate::packet::{HEADER, REFUSAL, WANT};
use crate::vectors::{JobLine, Player, Trace};

/// A packet with one byte of its header changed, and its check made right again if `sealed`.
fn changed(packet: &ModelPacket, at: usize, byte: u8, sealed: bool) -> Vec<u8> {
    let mut bytes = packet.emit();
    bytes[at] = byte;
    if let (true, Some(header)) = (sealed, bytes.first_chunk_mut::<HEADER>()) {
        seal(header);
    }
    bytes
}

/// Every check in turn, by packets that fail no other; in the end the slot is as it was.
pub fn each_check() -> Trace {
    let job = workers(3);
    let about =
        "packets that fail one check each; the contribution that was there before is all that the slot holds";
    let mut player = Player::new("invalid", about, EPOCH, std::slice::from_ref(&job));
    let good = contribution(&job, 1, 0);
    player.send(
        &contribution(&job, 0, 0),
        "R-SLOT-0",
        "contributions_merged",
        "a good packet",
    );
    not_packets(&mut player, &job, &good);
    not_members(&mut player, &job, &good);
    not_contributions(&mut player, &job, &good);
    player.send(
        &good,
        "R-SLOT-3",
        "contributions_merged",
        "member 1, at last as it should be",
    );
    player.send(
        &contribution(&job, 2, 0),
        "R-SLOT-7",
        "slots_completed",
        "member 2 completes: nothing else was summed",
    );
    player.finish()
}

/// R-VALID-1.
fn not_packets(player: &mut Player, job: &JobLine, good: &ModelPacket) {
    let from = job.members[1].address;
    let (length, foreign, check) = (
        "dropped_bad_length",
        "dropped_not_tributary",
        "dropped_bad_checksum",
    );
    for (bytes, counter, about) in [
        (Vec::new(), length, "an empty datagram (the frame has padding)"),
        (
            good.emit()[..HEADER - 1].to_vec(),
            length,
            "one byte short of a header",
        ),
        (changed(good, 0, 0x52, true), foreign, "another magic, first byte"),
        (
            changed(good, 1, 0x54, true),
            foreign,
            "another magic, second byte",
        ),
        (changed(good, 2, 2, true), foreign, "version 2"),
        (changed(good, 2, 0, true), foreign, "version 0"),
        (changed(good, 3, 0, true), foreign, "kind 0"),
        (changed(good, 3, 4, true), foreign, "kind 4"),
        (changed(good, 4, 0x41, true), foreign, "an unknown flag, bit 6"),
        (changed(good, 4, 0x81, true), foreign, "an unknown flag, bit 7"),
        (
            changed(good, 20, 2, false),
            check,
            "a round that was damaged on the way",
        ),
        (
            changed(good, 55, good.emit()[55] ^ 0x80, false),
            check,
            "a check that was damaged itself",
        ),
        (
            changed(good, 3, 4, false),
            check,
            "an unknown kind under a wrong check: the check comes first",
        ),
        (
            changed(good, 2, 2, false),
            foreign,
            "another version under a wrong check: the version comes first",
        ),
    ] {
        player.send_bytes(from, bytes, "R-VALID-1", counter, about);
    }
}

/// R-VALID-2 to R-VALID-4.
fn not_members(player: &mut Player, job: &JobLine, good: &ModelPacket) {
    let own = job.members[1].address;
    let keyed = |key| ModelPacket { key, ..good.clone() };
    player.send(
        &keyed(good.key ^ 1 << 63),
        "R-VALID-2",
        "dropped_unknown_job",
        "a key that differs in its last bit",
    );
    player.send(&keyed(0), "R-VALID-2", "dropped_unknown_job", "the key 0");
    let source = "dropped_wrong_source";
    for (member, about) in [
        (3, "there is no member 3"),
        (64, "nor 64"),
        (255, "255 is an aggregator"),
    ] {
        let packet = ModelPacket {
            member,
            ..good.clone()
        };
        player.send_bytes(own, packet.emit(), "R-VALID-3", source, about);
    }
    let far = Ipv4Addr::new(10, 78, 0, 12);
    for (address, about) in [
        (SocketAddrV4::new(*own.ip(), own.port() + 1), "another port"),
        (
            SocketAddrV4::new(*own.ip(), own.port().swap_bytes()),
            "the port with its bytes swapped",
        ),
        (SocketAddrV4::new(far, own.port()), "another address"),
        (job.members[2].address, "the address of another member"),
    ] {
        player.send_bytes(address, good.emit(), "R-VALID-4", source, about);
    }
}

/// R-VALID-5, R-VALID-8 and R-VALID-9; R-VALID-6 and R-VALID-7 have traces of their own.
fn not_contributions(player: &mut Player, job: &JobLine, good: &ModelPacket) {
    let (direction, set) = ("dropped_wrong_direction", "dropped_forbidden_set");
    let (slot, length) = ("dropped_bad_slot", "dropped_bad_length");
    let whole = result(job, 1, 0);
    let with = |change: fn(&mut ModelPacket)| {
        let mut packet = good.clone();
        change(&mut packet);
        packet
    };
    for (packet, rule, counter, about) in [
        (
            with(|p| p.up = false),
            "R-VALID-5",
            direction,
            "a contribution without UP",
        ),
        (
            ModelPacket {
                up: false,
                ..whole.clone()
            },
            "R-VALID-5",
            direction,
            "a result as aggregators send them",
        ),
        (with(|p| p.kind = WANT), "R-VALID-5", direction, "a Want with UP"),
        (
            with(|p| p.kind = REFUSAL),
            "R-VALID-5",
            direction,
            "a refusal with UP",
        ),
        (
            with(|p| p.set = [2].into()),
            "R-VALID-8",
            set,
            "the set of another member",
        ),
        (
            with(|p| p.set = [1, 2].into()),
            "R-VALID-8",
            set,
            "more than its set",
        ),
        (with(|p| p.set.clear()), "R-VALID-8", set, "an empty set"),
        (
            with(|p| p.workers = 2),
            "R-VALID-8",
            set,
            "more workers than it has",
        ),
        (with(|p| p.workers = 0), "R-VALID-8", set, "no workers"),
        (
            with(|p| p.slot = 2),
            "R-VALID-8",
            slot,
            "the first slot outside the window",
        ),
        (with(|p| p.slot = 0x0100), "R-VALID-8", slot, "slot 256"),
        (
            ModelPacket {
                slot: 2,
                ..whole.clone()
            },
            "R-VALID-8",
            slot,
            "a RESULT for a slot outside the window",
        ),
        (
            with(|p| p.rest.clear()),
            "R-VALID-9",
            length,
            "no values and no HEADER_ONLY",
        ),
        (
            with(|p| p.rest.truncate(60)),
            "R-VALID-9",
            length,
            "one value short",
        ),
        (
            with(|p| p.rest.truncate(63)),
            "R-VALID-9",
            length,
            "one byte short",
        ),
        (with(|p| p.rest.push(0)), "R-VALID-9", length, "one byte more"),
        (
            with(|p| p.rest.extend([0; 4])),
            "R-VALID-9",
            length,
            "one value more",
        ),
        (
            with(|p| p.header_only = true),
            "R-VALID-9",
            length,
            "HEADER_ONLY with values",
        ),
        (
            ModelPacket {
                rest: vec![0; 8],
                ..whole
            },
            "R-VALID-9",
            length,
            "a RESULT with too few values",
        ),
    ] {
        player.send(&packet, rule, counter, about);
    }
}

/// What fails several checks shows the first of them.
pub fn order_of_checks() -> Trace {
    let job = workers(2);
    let about = "packets that fail several checks: the first one counts";
    let mut player = Player::new("invalid-order", about, EPOCH, std::slice::from_ref(&job));
    let own = job.members[1].address;
    let stranger = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 9), 4601);
    // Wrong in all ways, and then one less from step to step.
    let mut packet = ModelPacket {
        key: 1,
        member: 9,
        kind: WANT,
        epoch: EPOCH - 1,
        set: [4].into(),
        slot: 77,
        ..resent(contribution(&job, 1, 0))
    };
    packet.rest.truncate(7);
    let mut step = |packet: &ModelPacket, from, rule, counter, about| {
        player.send_bytes(from, packet.emit(), rule, counter, about);
    };
    step(
        &packet,
        stranger,
        "R-VALID-2",
        "dropped_unknown_job",
        "everything is wrong: the key comes first",
    );
    packet.key = job.key.0;
    step(
        &packet,
        stranger,
        "R-VALID-3",
        "dropped_wrong_source",
        "then the member",
    );
    packet.member = 1;
    step(
        &packet,
        stranger,
        "R-VALID-4",
        "dropped_wrong_source",
        "then the source: a stranger is not even refused",
    );
    step(
        &packet,
        own,
        "R-VALID-5",
        "dropped_wrong_direction",
        "then the kind",
    );
    packet.kind = 1;
    step(&packet, own, "R-VALID-6", "refused_old_epoch", "then the epoch");
    packet.epoch = EPOCH;
    step(&packet, own, "R-VALID-8", "dropped_forbidden_set", "then the set");
    packet.set = [1].into();
    step(&packet, own, "R-VALID-8", "dropped_bad_slot", "then the slot");
    packet.slot = 1;
    step(&packet, own, "R-VALID-9", "dropped_bad_length", "then the length");
    let last = contribution(&job, 1, 0);
    player.send(
        &last,
        "R-SLOT-0",
        "contributions_merged",
        "and nothing is left of all that",
    );
    player.finish()
}

//! Packets as a member would send them, and what [`Oddity`] makes of them.

use crate::checksum::seal;
use crate::harness::random::Random;
use crate::harness::step::{Contribution, Oddity};
use crate::packet::{DATA, HEADER, ModelPacket, members, to_bytes};
use crate::{ModelJob, Source};

/// Where a contribution is meant to go.
pub struct Sender<'a> {
    /// The job.
    pub job: &'a ModelJob,
    /// The slot.
    pub slot: u16,
    /// The round.
    pub round: u32,
    /// The keys of all jobs.
    pub keys: Vec<u64>,
}

/// The bytes of a contribution with its oddities, and where they come from.
pub fn forge(contribution: &Contribution, sender: &Sender<'_>, epoch: u32) -> (Vec<u8>, Source) {
    let job = sender.job;
    let pick = |number: u8| usize::from(number) % job.members.len();
    let number = pick(contribution.member);
    let member = &job.members[number];
    let mut source = member.source;
    // What members must agree on follows from the round, so that they do: every third round is header-only.
    let mut packet = ModelPacket {
        kind: DATA,
        up: true,
        result: false,
        resend: contribution.resend,
        nonfinite: false,
        header_only: sender.round.is_multiple_of(3),
        member: number as u8,
        slot: sender.slot,
        key: job.key,
        epoch,
        round: sender.round,
        set: member.set.clone(),
        workers: member.workers,
        scale: Some((sender.round % 5) as i16),
        next: Some(i16::from(contribution.next)),
        op: 2 << 56 | 1000,
        op_seq: 7,
        rest: Vec::new(),
    };
    let mut afterwards = Vec::new();
    for oddity in &contribution.oddities {
        match *oddity {
            Oddity::Result => {
                packet.result = true;
                packet.set = job.expected();
                packet.workers = job
                    .members
                    .iter()
                    .fold(0, |workers, member| workers.wrapping_add(member.workers));
            }
            Oddity::Down => packet.up = false,
            Oddity::Kind(kind) => packet.kind = kind % 5,
            Oddity::Flags(flags) => {
                packet.up ^= flags & 1 != 0;
                packet.result ^= flags & 2 != 0;
                packet.resend ^= flags & 4 != 0;
                packet.nonfinite ^= flags & 8 != 0;
                packet.header_only ^= flags & 16 != 0;
            }
            Oddity::Member(member) => packet.member = member,
            Oddity::SetOf(other) => {
                packet.set = job.members[pick(other)].set.clone();
                packet.workers = job.members[pick(other)].workers;
            }
            Oddity::Set(set) => packet.set = members(set),
            Oddity::Workers(workers) => packet.workers = workers,
            Oddity::JobKey(other) => packet.key = sender.keys[usize::from(other) % sender.keys.len()],
            Oddity::Key(key) => packet.key = key,
            Oddity::SourceOf(other) => source = job.members[pick(other)].source,
            Oddity::Port(port) => source.1 = port,
            Oddity::Epoch(by) => packet.epoch = epoch.wrapping_add_signed(i32::from(by)),
            Oddity::Op(op) => packet.op ^= u64::from(op),
            Oddity::OpSeq(op_seq) => packet.op_seq ^= u32::from(op_seq),
            Oddity::Scale(scale) => packet.scale = (scale != i16::MIN).then_some(scale),
            Oddity::Next(next) => packet.next = (next != i16::MIN).then_some(next),
            Oddity::NonFinite => packet.nonfinite = true,
            Oddity::OtherShape => packet.header_only ^= true,
            Oddity::Slot(slot) => packet.slot = slot,
            Oddity::Shorter(_) | Oddity::Longer(_) | Oddity::Flip(_) | Oddity::Wrong(_) => {
                afterwards.push(*oddity)
            }
        }
    }
    if !packet.header_only {
        packet.rest = to_bytes(&Random::new(u64::from(contribution.values)).integers(job.lanes));
    }
    let mut bytes = packet.emit();
    for oddity in afterwards {
        damage(&mut bytes, oddity);
    }
    (bytes, source)
}

/// What becomes of the bytes once they are written.
fn damage(bytes: &mut Vec<u8>, oddity: Oddity) {
    match oddity {
        Oddity::Shorter(by) => bytes.truncate(bytes.len() - usize::from(by) % (bytes.len() + 1)),
        Oddity::Longer(by) => bytes.resize(bytes.len() + usize::from(by), 0x5a),
        Oddity::Flip(bit) if !bytes.is_empty() => {
            let at = usize::from(bit) / 8 % bytes.len();
            bytes[at] ^= 1 << (bit % 8);
        }
        Oddity::Wrong(bit) => {
            if let Some(header) = bytes.first_chunk_mut::<HEADER>() {
                header[usize::from(bit) / 8 % HEADER] ^= 1 << (bit % 8);
                seal(header);
            }
        }
        _ => {}
    }
}

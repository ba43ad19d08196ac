//! Packets as a member would send them, and what [`Oddity`] makes of them.

use std::collections::BTreeSet;

use crate::checksum::seal;
use crate::harness::random::Random;
use crate::harness::step::{Contribution, Down, Oddity, Says};
use crate::kind::{ElementKind, ModelKind, Op};
use crate::packet::{DATA, HEADER, ModelPacket, REFUSAL, WANT, members, to_bytes};
use crate::probe::PROBE;
use crate::{ModelJob, Source};

/// Where a packet is meant to go.
pub struct Sender<'a> {
    /// The job.
    pub job: &'a ModelJob,
    /// The slot.
    pub slot: u16,
    /// The round.
    pub round: u32,
    /// All jobs.
    pub jobs: Vec<&'a ModelJob>,
}

impl Sender<'_> {
    /// What members must agree on follows from the round, so that they do: every third round is header-only, every
    /// fourth one of an operation that waits for all under a quorum, too: a sum, minimum or maximum.
    fn packet(&self) -> ModelPacket {
        let round = self.round;
        let reduce = |op, element, bits| ModelKind::Reduce { op, element, bits };
        let kind = match round % 24 {
            2 => ModelKind::SUM_I32,
            6 => reduce(Op::Min, ElementKind::I32, 32),
            10 => reduce(Op::Max, ElementKind::I32, 32),
            14 => reduce(Op::Min, ElementKind::F16, 32),
            18 => reduce(Op::Max, ElementKind::F32, 32),
            22 => ModelKind::Barrier,
            1 => reduce(Op::Avg, ElementKind::Bf16, 8),
            3 => reduce(Op::Sum, ElementKind::F32, 16),
            _ => ModelKind::SUM_F32,
        };
        ModelPacket {
            kind: DATA,
            up: false,
            result: false,
            resend: false,
            nonfinite: false,
            header_only: round.is_multiple_of(3),
            congested: false,
            member: 255,
            slot: self.slot,
            key: self.job.key,
            epoch: self.job.epoch,
            round,
            set: BTreeSet::new(),
            workers: 0,
            scale: Some((round % 5) as i16),
            next: None,
            op: kind.tag(1000),
            op_seq: 7,
            rest: Vec::new(),
        }
    }
}

/// The bytes of a contribution with its oddities, and where they come from.
pub fn forge(contribution: &Contribution, sender: &Sender<'_>) -> (Vec<u8>, Source) {
    let number = usize::from(contribution.member) % sender.job.members.len();
    let member = &sender.job.members[number];
    let packet = ModelPacket {
        up: true,
        resend: contribution.resend,
        member: number as u8,
        set: member.set.clone(),
        workers: member.workers,
        next: Some(i16::from(contribution.next)),
        congested: contribution.values % 5 == 4,
        ..sender.packet()
    };
    finish(
        packet,
        member.source,
        sender,
        contribution.values,
        &contribution.oddities,
    )
}

/// The bytes of what the job's parent says, with its oddities, and where they come from. Of a job without a parent
/// somebody else does.
pub fn forge_down(down: &Down, sender: &Sender<'_>) -> (Vec<u8>, Source) {
    let parent = sender.job.parent;
    let source = parent.map_or(([0xfe; 16], 1), |parent| parent.source);
    let plain = ModelPacket {
        epoch: parent.map_or(sender.job.epoch, |parent| parent.epoch),
        set: members(down.set),
        workers: down.set.count_ones(),
        next: Some(i16::from(down.values) - 128),
        ..sender.packet()
    };
    let packet = match down.says {
        Says::Result => ModelPacket {
            result: true,
            congested: down.values % 5 == 4,
            ..plain
        },
        Says::Want => ModelPacket {
            kind: WANT,
            header_only: false,
            ..plain
        },
        Says::Refusal(reason) => ModelPacket {
            kind: REFUSAL,
            header_only: false,
            scale: Some(i16::from(reason)),
            ..plain
        },
    };
    finish(packet, source, sender, down.values, &down.oddities)
}

fn finish(
    mut packet: ModelPacket,
    mut source: Source,
    sender: &Sender<'_>,
    values: u8,
    oddities: &[Oddity],
) -> (Vec<u8>, Source) {
    let job = sender.job;
    let epoch = packet.epoch;
    let pick = |number: u8| usize::from(number) % job.members.len();
    let other = |number: u8| sender.jobs[usize::from(number) % sender.jobs.len()];
    let mut afterwards = Vec::new();
    for oddity in oddities {
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
            Oddity::Kind(kind) => packet.kind = kind % 6,
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
            Oddity::JobKey(number) => packet.key = other(number).key,
            Oddity::Key(key) => packet.key = key,
            Oddity::SourceOf(other) => source = job.members[pick(other)].source,
            Oddity::SourceOfParent(number) => {
                source = other(number)
                    .parent
                    .or(job.parent)
                    .map_or(source, |parent| parent.source);
            }
            Oddity::EpochOfParent => packet.epoch = job.parent.map_or(epoch, |parent| parent.epoch),
            Oddity::Port(port) => source.1 = port,
            Oddity::Epoch(by) => packet.epoch = epoch.wrapping_add_signed(i32::from(by)),
            Oddity::Op(op) => packet.op ^= u64::from(op),
            Oddity::OpKind(kind) => packet.op ^= u64::from(kind) << 56,
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
    if [DATA, PROBE].contains(&packet.kind) && !packet.header_only {
        packet.rest = to_bytes(&Random::new(u64::from(values)).integers(job.lanes));
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

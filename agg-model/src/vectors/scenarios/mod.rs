//! The scenarios, a function each: what arrives, in words and as packets.

mod conflicts;
mod ends;
mod invalid;
mod kinds;
mod leaves;
mod loss;
mod marks;
mod quorum;
mod rounds;
mod sets;
mod spill;
mod sums;

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::ModelPacket;
use crate::harness::random::Random;
use crate::packet::{DATA, members, to_bytes};
use crate::vectors::text::Word;
use crate::vectors::{JobLine, MemberLine, Trace};

/// The key of a scenario's only job.
const KEY: u64 = 0x7b1d_0c5a_9e02_4f11;
/// The aggregator's epoch; not 0, so that there are older ones.
const EPOCH: u32 = 7;
/// Sums of i32 in the top byte of `op`.
const SUM_I32: u64 = 1 << 56;
/// Sums of f32.
const SUM_F32: u64 = 2 << 56;
/// Barriers.
const BARRIER: u64 = 3 << 56;
/// Minima of i32.
const MIN_I32: u64 = 0xa0 << 56;

/// Every trace.
pub fn all() -> Vec<Trace> {
    vec![
        sums::integers(),
        sums::floats(),
        marks::marks(),
        sums::wide("sum-256-lanes", 256),
        sums::wide("sum-352-lanes", 352),
        sums::not_finite(),
        sums::barrier(),
        kinds::min_and_max(),
        kinds::narrow(),
        kinds::quorum(),
        kinds::spilled(),
        kinds::unknown(),
        loss::resends_and_wants(),
        loss::replays(),
        loss::restoration(),
        rounds::recycled_and_stale(),
        sets::supersets_and_overlaps(),
        conflicts::operations(),
        conflicts::scales(),
        ends::aborted(),
        ends::epochs(),
        ends::two_jobs(),
        ends::reformed(),
        leaves::forward_and_result(),
        leaves::resends(),
        leaves::wants(),
        leaves::refusals(),
        leaves::smallest(),
        quorum::release(),
        quorum::grace(),
        quorum::history(),
        quorum::removed(),
        spill::put_and_recall(),
        spill::store_lost(),
        spill::evicted_result(),
        invalid::each_check(),
        invalid::order_of_checks(),
    ]
}

/// A member that is one worker.
fn worker(number: u8) -> MemberLine {
    child(number, 1 << number, 1)
}

/// A member that stands for several workers.
fn child(number: u8, set: u64, workers: u32) -> MemberLine {
    let ip = Ipv4Addr::new(10, 77, 0, 11 + number);
    MemberLine {
        address: SocketAddrV4::new(ip, 5000 + u16::from(number)),
        set: Word(set),
        workers,
    }
}

/// A job with a window of two small chunks.
fn job(members: Vec<MemberLine>) -> JobLine {
    JobLine {
        key: Word(KEY),
        lanes: 16,
        window: 2,
        members,
        epoch: None,
        generations: None,
        quorum: None,
        parent: None,
        frames: None,
    }
}

/// A job of single workers.
fn workers(count: u8) -> JobLine {
    job((0..count).map(worker).collect())
}

/// What a member sends for a chunk of a sum of i32.
fn contribution(job: &JobLine, member: u8, chunk: u64) -> ModelPacket {
    let seed = u64::from(member) << 48 | chunk;
    let values = Random::new(seed + 1).integers(usize::from(job.lanes));
    let sender = &job.members[usize::from(member)];
    ModelPacket {
        kind: DATA,
        up: true,
        result: false,
        resend: false,
        nonfinite: false,
        header_only: false,
        congested: false,
        member,
        slot: (chunk % u64::from(job.window)) as u16,
        key: job.key.0,
        epoch: EPOCH,
        // R-CHUNK-1: modulo 2^32.
        round: (chunk / u64::from(job.window)) as u32,
        set: members(sender.set.0),
        workers: sender.workers,
        scale: None,
        next: None,
        op: SUM_I32 | 1000,
        op_seq: 3,
        rest: to_bytes(&values),
    }
}

/// The same, sent once more.
fn resent(packet: ModelPacket) -> ModelPacket {
    ModelPacket {
        resend: true,
        ..packet
    }
}

/// The result of a chunk as a member sends it up that has it (R-WANT-1).
fn result(job: &JobLine, member: u8, chunk: u64) -> ModelPacket {
    let all = job.members.iter().fold(0, |set, member| set | member.set.0);
    let workers = members(all).len() as u32;
    ModelPacket {
        result: true,
        set: members(all),
        workers,
        ..contribution(job, member, chunk)
    }
}

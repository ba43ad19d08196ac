//! A job and its packets.

use agg_core::round::GENERATIONS;
use agg_core::wire::{Flags, Header, Kind};
use agg_core::{
    Endpoint, Epoch, Exponent, Job, JobConfig, Lanes, MAX_MEMBERS, Member, MemberSet, OpKind, Operation,
    Policy, Round,
};

/// The job's key.
pub const KEY: u64 = 0x5eed_0000_0000_0001;

/// The aggregator's epoch.
pub const EPOCH: Epoch = Epoch(2);

/// The address that a member sends from.
pub fn endpoint(member: u8) -> Endpoint {
    let mut ip = [0; 16];
    ip[15] = member;
    Endpoint {
        ip,
        port: 4000 + u16::from(member),
    }
}

/// A job with every member that one can have.
pub fn job(lanes: Lanes, window: u16) -> JobConfig {
    let member = |member| Member {
        source: endpoint(member),
        set: MemberSet::single(member),
        workers: 1,
    };
    JobConfig {
        key: KEY,
        epoch: EPOCH,
        members: (0..MAX_MEMBERS as u8).map(member).collect(),
        lanes,
        window,
        generations: GENERATIONS,
        policy: Policy::All,
        parent: None,
        frames: None,
    }
}

/// What an aggregator knows of such a job when it runs: what a merge alone is given.
pub fn running(window: u16) -> Job {
    Job {
        epoch: EPOCH,
        expected: MemberSet::first(MAX_MEMBERS as u8),
        excluded: MemberSet::EMPTY,
        late: MemberSet::EMPTY,
        window,
        generations: GENERATIONS,
        policy: Policy::All,
        parent: None,
        spills: false,
        suspended: false,
        abort: None,
    }
}

/// The header of a member's contribution.
pub fn header(member: u8, slot: u16, round: u32) -> Header {
    Header {
        kind: Kind::Data,
        flags: Flags::UP,
        member,
        slot,
        key: KEY,
        epoch: EPOCH,
        round: Round(round),
        set: MemberSet::single(member),
        workers: 1,
        scale: Exponent(-3),
        next: Exponent(i16::from(member) - 32),
        op: Operation {
            kind: OpKind::SUM_F32,
            elements: 1 << 20,
        }
        .tag(),
        op_seq: 7,
    }
}

/// A packet of this header with `lanes` values.
pub fn packet(header: &Header, lanes: usize) -> Vec<u8> {
    let values = (0..lanes as u32).map(|lane| lane.wrapping_mul(0x9e37_79b9) >> 8);
    let mut bytes = header.emit().to_vec();
    bytes.extend(values.flat_map(u32::to_le_bytes));
    bytes
}

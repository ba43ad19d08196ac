//! The job that is measured, and its members' packets.

use std::net::SocketAddr;

use agg_core::wire::{Flags, Header, Kind};
use agg_core::{
    Endpoint, Epoch, Exponent, JobConfig, Lanes, Member, MemberSet, OpKind, Operation, Policy, Round,
};

pub const KEY: u64 = 0xbe7c;
pub const EPOCH: Epoch = Epoch(1);
pub const MEMBERS: u8 = 4;
pub const WINDOW: u16 = 64;

/// A job of workers, each at the address of its number.
pub fn job(lanes: Lanes, address: impl Fn(u8) -> SocketAddr) -> JobConfig {
    let member = |number| Member {
        source: Endpoint::from(address(number)),
        set: MemberSet::single(number),
        workers: 1,
    };
    JobConfig {
        key: KEY,
        epoch: EPOCH,
        members: (0..MEMBERS).map(member).collect(),
        lanes,
        window: WINDOW,
        generations: 2,
        policy: Policy::All,
        parent: None,
        frames: None,
    }
}

/// The header of a member's contribution.
pub fn header(round: Round, slot: u16, member: u8) -> Header {
    let operation = Operation {
        kind: OpKind::SUM_I32,
        elements: 1 << 20,
    };
    Header {
        kind: Kind::Data,
        flags: Flags::UP,
        member,
        slot,
        key: KEY,
        epoch: EPOCH,
        round,
        set: MemberSet::single(member),
        workers: 1,
        scale: Exponent(0),
        next: Exponent::NONE,
        op: operation.tag(),
        op_seq: 1,
    }
}

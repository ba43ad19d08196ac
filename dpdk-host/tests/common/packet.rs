//! A small job and its members' packets.

use std::net::SocketAddrV4;

use agg_model::packet::{DATA, ModelPacket};
use agg_model::vectors::text::Word;
use agg_model::vectors::{JobLine, MemberLine};

pub const KEY: u64 = 77;
pub const EPOCH: u32 = 5;

/// A job of workers at these addresses.
pub fn job(lanes: u16, window: u16, members: impl Iterator<Item = SocketAddrV4>) -> JobLine {
    let member = |(number, address)| MemberLine {
        address,
        set: Word(1_u64 << number),
        workers: 1,
    };
    JobLine {
        key: Word(KEY),
        lanes,
        window,
        members: (0..64_u32).zip(members).map(member).collect(),
        epoch: None,
        generations: None,
        quorum: None,
        parent: None,
        frames: None,
    }
}

/// What a member contributes to a slot of its first round.
pub fn contribution(number: u8, slot: u16, values: Vec<u8>) -> ModelPacket {
    ModelPacket {
        kind: DATA,
        up: true,
        result: false,
        resend: false,
        nonfinite: false,
        header_only: false,
        congested: false,
        member: number,
        slot,
        key: KEY,
        epoch: EPOCH,
        round: 0,
        set: [number].into(),
        workers: 1,
        scale: Some(0),
        next: Some(0),
        // A sum of i32.
        op: 1 << 56 | 1000,
        op_seq: 0,
        rest: values,
    }
}

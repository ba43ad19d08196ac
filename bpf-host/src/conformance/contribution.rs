//! A packet of a job's first member.

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind};
use agg_core::{Epoch, Exponent, MemberSet, Round};

/// Its contribution to round 1 of slot 0, with values or, if the flags say so, without.
pub(super) fn contribution(key: u64, flags: Flags, lanes: usize) -> Vec<u8> {
    let header = Header {
        kind: Kind::Data,
        flags: Flags::UP.with(flags),
        member: 0,
        slot: 0,
        key,
        epoch: Epoch(1),
        round: Round(1),
        set: MemberSet(1),
        workers: 1,
        scale: Exponent(0),
        next: Exponent(0),
        op: 1 << 56 | 1000,
        op_seq: 0,
    };
    let mut packet = header.emit().to_vec();
    packet.resize(HEADER_LEN + header.payload_len(lanes), 7);
    packet
}

//! The real packet reader against the model's.

use agg_core::wire::{Flags, HEADER_LEN, Header, Invalid, Kind};

use crate::packet::{DATA, REFUSAL, WANT, members};
use crate::{ModelPacket, Unreadable};

/// Core and model read the same from these bytes, and each writes what it read back as it was. Panics otherwise.
pub fn agree(bytes: &[u8]) {
    match (Header::split(bytes), ModelPacket::parse(bytes)) {
        (Ok((header, rest)), Ok(packet)) => {
            assert_eq!(header.emit().as_slice(), &bytes[..HEADER_LEN], "the core's emit");
            assert_eq!(packet.emit(), bytes, "the model's emit");
            assert_eq!(as_model(&header, rest), packet, "left: core, right: model");
        }
        (Err(Invalid::Length), Err(Unreadable::Short)) => {}
        (Err(Invalid::Magic | Invalid::Version | Invalid::Kind), Err(Unreadable::Foreign)) => {}
        (Err(Invalid::Checksum), Err(Unreadable::Check)) => {}
        (core, model) => panic!("core {core:?}, model {model:?}"),
    }
}

/// What the core read, field by field.
fn as_model(header: &Header, rest: &[u8]) -> ModelPacket {
    let flag = |flag| header.flags.has(flag);
    let exponent = |exponent: i16| (exponent != i16::MIN).then_some(exponent);
    ModelPacket {
        kind: match header.kind {
            Kind::Data => DATA,
            Kind::Want => WANT,
            Kind::Refusal => REFUSAL,
        },
        up: flag(Flags::UP),
        result: flag(Flags::RESULT),
        resend: flag(Flags::RESEND),
        nonfinite: flag(Flags::NONFINITE),
        header_only: flag(Flags::HEADER_ONLY),
        congested: flag(Flags::CONGESTED),
        member: header.member,
        slot: header.slot,
        key: header.key,
        epoch: header.epoch.0,
        round: header.round.0,
        set: members(header.set.0),
        workers: header.workers,
        scale: exponent(header.scale.0),
        next: exponent(header.next.0),
        op: header.op,
        op_seq: header.op_seq,
        rest: rest.to_vec(),
    }
}

//! Any bytes at all give a header or a reason; `emit` is the inverse of `parse`.
#![no_main]

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind};
use agg_core::{Epoch, Exponent, MemberSet, Round};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|packet: &[u8]| {
    if let Ok((header, values)) = Header::split(packet) {
        assert_eq!(header.emit(), packet[..HEADER_LEN]);
        assert_eq!(values, &packet[HEADER_LEN..]);
    }
    // Few inputs guess the check sum. As fields, the same bytes get past it.
    if let Some(bytes) = packet.first_chunk() {
        let header = from_fields(bytes);
        assert_eq!(Header::parse(&header.emit()), Ok(header));
    }
});

fn from_fields(bytes: &[u8; HEADER_LEN]) -> Header {
    let mut rest = &bytes[..];
    let mut u64 = || {
        let (word, tail) = rest.split_first_chunk().expect("seven words are in a header");
        rest = tail;
        u64::from_le_bytes(*word)
    };
    let (small, numbers) = (u64(), u64());
    let all = [
        Flags::UP,
        Flags::RESULT,
        Flags::RESEND,
        Flags::NONFINITE,
        Flags::HEADER_ONLY,
    ];
    let chosen = all
        .into_iter()
        .enumerate()
        .map(|(bit, flag)| flag.when(small >> bit & 1 == 1));
    Header {
        kind: [Kind::Data, Kind::Want, Kind::Refusal][(small >> 8) as usize % 3],
        flags: chosen.fold(Flags::NONE, Flags::with),
        member: (small >> 16) as u8,
        slot: (small >> 32) as u16,
        key: u64(),
        epoch: Epoch(numbers as u32),
        round: Round((numbers >> 32) as u32),
        set: MemberSet(u64()),
        workers: (small >> 40) as u32,
        scale: Exponent((small >> 24) as i16),
        next: Exponent((small >> 48) as i16),
        op: u64(),
        op_seq: u64() as u32,
    }
}

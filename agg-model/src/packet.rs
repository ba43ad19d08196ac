//! A packet, read and written by the byte offsets of the document's table (R-WIRE-1, R-WIRE-2).

use std::collections::BTreeSet;

use crate::checksum::{checksum, seal};

/// Bytes of a header.
pub const HEADER: usize = 56;
/// The `kind` of contributions and results.
pub const DATA: u8 = 1;
/// The `kind` of a Want.
pub const WANT: u8 = 2;
/// The `kind` of a refusal.
pub const REFUSAL: u8 = 3;
/// The `member` of packets from an aggregator.
pub const FROM_AGGREGATOR: u8 = 255;

/// A packet, field by field.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the document's table says what each field is")]
pub struct ModelPacket {
    pub kind: u8,
    pub up: bool,
    pub result: bool,
    pub resend: bool,
    pub nonfinite: bool,
    pub header_only: bool,
    pub congested: bool,
    pub member: u8,
    pub slot: u16,
    pub key: u64,
    pub epoch: u32,
    pub round: u32,
    pub set: BTreeSet<u8>,
    pub workers: u32,
    /// `None` is the −32768 of the wire.
    pub scale: Option<i16>,
    /// `None` is the −32768 of the wire.
    pub next: Option<i16>,
    pub op: u64,
    pub op_seq: u32,
    /// What follows the header, as it is.
    pub rest: Vec<u8>,
}

/// Why bytes are not a packet (R-VALID-1), the first check that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// Shorter than a header.
    Short,
    /// Another magic, version or kind, or an unknown flag.
    Foreign,
    /// The check does not match.
    Check,
}

impl ModelPacket {
    /// Reads a packet. How many bytes follow the header is not checked here: that depends on the job.
    pub fn parse(bytes: &[u8]) -> Result<Self, Unreadable> {
        if bytes.len() < HEADER {
            return Err(Unreadable::Short);
        }
        let number = |offset: usize, len: usize| -> u64 {
            (0..len)
                .map(|position| u64::from(bytes[offset + position]) << (8 * position))
                .sum()
        };
        if bytes[0] != 0x54 || bytes[1] != 0x52 || bytes[2] != 1 {
            return Err(Unreadable::Foreign);
        }
        let mut header = [0; HEADER];
        header.copy_from_slice(&bytes[..HEADER]);
        if number(52, 4) != u64::from(checksum(&header)) {
            return Err(Unreadable::Check);
        }
        let (kind, flags) = (bytes[3], bytes[4]);
        if ![DATA, WANT, REFUSAL].contains(&kind) || flags >= 64 {
            return Err(Unreadable::Foreign);
        }
        let flag = |bit: u32| flags & (1 << bit) != 0;
        Ok(Self {
            kind,
            up: flag(0),
            result: flag(1),
            resend: flag(2),
            nonfinite: flag(3),
            header_only: flag(4),
            congested: flag(5),
            member: bytes[5],
            slot: number(6, 2) as u16,
            key: number(8, 8),
            epoch: number(16, 4) as u32,
            round: number(20, 4) as u32,
            set: members(number(24, 8)),
            workers: number(32, 4) as u32,
            scale: exponent(number(36, 2) as u16),
            next: exponent(number(38, 2) as u16),
            op: number(40, 8),
            op_seq: number(48, 4) as u32,
            rest: bytes[HEADER..].to_vec(),
        })
    }

    /// The packet's bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut header = [0; HEADER];
        let mut put = |offset: usize, len: usize, number: u64| {
            for position in 0..len {
                header[offset + position] = (number >> (8 * position)) as u8;
            }
        };
        put(0, 1, 0x54);
        put(1, 1, 0x52);
        put(2, 1, 1);
        put(3, 1, u64::from(self.kind));
        let flags = [
            self.up,
            self.result,
            self.resend,
            self.nonfinite,
            self.header_only,
            self.congested,
        ];
        put(4, 1, (0..6).map(|bit| u64::from(flags[bit]) << bit).sum());
        put(5, 1, u64::from(self.member));
        put(6, 2, u64::from(self.slot));
        put(8, 8, self.key);
        put(16, 4, u64::from(self.epoch));
        put(20, 4, u64::from(self.round));
        put(24, 8, bits(&self.set));
        put(32, 4, u64::from(self.workers));
        put(36, 2, u64::from(self.scale.unwrap_or(-32768) as u16));
        put(38, 2, u64::from(self.next.unwrap_or(-32768) as u16));
        put(40, 8, self.op);
        put(48, 4, u64::from(self.op_seq));
        seal(&mut header);
        [header.as_slice(), &self.rest].concat()
    }

    /// The same without any flag, and without what follows the header.
    pub fn without_flags(&self) -> Self {
        Self {
            up: false,
            result: false,
            resend: false,
            nonfinite: false,
            header_only: false,
            congested: false,
            rest: Vec::new(),
            ..self.clone()
        }
    }

    /// The values behind the header if they are what R-VALID-9 asks: none where `header_only`, else `lanes`.
    pub fn values(&self, lanes: usize) -> Option<Vec<i32>> {
        let count = if self.header_only { 0 } else { lanes };
        if self.rest.len() != 4 * count {
            return None;
        }
        Some(
            self.rest
                .chunks(4)
                .map(|lane| i32::from_le_bytes([lane[0], lane[1], lane[2], lane[3]]))
                .collect(),
        )
    }
}

/// Values as they lie on the wire.
pub fn to_bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The members that a set's 64 bits name.
pub fn members(bits: u64) -> BTreeSet<u8> {
    (0..64).filter(|member| bits & (1 << member) != 0).collect()
}

/// A set's 64 bits.
pub fn bits(members: &BTreeSet<u8>) -> u64 {
    members.iter().map(|member| 1 << member).sum()
}

fn exponent(wire: u16) -> Option<i16> {
    (wire != 0x8000).then_some(wire as i16)
}

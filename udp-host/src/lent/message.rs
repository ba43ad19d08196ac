//! What a host and a lender of memory say to each other: one UDP datagram a message, all little-endian.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | `54 53 01`, then the kind: 1 put, 2 kept, 3 get, 4 sum, 5 end, 6 missing |
//! | 4 | 4 | the place |
//! | 8 | 8 | the job's key |
//! | 16 | 8 | the set |
//! | 24 | 4 | the round |
//! | 28 | 4 | 0 |
//! | 32 | | of put and sum the values, 4 bytes each |

use agg_core::{MemberSet, Round};

pub(super) const HEADER: usize = 32;
const MAGIC: [u8; 3] = [b'T', b'S', 1];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// To the lender: keep these values.
    Put = 1,
    /// From the lender: they are kept.
    Kept = 2,
    /// To the lender: give them back.
    Get = 3,
    /// From the lender: here they are.
    Sum = 4,
    /// To the lender: the job is over.
    End = 5,
    /// From the lender: it does not have this sum.
    Missing = 6,
}

/// Which sum a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) key: u64,
    pub(super) place: u32,
    pub(super) round: Round,
    pub(super) set: MemberSet,
}

impl Message {
    pub(super) fn header(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..3].copy_from_slice(&MAGIC);
        bytes[3] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.place.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.set.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.round.0.to_le_bytes());
        bytes
    }

    /// The message and the bytes of its values; `None` for anything else.
    pub(super) fn parse(packet: &[u8]) -> Option<(Self, &[u8])> {
        let (header, values) = packet.split_first_chunk::<HEADER>()?;
        if header[..3] != MAGIC {
            return None;
        }
        let kind = match header[3] {
            1 => Kind::Put,
            2 => Kind::Kept,
            3 => Kind::Get,
            4 => Kind::Sum,
            5 => Kind::End,
            6 => Kind::Missing,
            _ => return None,
        };
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let has_values = matches!(kind, Kind::Put | Kind::Sum);
        if values.is_empty() == has_values || !values.len().is_multiple_of(4) {
            return None;
        }
        let message = Self {
            kind,
            key: long(8),
            place: word(4),
            round: Round(word(24)),
            set: MemberSet(long(16)),
        };
        Some((message, values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written_and_others_are_not() {
        let message = Message {
            kind: Kind::Put,
            key: 0x0102_0304_0506_0708,
            place: 77,
            round: Round(u32::MAX),
            set: MemberSet(1 << 63 | 5),
        };
        let mut packet = message.header().to_vec();
        assert_eq!(Message::parse(&packet), None, "a put without values");
        packet.extend([1, 2, 3, 4]);
        assert_eq!(Message::parse(&packet), Some((message, &[1, 2, 3, 4][..])));
        packet.push(0);
        assert_eq!(Message::parse(&packet), None);
        assert_eq!(Message::parse(b"TR\x01\x01"), None);
    }
}

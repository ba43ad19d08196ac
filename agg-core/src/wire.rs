//! The packet: a header of 56 bytes, then either nothing or one chunk of values (docs/protocol.md, "Packet").
//!
//! A [`Header`] is the typed form; [`Header::parse`] is total (any bytes at all give a header or an [`Invalid`])
//! and [`Header::emit`] is its inverse. Everything is little-endian.

mod probe;

use bytemuck::{Pod, Zeroable};

pub use self::probe::Probe;
use crate::{Counter, Epoch, Exponent, MemberSet, OpKind, Round, operation};

/// Bytes of a header. A multiple of 8, so that the values behind it are aligned as the header is.
pub const HEADER_LEN: usize = 56;

/// The first two bytes of each packet.
pub const MAGIC: [u8; 2] = *b"TR";

/// The version of the wire format; any other is dropped.
pub const VERSION: u8 = 1;

/// The field [`Header::member`] of a packet that comes from an aggregator.
pub const NO_MEMBER: u8 = u8::MAX;

/// Bytes of a data packet with `lanes` values.
pub const fn packet_len(lanes: usize) -> usize {
    HEADER_LEN + 4 * lanes
}

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A contribution going up, or a result.
    Data,
    /// An aggregator asks for what is missing in a slot.
    Want,
    /// An aggregator refuses what it was sent; [`Header::scale`] holds the [`Refusal`].
    Refusal,
}

/// What the network has said of a packet in its IP header (RFC 3168). All packets are sent as ECN-capable, ECT(0).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Ecn {
    /// Nothing.
    #[default]
    Clear,
    /// It met a long queue on its way: "congestion experienced".
    Congested,
}

impl Ecn {
    /// ECN-capable transport, ECT(0): the two low bits of the IPv4 TOS or the IPv6 traffic class of what is sent.
    pub const ECT_0: u8 = 0b10;

    /// Of a packet that was marked or was not.
    #[inline(always)]
    pub const fn marked(congested: bool) -> Self {
        if congested { Self::Congested } else { Self::Clear }
    }

    /// What an IPv4 TOS or an IPv6 traffic class says.
    #[inline(always)]
    pub const fn from_traffic_class(class: u8) -> Self {
        Self::marked(class & 0b11 == 0b11)
    }
}

/// Facts about a packet that can hold together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Towards the root. Only packets with this flag are ever answered (R-SLOT-1).
    pub const UP: Self = Self(1);
    /// The values are a finished result, not a contribution (R-SLOT-2).
    pub const RESULT: Self = Self(2);
    /// Sent before (R-SLOT-4).
    pub const RESEND: Self = Self(4);
    /// A value was NaN or infinite (R-NUM-6).
    pub const NONFINITE: Self = Self(8);
    /// No values follow: the chunk carries exponents or a barrier only (R-OP-2).
    pub const HEADER_ONLY: Self = Self(16);
    /// A contribution that is held was marked on its way: a queue was long (R-ECN-2).
    pub const CONGESTED: Self = Self(32);

    const KNOWN: u8 = 63;

    /// Whether all of `other`'s flags are set.
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of flags.
    #[inline(always)]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `self` where `condition` holds, else none.
    #[inline(always)]
    pub const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// The flags that both have.
    #[inline(always)]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl core::fmt::Debug for Flags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = [
            (Self::UP, "UP"),
            (Self::RESULT, "RESULT"),
            (Self::RESEND, "RESEND"),
            (Self::NONFINITE, "NONFINITE"),
            (Self::HEADER_ONLY, "HEADER_ONLY"),
            (Self::CONGESTED, "CONGESTED"),
        ];
        f.debug_set()
            .entries(
                names
                    .iter()
                    .filter(|(flag, _)| self.has(*flag))
                    .map(|(_, name)| name),
            )
            .finish()
    }
}

/// Why an aggregator refuses a packet, as a number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Refusal {
    /// The slot was opened by another operation: the ranks disagree on what they reduce (R-OP-4).
    Operation = 1,
    /// The slot was opened with another scale (R-NUM-4): a defect in a worker.
    Scale = 2,
    /// The packet is of an older epoch; the refusal carries the current one (R-EPOCH-2).
    Epoch = 3,
    /// The job was aborted: a rank was lost. [`Header::member`] names it.
    LostMember = 4,
    /// The job was aborted: a rank gave up or left. [`Header::member`] names it.
    MemberFailed = 5,
    /// The job was ended by the aggregator's operator.
    Ended = 6,
    /// The members are to register again (R-REFORM-1): no failure.
    Reform = 7,
    /// This member was removed from the job: it was not heard for too long (R-QUORUM-5).
    Excluded = 8,
}

impl Refusal {
    /// The refusal with this number on the wire.
    pub const fn from_wire(number: i16) -> Option<Self> {
        Some(match number {
            1 => Self::Operation,
            2 => Self::Scale,
            3 => Self::Epoch,
            4 => Self::LostMember,
            5 => Self::MemberFailed,
            6 => Self::Ended,
            7 => Self::Reform,
            8 => Self::Excluded,
            _ => return None,
        })
    }

    /// The number on the wire.
    #[inline(always)]
    pub const fn to_wire(self) -> i16 {
        self as u8 as i16
    }
}

/// Why bytes are not a packet (R-VALID-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Invalid {
    /// Shorter than a header, or values missing or left over.
    Length,
    /// Does not start with [`MAGIC`].
    Magic,
    /// Not [`VERSION`].
    Version,
    /// A kind or a flag that this version does not define.
    Kind,
    /// The header's checksum does not match: it was corrupted on the way.
    Checksum,
}

impl Invalid {
    /// What dropping such bytes counts as.
    #[inline(always)]
    pub const fn counter(self) -> Counter {
        match self {
            Self::Length => Counter::DroppedLength,
            Self::Magic | Self::Version | Self::Kind => Counter::DroppedForeign,
            Self::Checksum => Counter::DroppedChecksum,
        }
    }
}

/// The header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// What the packet is.
    pub kind: Kind,
    /// Facts about it.
    pub flags: Flags,
    /// The member that sends it. Where an aggregator does, [`NO_MEMBER`] or the member it is about: in a refusal who is to
    /// blame, in a result whose contribution completed it (R-SLOT-7).
    pub member: u8,
    /// The slot, below the job's window.
    pub slot: u16,
    /// The job's random key.
    pub key: u64,
    /// The aggregator's epoch.
    pub epoch: Epoch,
    /// The slot's round.
    pub round: Round,
    /// The members whose values are held.
    pub set: MemberSet,
    /// How many workers those members stand for.
    pub workers: u32,
    /// The exponent that the values were scaled with; in a refusal its number.
    pub scale: Exponent,
    /// The exponent needed for the chunk that depends on this one (R-NUM-3).
    pub next: Exponent,
    /// What operation the chunk belongs to, as [`crate::Operation::tag`] gives it.
    pub op: u64,
    /// The operation's number in its job.
    pub op_seq: u32,
}

/// The header as it lies on the wire; the offsets are in docs/protocol.md.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Raw {
    magic: [u8; 2],
    version: u8,
    kind: u8,
    flags: u8,
    member: u8,
    slot: u16,
    key: u64,
    epoch: u32,
    round: u32,
    set: u64,
    workers: u32,
    scale: i16,
    next: i16,
    op: u64,
    op_seq: u32,
    check: u32,
}

impl Raw {
    /// The checksum of the header (R-WIRE-3), the check field itself taken as zero.
    ///
    /// Each step is a bijection of the 64-bit state, so that a change within one word always shows in the state;
    /// 64-bit multiply and shift are all that it needs, which eBPF has too.
    #[inline(always)]
    fn checksum(mut self) -> u32 {
        self.check = 0;
        let words: [u64; HEADER_LEN / 8] = bytemuck::must_cast(self);
        let mut state = 0x243f_6a88_85a3_08d3_u64;
        for word in words {
            state = (state ^ u64::from_le(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            state ^= state >> 32;
        }
        state as u32
    }
}

impl Header {
    /// Reads a header (R-VALID-1). The length of the packet is the caller's to check: it depends on the job.
    #[inline(always)]
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Self, Invalid> {
        Self::validate(bytes)?;
        Ok(Self::read(bytes))
    }

    /// Whether bytes are a header. With [`Self::read`] the two halves of [`Self::parse`] for the hot paths: where a
    /// `Result<Header, Invalid>` takes shape, the error shares bytes with a field, which compilers then store in parts
    /// and load as a whole; that stalls for as long as the whole checksum takes.
    #[inline(always)]
    pub(crate) fn validate(bytes: &[u8; HEADER_LEN]) -> Result<(), Invalid> {
        let raw: Raw = bytemuck::must_cast(*bytes);
        if raw.magic != MAGIC {
            return Err(Invalid::Magic);
        }
        if raw.version != VERSION {
            return Err(Invalid::Version);
        }
        if u32::from_le(raw.check) != raw.checksum() {
            return Err(Invalid::Checksum);
        }
        if !matches!(raw.kind, 1..=3) || raw.flags & !Flags::KNOWN != 0 {
            return Err(Invalid::Kind);
        }
        Ok(())
    }

    /// The job's key in bytes that are known to be a header: for who addresses what was made here.
    #[inline(always)]
    pub fn key_in(bytes: &[u8; HEADER_LEN]) -> u64 {
        let raw: Raw = bytemuck::must_cast(*bytes);
        u64::from_le(raw.key)
    }

    /// The header that valid bytes are.
    #[inline(always)]
    pub(crate) fn read(bytes: &[u8; HEADER_LEN]) -> Self {
        let raw: Raw = bytemuck::must_cast(*bytes);
        Self {
            kind: match raw.kind {
                1 => Kind::Data,
                2 => Kind::Want,
                _ => Kind::Refusal,
            },
            flags: Flags(raw.flags & Flags::KNOWN),
            member: raw.member,
            slot: u16::from_le(raw.slot),
            key: u64::from_le(raw.key),
            epoch: Epoch(u32::from_le(raw.epoch)),
            round: Round(u32::from_le(raw.round)),
            set: MemberSet(u64::from_le(raw.set)),
            workers: u32::from_le(raw.workers),
            scale: Exponent(i16::from_le(raw.scale)),
            next: Exponent(i16::from_le(raw.next)),
            op: u64::from_le(raw.op),
            op_seq: u32::from_le(raw.op_seq),
        }
    }

    /// The header's bytes.
    #[inline(always)]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut raw = Raw {
            magic: MAGIC,
            version: VERSION,
            kind: match self.kind {
                Kind::Data => 1,
                Kind::Want => 2,
                Kind::Refusal => 3,
            },
            flags: self.flags.0,
            member: self.member,
            slot: self.slot.to_le(),
            key: self.key.to_le(),
            epoch: self.epoch.0.to_le(),
            round: self.round.0.to_le(),
            set: self.set.0.to_le(),
            workers: self.workers.to_le(),
            scale: self.scale.0.to_le(),
            next: self.next.0.to_le(),
            op: self.op.to_le(),
            op_seq: self.op_seq.to_le(),
            check: 0,
        };
        raw.check = raw.checksum().to_le();
        bytemuck::must_cast(raw)
    }

    /// Whether the operation's kind is one that this version knows: else lanes would be combined as nobody meant (R-VALID-8).
    #[inline(always)]
    pub const fn has_known_operation(&self) -> bool {
        OpKind::from_wire(operation::kind_of(self.op)).is_some()
    }

    /// The header of a packet that arrived so: with [`Flags::CONGESTED`] where it was marked (R-ECN-2).
    #[inline(always)]
    pub const fn arrived(mut self, ecn: Ecn) -> Self {
        self.flags = self
            .flags
            .with(Flags::CONGESTED.when(matches!(ecn, Ecn::Congested)));
        self
    }

    /// Bytes that must follow this header in a job with `lanes` values a chunk (R-VALID-9).
    #[inline(always)]
    pub const fn payload_len(&self, lanes: usize) -> usize {
        if matches!(self.kind, Kind::Data) && !self.flags.has(Flags::HEADER_ONLY) {
            4 * lanes
        } else {
            0
        }
    }

    /// Splits a packet into its header and what follows.
    #[inline(always)]
    pub fn split(packet: &[u8]) -> Result<(Self, &[u8]), Invalid> {
        let Some((head, rest)) = packet.split_first_chunk::<HEADER_LEN>() else {
            return Err(Invalid::Length);
        };
        Ok((Self::parse(head)?, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            kind: Kind::Data,
            flags: Flags::UP.with(Flags::RESEND),
            member: 3,
            slot: 0x1234,
            key: 0x0102_0304_0506_0708,
            epoch: Epoch(9),
            round: Round(0xffff_fffe),
            set: MemberSet(8),
            workers: 1,
            scale: Exponent(-7),
            next: Exponent::NONE,
            op: 0x0200_0000_0000_03e8,
            op_seq: 77,
        }
    }

    #[test]
    fn wire_1_offsets_are_those_of_the_document() {
        let bytes = sample().emit();
        assert_eq!(&bytes[0..8], &[b'T', b'R', 1, 1, 0b101, 3, 0x34, 0x12]);
        assert_eq!(&bytes[8..16], &[8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(&bytes[16..24], &[9, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(
            &bytes[24..40],
            &[8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0xf9, 0xff, 0, 0x80]
        );
        assert_eq!(&bytes[40..52], &[0xe8, 3, 0, 0, 0, 0, 0, 2, 77, 0, 0, 0]);
    }

    #[test]
    fn parse_inverts_emit() {
        assert_eq!(Header::parse(&sample().emit()), Ok(sample()));
        assert_eq!(Header::key_in(&sample().emit()), sample().key);
    }

    #[test]
    fn wire_3_every_changed_bit_is_noticed() {
        let good = sample().emit();
        for bit in 0..HEADER_LEN * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn short_packets_have_no_header() {
        let good = sample().emit();
        for len in 0..HEADER_LEN {
            assert_eq!(Header::split(&good[..len]).map(|_| ()), Err(Invalid::Length));
        }
    }
}

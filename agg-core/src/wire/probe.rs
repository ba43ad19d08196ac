//! A probe: a packet that asks whether its length gets to an aggregator and back (R-PROBE).

use super::{Flags, HEADER_LEN, MAGIC, NO_MEMBER, Raw, VERSION, packet_len};
use crate::{Counter, Epoch, Lanes};

/// The `kind` of a probe. No [`Header`](super::Header) has it: where slots are, it is a foreign packet.
const KIND: u8 = 4;

/// A probe. Behind its header are zeros, as many bytes as a chunk of some size has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Probe {
    /// A question, to be answered; else the answer.
    pub is_question: bool,
    /// A random number by which who asked knows the answer. No job has it as its key.
    pub key: u64,
    /// The epoch with which the aggregator started.
    pub epoch: Epoch,
}

impl Probe {
    /// Reads a probe's header; `None` for any other packet.
    #[inline(always)]
    pub fn read(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let raw: Raw = bytemuck::must_cast(*bytes);
        let is_probe = raw.magic == MAGIC
            && raw.version == VERSION
            && raw.kind == KIND
            && matches!(Flags(raw.flags), Flags::NONE | Flags::UP)
            && u32::from_le(raw.check) == raw.checksum();
        is_probe.then(|| Self {
            is_question: Flags(raw.flags) == Flags::UP,
            key: u64::from_le(raw.key),
            epoch: Epoch(u32::from_le(raw.epoch)),
        })
    }

    /// What an aggregator that started with `epoch` answers, where this has come in a packet of `len` bytes, and of which chunk
    /// size (R-PROBE-2).
    ///
    /// # Errors
    /// It is to be dropped, and that is what it counts as.
    #[inline(always)]
    pub fn answer(&self, epoch: Epoch, len: usize) -> Result<(Self, Lanes), Counter> {
        if !self.is_question {
            return Err(Counter::DroppedDirection);
        }
        if self.epoch != epoch {
            return Err(Counter::DroppedEpoch);
        }
        let lanes = Self::lanes_of(len).ok_or(Counter::DroppedLength)?;
        let answer = Self {
            is_question: false,
            ..*self
        };
        Ok((answer, lanes))
    }

    /// Its header.
    #[inline(always)]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut raw = Raw {
            magic: MAGIC,
            version: VERSION,
            kind: KIND,
            flags: Flags::UP.when(self.is_question).0,
            member: NO_MEMBER,
            key: self.key.to_le(),
            epoch: self.epoch.0.to_le(),
            ..bytemuck::Zeroable::zeroed()
        };
        raw.check = raw.checksum().to_le();
        bytemuck::must_cast(raw)
    }

    /// Writes the probe of the length that a packet with these lanes has, and returns that; `None`: it does not fit.
    pub fn write(&self, lanes: Lanes, out: &mut [u8]) -> Option<usize> {
        let len = packet_len(lanes.count());
        let (front, rest) = out.get_mut(..len)?.split_first_chunk_mut::<HEADER_LEN>()?;
        *front = self.emit();
        rest.fill(0);
        Some(len)
    }

    /// The chunk size that a probe of so many bytes asks for (R-PROBE-1).
    #[inline(always)]
    pub fn lanes_of(len: usize) -> Option<Lanes> {
        Lanes::ALL
            .into_iter()
            .find(|lanes| packet_len(lanes.count()) == len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Header, Invalid};

    #[test]
    fn probe_1_what_is_written_is_read_and_is_no_other_packet() {
        for is_question in [true, false] {
            let probe = Probe {
                is_question,
                key: 0x0102_0304_0506_0708,
                epoch: Epoch(9),
            };
            let mut out = [0xff; 2000];
            assert_eq!(probe.write(Lanes::L352, &mut out), Some(1464));
            let front = out.first_chunk().unwrap();
            assert_eq!(Probe::read(front), Some(probe));
            assert_eq!(Header::parse(front), Err(Invalid::Kind));
            assert_eq!((front[3], front[4], front[5]), (4, u8::from(is_question), 255));
            assert!(out[HEADER_LEN..1464].iter().all(|byte| *byte == 0));
            assert!(out[1464..].iter().all(|byte| *byte == 0xff));
            for bit in 0..HEADER_LEN * 8 {
                let mut damaged = *front;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Probe::read(&damaged), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn only_lengths_of_chunks_are_those_of_probes() {
        let lengths: heapless::Vec<usize, 8> = (0..=40_000)
            .filter(|len| Probe::lanes_of(*len).is_some())
            .collect();
        assert_eq!(lengths, [120, 1080, 1464, 3448, 8248, 32824]);
    }
}

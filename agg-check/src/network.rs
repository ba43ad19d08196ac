//! The network: a set of packets.
//!
//! A packet that was sent once can arrive from then on at any time, any number of times, or never. That is loss,
//! duplication and reordering at once, without bounds on any of them, and the set stays finite since contributions
//! are immutable (R-NUM-5): what is sent again is what was sent before.

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind, NO_MEMBER, Refusal};
use agg_core::{Epoch, Exponent, MemberSet, Round};

use crate::member::KEY;
use crate::scenario::Pace;
use crate::topology::Party;

/// A packet on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Packet {
    /// Whose address it comes from.
    pub from: Party,
    /// Whose address it goes to.
    pub to: Party,
    /// The datagram.
    pub bytes: Vec<u8>,
}

/// What must have the same bits wherever it is: the result of a slot and round, or what a store was given of it from these
/// members.
pub type Chunk = (u16, Round, Option<MemberSet>);

impl Packet {
    /// A sum that the store of an aggregator was given. From then on the store can say that it keeps it, and give it back, at
    /// any time and any number of times, or never: one packet stands for both answers.
    pub fn kept(node: usize, slot: u16, round: Round, set: MemberSet, values: &[i32]) -> Self {
        let header = Header {
            kind: Kind::Data,
            flags: Flags::NONE,
            member: NO_MEMBER,
            slot,
            key: KEY,
            epoch: Epoch(0),
            round,
            set,
            workers: 0,
            scale: Exponent::NONE,
            next: Exponent::NONE,
            op: 0,
            op_seq: 0,
        };
        let mut bytes = header.emit().to_vec();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        Self {
            from: Party::Store(node),
            to: Party::Node(node),
            bytes,
        }
    }

    /// Its values.
    pub fn values(&self) -> Vec<i32> {
        let lanes = self.bytes[HEADER_LEN..].as_chunks::<4>().0.iter();
        lanes.map(|lane| i32::from_le_bytes(*lane)).collect()
    }

    /// Its header; what is explored never damages packets.
    pub fn header(&self) -> Header {
        Header::split(&self.bytes).expect("packets are not damaged").0
    }

    /// What stands for all packets that do the same to a worker, whatever its state.
    ///
    /// Workers here take packets from any aggregator. A Want's set words an error and spares a needless resend, which
    /// where hosts are prompt is in the network already; else only whether this worker is in the set matters. Refusals
    /// of an old epoch are told apart by the epoch that they tell. [`crate::world::World::verify_classes`] tries every
    /// packet of a class on every state that one of them met, so this is checked.
    pub fn class(&self, pace: Pace, announces: bool) -> Self {
        let header = self.header();
        let is_result = is_result(&header);
        let Party::Worker(number) = self.to else {
            let mut packet = self.clone();
            if is_result && !matches!(self.from, Party::Store(_)) {
                packet.bytes = self.without_way(header);
            }
            return packet;
        };
        let class = |bytes: Vec<u8>| Self {
            from: self.to,
            to: self.to,
            bytes,
        };
        let (set, next, workers) = (MemberSet::EMPTY, Exponent::NONE, 0);
        let reduced = match (header.kind, Refusal::from_wire(header.scale.0)) {
            (Kind::Want, _) => {
                let matters = match pace {
                    // What went ahead is sent again by timers only once its operation runs, but by Wants before.
                    _ if announces => MemberSet(u64::MAX),
                    Pace::Prompt => MemberSet::EMPTY,
                    Pace::Batched => MemberSet::single(number as u8),
                };
                let set = MemberSet(header.set.0 & matters.0);
                Header {
                    set,
                    workers,
                    next,
                    ..header
                }
            }
            (Kind::Refusal, Some(Refusal::Epoch | Refusal::Reform)) => Header {
                slot: 0,
                round: Round(0),
                set,
                workers,
                next,
                op: 0,
                op_seq: 0,
                ..header
            },
            _ if is_result => return class(self.without_way(header)),
            _ => return class(self.bytes.clone()),
        };
        class(reduced.emit().to_vec())
    }

    /// Of a result on its way down, or a sum at a store: what it is of, and what all that are of this must have in common,
    /// which are all bits but the epoch and, where it depends on the way, the set.
    pub fn result(&self, sets_vary: bool) -> Option<(Chunk, Vec<u8>)> {
        let header = self.header();
        if matches!(self.from, Party::Store(_)) {
            return Some(((header.slot, header.round, Some(header.set)), self.bytes.clone()));
        }
        if !is_result(&header) {
            return None;
        }
        let set = if sets_vary { MemberSet::EMPTY } else { header.set };
        let common = Header {
            epoch: Epoch(0),
            set,
            ..header
        };
        Some(((header.slot, header.round, None), self.without_way(common)))
    }

    /// The same without what a result says of its way (R-SLOT-7, R-SLOT-1), which only paces sending.
    fn without_way(&self, header: Header) -> Vec<u8> {
        let lasting = Flags::RESULT.with(Flags::NONFINITE).with(Flags::HEADER_ONLY);
        let common = Header {
            member: NO_MEMBER,
            flags: header.flags.and(lasting),
            ..header
        };
        [&common.emit(), &self.bytes[HEADER_LEN..]].concat()
    }
}

/// Whether a packet is a result on its way down.
fn is_result(header: &Header) -> bool {
    let flags = header.flags;
    header.kind == Kind::Data && flags.has(Flags::RESULT) && !flags.has(Flags::UP)
}

/// A class of packets, by its number in the world's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub u16);

const WORDS: usize = 8;

/// A set of packets, by class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Network([u64; WORDS]);

impl Network {
    /// Adds a packet; whether it is new.
    pub fn insert(&mut self, packet: ClassId) -> bool {
        let (word, bit) = (usize::from(packet.0) / 64, 1 << (packet.0 % 64));
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    /// Whether a packet of this class can arrive.
    pub fn contains(&self, packet: ClassId) -> bool {
        self.0[usize::from(packet.0) / 64] & (1 << (packet.0 % 64)) != 0
    }

    /// What is in this set and not in `other`.
    pub fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// What can arrive.
    pub fn iter(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let bits = (0..64).filter(move |bit| word & (1_u64 << bit) != 0);
            bits.map(move |bit| ClassId((index * 64 + bit) as u16))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_a_set() {
        let mut network = Network::default();
        let inserted = [511, 0, 64, 63, 64].map(|id| network.insert(ClassId(id)));
        assert_eq!(inserted, [true, true, true, true, false]);
        assert_eq!(
            network.iter().map(|id| id.0).collect::<Vec<_>>(),
            [0, 63, 64, 511]
        );
    }
}

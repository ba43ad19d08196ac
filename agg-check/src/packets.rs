//! The packets of one exploration, over all its states.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use agg_core::wire::{HEADER_LEN, Header, Kind};
use agg_core::{Epoch, Round};

use crate::network::{ClassId, Packet};
use crate::scenario::Pace;

/// A packet, by its number in the world's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PacketId(u32);

/// Every packet that was ever sent, its class, and every result.
#[derive(Debug)]
pub struct Packets {
    pace: Pace,
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<Packet, PacketId>,
    packets: Vec<(Arc<Packet>, ClassId)>,
    class_numbers: HashMap<Packet, ClassId>,
    classes: Vec<Class>,
    /// The first result seen of each slot and round, in whatever state: all others must have its bits.
    results: HashMap<(u16, Round), Vec<u8>>,
}

#[derive(Debug)]
struct Class {
    /// The first stands for all.
    packets: Vec<PacketId>,
    /// A result with other bits than another result of its chunk.
    disagrees: bool,
}

impl Packets {
    /// An empty table.
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            table: RwLock::default(),
        }
    }

    /// The number of a packet.
    pub fn number(&self, packet: Packet) -> PacketId {
        let mut table = self.table.write().expect("no panic under the lock");
        if let Some(number) = table.numbers.get(&packet) {
            return *number;
        }
        let number = PacketId(table.packets.len() as u32);
        let next = ClassId(u16::try_from(table.classes.len()).expect("more packets than a network holds"));
        let class = *table.class_numbers.entry(packet.class(self.pace)).or_insert(next);
        if class == next {
            table.classes.push(Class {
                packets: Vec::new(),
                disagrees: false,
            });
        }
        let disagrees = table.disagrees(&packet);
        let entry = &mut table.classes[usize::from(class.0)];
        entry.disagrees |= disagrees;
        entry.packets.push(number);
        table.packets.push((Arc::new(packet.clone()), class));
        table.numbers.insert(packet, number);
        number
    }

    /// The packet with this number.
    pub fn packet(&self, number: PacketId) -> Arc<Packet> {
        Arc::clone(&self.table.read().expect("no panic under the lock").packets[number.0 as usize].0)
    }

    /// The class of a packet.
    pub fn class(&self, number: PacketId) -> ClassId {
        self.table.read().expect("no panic under the lock").packets[number.0 as usize].1
    }

    /// The packet that stands for its class.
    pub fn first(&self, class: ClassId) -> PacketId {
        self.read(class, |class| class.packets[0])
    }

    /// Every packet of a class.
    pub fn all(&self, class: ClassId) -> Vec<PacketId> {
        self.read(class, |class| class.packets.clone())
    }

    /// Whether it is a result with other bits than another of its chunk.
    pub fn disagrees(&self, class: ClassId) -> bool {
        self.read(class, |class| class.disagrees)
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.table.read().expect("no panic under the lock").classes.len()
    }

    fn read<T>(&self, class: ClassId, look: impl FnOnce(&Class) -> T) -> T {
        look(&self.table.read().expect("no panic under the lock").classes[usize::from(class.0)])
    }
}

impl Table {
    /// Agreement: the result of a chunk has the same bits in every state of every history, of every epoch.
    fn disagrees(&mut self, packet: &Packet) -> bool {
        let header = packet.header();
        if !matches!(packet, Packet::Down { .. }) || header.kind != Kind::Data {
            return false;
        }
        let bits = [
            &Header {
                epoch: Epoch(0),
                ..header
            }
            .emit(),
            &packet.bytes()[HEADER_LEN..],
        ]
        .concat();
        let first = self
            .results
            .entry((header.slot, header.round))
            .or_insert_with(|| bits.clone());
        *first != bits
    }
}

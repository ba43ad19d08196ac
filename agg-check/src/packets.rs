//! The packets of one exploration, over all its states.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use crate::network::{Chunk, ClassId, Network, Packet};
use crate::scenario::{Pace, Scenario};
use crate::topology::Party;

/// A packet, by its number in the world's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PacketId(u32);

/// Every packet that was ever sent, its class, and every result.
#[derive(Debug)]
pub struct Packets {
    pace: Pace,
    announces: bool,
    /// The set of a result is left out where results are compared.
    sets_vary: bool,
    /// Results of a chunk are compared within a state only.
    results_vary: bool,
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<Packet, PacketId>,
    packets: Vec<(Arc<Packet>, ClassId)>,
    class_numbers: HashMap<Packet, ClassId>,
    classes: Vec<Class>,
    /// The first result seen of each slot and round, in whatever state: all others must have its bits.
    results: HashMap<Chunk, Vec<u8>>,
    /// Each sum that was given to the store of an aggregator.
    sums: HashMap<(Party, Chunk), PacketId>,
}

#[derive(Debug)]
struct Class {
    /// The first stands for all.
    packets: Vec<PacketId>,
    /// Of a result, what it is of and what it is.
    result: Option<(Chunk, Vec<u8>)>,
    /// A result with other bits than another result of its chunk.
    disagrees: bool,
}

impl Packets {
    /// An empty table.
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            pace: scenario.pace,
            announces: scenario.announces,
            sets_vary: scenario.sets_vary(),
            results_vary: scenario.results_vary(),
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
        let class = *table
            .class_numbers
            .entry(packet.class(self.pace, self.announces))
            .or_insert(next);
        if class == next {
            let result = packet.result(self.sets_vary);
            if let (Party::Store(_), Some((sum, _))) = (packet.from, &result) {
                table.sums.entry((packet.to, *sum)).or_insert(number);
            }
            let disagrees = match &result {
                Some((place, bits)) if !self.results_vary => table.disagrees(*place, bits),
                _ => false,
            };
            table.classes.push(Class {
                packets: Vec::new(),
                result,
                disagrees,
            });
        }
        let entry = &mut table.classes[usize::from(class.0)];
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

    /// Whether two of these are results of one chunk and differ, or one does from what no other history may differ from.
    pub fn any_disagrees(&self, network: &Network) -> bool {
        let table = self.table.read().expect("no panic under the lock");
        let mut classes = network.iter().map(|class| &table.classes[usize::from(class.0)]);
        if !self.results_vary {
            return classes.any(|class| class.disagrees);
        }
        let mut seen = HashMap::new();
        classes
            .filter_map(|class| class.result.as_ref())
            .any(|(place, bits)| *seen.entry(place).or_insert(bits) != bits)
    }

    /// A sum that the store of an aggregator was given, in whatever state.
    pub fn sum(&self, node: Party, sum: Chunk) -> Option<PacketId> {
        self.table
            .read()
            .expect("no panic under the lock")
            .sums
            .get(&(node, sum))
            .copied()
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
    /// Agreement: where there are no others in other histories, the result of a chunk has the same bits in every state.
    fn disagrees(&mut self, place: Chunk, bits: &[u8]) -> bool {
        *self.results.entry(place).or_insert_with(|| bits.to_vec()) != bits
    }
}

//! Which Ethernet addresses members and parents are reached by. The kernel knows nothing of this port, so they are asked for by
//! ARP.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agg_core::Nanos;
use agg_host::frame::Mac;

/// How often an address that is not known is asked for, in ns.
const ASK_AGAIN: Nanos = 100_000_000;

/// How often one that is known is asked for, in ns: its owner may have got another network card.
const REFRESH: Nanos = 10_000_000_000;

/// The network that the port is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The aggregator's address there.
    pub address: Ipv4Addr,
    /// Bits of the address that all of the network have in common.
    pub prefix: u8,
    /// Who passes on what goes elsewhere.
    pub gateway: Option<Ipv4Addr>,
}

impl Network {
    /// Who is to be given what goes to `to`; `None`: it is in another network, and there is no gateway.
    pub fn next_hop(&self, to: Ipv4Addr) -> Option<Ipv4Addr> {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(self.prefix.min(32)))
            .unwrap_or(0);
        let is_here = (u32::from(to) ^ u32::from(self.address)) & mask == 0;
        if is_here { Some(to) } else { self.gateway }
    }
}

#[derive(Debug, Clone, Copy)]
struct Neighbour {
    /// Which port he is at, and his address there.
    at: Option<(usize, Mac)>,
    /// When it is asked for again.
    ask: Nanos,
    /// Jobs that need it.
    users: usize,
}

/// What all shards know.
#[derive(Debug, Default)]
struct Shared {
    table: Mutex<HashMap<Ipv4Addr, Neighbour>>,
    /// Raised with each change of what the shards' copies have.
    changes: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Ipv4Addr, Neighbour>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// The Ethernet addresses of those that jobs' packets go to first, and the ports they are at. Nobody else's are kept. All shards
/// of a host know the same: each has a copy, so that no core waits for another while it sends.
#[derive(Debug)]
pub struct Neighbours {
    network: Network,
    shared: Arc<Shared>,
    /// The changes that are in the copy.
    seen: u64,
    known: HashMap<Ipv4Addr, (usize, Mac)>,
}

impl Neighbours {
    /// None so far.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            shared: Arc::default(),
            seen: 0,
            known: HashMap::new(),
        }
    }

    /// The same neighbours, for another shard.
    pub fn share(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            // Nothing is in the copy yet.
            seen: u64::MAX,
            known: HashMap::new(),
            ..*self
        }
    }

    /// The network that they are in.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Takes in what other shards have heard since.
    pub fn refresh(&mut self) {
        let changes = self.shared.changes.load(Ordering::Acquire);
        if changes != self.seen {
            // Before the table is looked at: what changes now is seen the next time.
            self.seen = changes;
            let table = self.shared.lock();
            let known = table
                .iter()
                .filter_map(|(who, neighbour)| Some((*who, neighbour.at?)));
            self.known = known.collect();
        }
    }

    /// From now on the way to `to` is needed once more.
    pub fn want(&mut self, to: Ipv4Addr) {
        if let Some(hop) = self.network.next_hop(to) {
            let mut table = self.shared.lock();
            let neighbour = table.entry(hop).or_insert(Neighbour {
                at: None,
                ask: 0,
                users: 0,
            });
            neighbour.users += 1;
        }
    }

    /// Whether it is needed.
    pub fn wants(&self, to: Ipv4Addr) -> bool {
        let hop = self.network.next_hop(to);
        hop.is_some_and(|hop| self.shared.lock().contains_key(&hop))
    }

    /// It is needed once less.
    pub fn release(&mut self, to: Ipv4Addr) {
        let Some(hop) = self.network.next_hop(to) else {
            return;
        };
        let mut table = self.shared.lock();
        if let Some(neighbour) = table.get_mut(&hop) {
            neighbour.users = neighbour.users.saturating_sub(1);
            if neighbour.users == 0 {
                table.remove(&hop);
                self.shared.changed();
            }
        }
    }

    /// Somebody says, at a port, which Ethernet address is his. It is kept if he is needed.
    pub fn learn(&mut self, who: Ipv4Addr, port: usize, mac: Mac, now: Nanos) {
        let mut table = self.shared.lock();
        if let Some(neighbour) = table.get_mut(&who) {
            neighbour.ask = now + REFRESH;
            if neighbour.at.replace((port, mac)) != Some((port, mac)) {
                self.shared.changed();
            }
        }
    }

    /// The port and the Ethernet address by which `to` is reached, as of the last [`Self::refresh`].
    pub fn at(&self, to: Ipv4Addr) -> Option<(usize, Mac)> {
        self.known.get(&self.network.next_hop(to)?).copied()
    }

    /// Who is to be asked for now: by this shard, since the others are not told to.
    pub fn due(&mut self, now: Nanos) -> Vec<Ipv4Addr> {
        let mut table = self.shared.lock();
        let due = table.iter_mut().filter(|(_, neighbour)| neighbour.ask <= now);
        let due = due.map(|(who, neighbour)| {
            neighbour.ask = now + ASK_AGAIN;
            *who
        });
        due.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
    const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
    const MAC: Mac = [2, 0, 0, 0, 0, 9];

    fn neighbours(gateway: Option<Ipv4Addr>) -> Neighbours {
        let address = HERE;
        Neighbours::new(Network {
            address,
            prefix: 24,
            gateway,
        })
    }

    fn at(neighbours: &mut Neighbours, to: Ipv4Addr) -> Option<(usize, Mac)> {
        neighbours.refresh();
        neighbours.at(to)
    }

    #[test]
    fn what_goes_elsewhere_goes_to_the_gateway() {
        let network = *neighbours(Some(GATEWAY)).network();
        assert_eq!(
            [PEER, FAR].map(|to| network.next_hop(to)),
            [Some(PEER), Some(GATEWAY)]
        );
        assert_eq!(neighbours(None).network().next_hop(FAR), None);
        let everywhere = Network { prefix: 0, ..network };
        assert_eq!(everywhere.next_hop(FAR), Some(FAR));
        let alone = Network {
            prefix: 32,
            ..network
        };
        assert_eq!(alone.next_hop(PEER), Some(GATEWAY));
    }

    #[test]
    fn only_who_is_needed_is_known_and_as_long_as_that() {
        let mut neighbours = neighbours(Some(GATEWAY));
        neighbours.learn(PEER, 0, MAC, 0);
        assert_eq!(at(&mut neighbours, PEER), None);
        neighbours.want(PEER);
        neighbours.want(PEER);
        neighbours.learn(PEER, 0, MAC, 0);
        neighbours.release(PEER);
        assert_eq!(at(&mut neighbours, PEER), Some((0, MAC)));
        neighbours.release(PEER);
        assert_eq!(at(&mut neighbours, PEER), None);
        neighbours.want(FAR);
        neighbours.learn(GATEWAY, 1, MAC, 0);
        assert_eq!(at(&mut neighbours, FAR), Some((1, MAC)));
    }

    #[test]
    fn the_unknown_are_asked_for_often_and_the_known_now_and_then() {
        let mut neighbours = neighbours(None);
        neighbours.want(PEER);
        let asked = |neighbours: &mut Neighbours, now| neighbours.due(now).len();
        assert_eq!(asked(&mut neighbours, 5), 1);
        assert_eq!(asked(&mut neighbours, 5 + ASK_AGAIN - 1), 0);
        assert_eq!(asked(&mut neighbours, 5 + ASK_AGAIN), 1);
        neighbours.learn(PEER, 0, MAC, 10);
        assert_eq!(asked(&mut neighbours, 10 + REFRESH - 1), 0);
        assert_eq!(asked(&mut neighbours, 10 + REFRESH), 1);
        assert_eq!(
            at(&mut neighbours, PEER),
            Some((0, MAC)),
            "until he says otherwise"
        );
    }

    #[test]
    fn what_one_shard_hears_all_know_and_one_asks() {
        let mut one = neighbours(None);
        one.want(PEER);
        let mut other = one.share();
        other.want(PEER);
        assert_eq!((one.due(5), other.due(5)), (vec![PEER], Vec::new()));
        other.learn(PEER, 1, MAC, 6);
        assert_eq!([at(&mut one, PEER), at(&mut other, PEER)], [Some((1, MAC)); 2]);
        assert_eq!(
            at(&mut one.share(), PEER),
            Some((1, MAC)),
            "also one that comes later"
        );
        assert!(one.due(5 + ASK_AGAIN).is_empty(), "it was heard of");
        one.learn(PEER, 0, MAC, 7);
        assert_eq!(
            at(&mut other, PEER),
            Some((0, MAC)),
            "he has moved to another port"
        );
        one.release(PEER);
        assert_eq!(at(&mut one, PEER), Some((0, MAC)), "the other needs it");
        other.release(PEER);
        assert_eq!([at(&mut one, PEER), at(&mut other, PEER)], [None; 2]);
    }
}

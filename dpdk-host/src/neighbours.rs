//! Which Ethernet addresses members and parents are reached by, and through which port. The kernel knows nothing of these ports,
//! so they are asked for: by ARP, or by neighbour discovery where addresses are IPv6.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agg_core::Nanos;
use agg_host::frame::Mac;

/// How often an address that is not known is asked for, in ns.
const ASK_AGAIN: Nanos = 100_000_000;

/// How often one that is known is asked for, in ns: its owner may have got another network card.
const REFRESH: Nanos = 10_000_000_000;

/// The network that the ports are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The aggregator's address there.
    pub address: IpAddr,
    /// Bits of the address that all of the network have in common.
    pub prefix: u8,
    /// Who passes on what goes elsewhere.
    pub gateway: Option<IpAddr>,
}

impl Network {
    /// Who is to be given what goes to `to`; `None`: it is in another network, and there is no gateway, or of the other family.
    pub fn next_hop(&self, to: IpAddr) -> Option<IpAddr> {
        let prefix = u32::from(self.prefix);
        let is_here = match (self.address, to) {
            (IpAddr::V4(here), IpAddr::V4(to)) => {
                let other = u32::from(here) ^ u32::from(to);
                other.leading_zeros() >= prefix
            }
            (IpAddr::V6(here), IpAddr::V6(to)) => {
                let other = u128::from(here) ^ u128::from(to);
                // RFC 4291, section 2.5.6: link-local addresses are on every link.
                other.leading_zeros() >= prefix || to.is_unicast_link_local()
            }
            _ => return None,
        };
        if is_here { Some(to) } else { self.gateway }
    }
}

/// How somebody is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Through which of the host's ports.
    pub port: usize,
    /// Which Ethernet address there.
    pub mac: Mac,
}

#[derive(Debug, Clone, Copy)]
struct Neighbour {
    hop: Option<Hop>,
    /// When it is asked for again.
    ask: Nanos,
    /// It has changed, and has not been asked for since.
    is_doubtful: bool,
    /// Jobs that need it.
    users: usize,
}

/// What all shards know.
#[derive(Debug, Default)]
struct Shared {
    table: Mutex<HashMap<IpAddr, Neighbour>>,
    /// Raised with each change of what the shards' copies have.
    changes: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Neighbour>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// How those are reached that jobs' packets go to first. Nobody else's addresses are kept. All shards of a host know the same:
/// each has a copy, so that no core waits for another while it sends.
#[derive(Debug)]
pub struct Neighbours {
    network: Network,
    shared: Arc<Shared>,
    /// The changes that are in the copy.
    seen: u64,
    known: HashMap<IpAddr, Hop>,
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
            network: self.network,
            shared: Arc::clone(&self.shared),
            // Nothing is in the copy yet.
            seen: u64::MAX,
            known: HashMap::new(),
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
                .filter_map(|(who, neighbour)| Some((*who, neighbour.hop?)));
            self.known = known.collect();
        }
    }

    /// Another number after each [`Self::refresh`] that has changed something.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// From now on the way to `to` is needed once more.
    pub fn want(&mut self, to: IpAddr) {
        if let Some(next) = self.network.next_hop(to) {
            let mut table = self.shared.lock();
            let neighbour = table.entry(next).or_insert(Neighbour {
                hop: None,
                ask: 0,
                is_doubtful: false,
                users: 0,
            });
            neighbour.users += 1;
        }
    }

    /// Whether it is needed.
    pub fn wants(&self, to: IpAddr) -> bool {
        let next = self.network.next_hop(to);
        next.is_some_and(|next| self.shared.lock().contains_key(&next))
    }

    /// It is needed once less.
    pub fn release(&mut self, to: IpAddr) {
        let Some(next) = self.network.next_hop(to) else {
            return;
        };
        let mut table = self.shared.lock();
        if let Some(neighbour) = table.get_mut(&next) {
            neighbour.users = neighbour.users.saturating_sub(1);
            if neighbour.users == 0 {
                table.remove(&next);
                self.shared.changed();
            }
        }
    }

    /// Somebody says how he is reached. It is kept if he is needed.
    pub fn learn(&mut self, who: IpAddr, hop: Hop, now: Nanos) {
        let mut table = self.shared.lock();
        if let Some(neighbour) = table.get_mut(&who) {
            let before = neighbour.hop.replace(hop);
            if before.is_some_and(|before| before != hop) {
                // Who says something else than was known may not be the owner, whose answer would put that right.
                neighbour.is_doubtful = true;
                neighbour.ask = neighbour.ask.min(now + ASK_AGAIN);
            } else if !neighbour.is_doubtful {
                neighbour.ask = now + REFRESH;
            }
            if before != Some(hop) {
                self.shared.changed();
            }
        }
    }

    /// How `to` is reached, if that was known at the last [`Self::refresh`].
    #[inline]
    pub fn hop(&self, to: IpAddr) -> Option<Hop> {
        self.known.get(&self.network.next_hop(to)?).copied()
    }

    /// Who is to be asked for now: by this shard, since the others are not told to.
    pub fn due(&mut self, now: Nanos) -> Vec<IpAddr> {
        let mut table = self.shared.lock();
        let due = table.iter_mut().filter(|(_, neighbour)| neighbour.ask <= now);
        let due = due.map(|(who, neighbour)| {
            neighbour.ask = now + ASK_AGAIN;
            neighbour.is_doubtful = false;
            *who
        });
        due.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 254));
    const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 2));
    const HOP: Hop = Hop {
        port: 1,
        mac: [2, 0, 0, 0, 0, 9],
    };

    fn neighbours(gateway: Option<IpAddr>) -> Neighbours {
        let address = HERE;
        Neighbours::new(Network {
            address,
            prefix: 24,
            gateway,
        })
    }

    fn hop(neighbours: &mut Neighbours, to: IpAddr) -> Option<Hop> {
        neighbours.refresh();
        neighbours.hop(to)
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
        assert_eq!(alone.next_hop(HERE), Some(HERE));
        assert_eq!(network.next_hop("fd00::1".parse().unwrap()), None);
    }

    #[test]
    fn ipv6_networks_and_links_are_told_apart() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let network = Network {
            address: ip("fd00:0:0:1::1"),
            prefix: 64,
            gateway: Some(ip("fe80::ff")),
        };
        for (to, next) in [
            ("fd00:0:0:1:f::2", "fd00:0:0:1:f::2"),
            ("fd00:0:0:2::2", "fe80::ff"),
            ("fe80::2", "fe80::2"),
        ] {
            assert_eq!(network.next_hop(ip(to)), Some(ip(next)), "{to}");
        }
        assert_eq!(network.next_hop(PEER), None);
        let alone = Network {
            prefix: 128,
            gateway: None,
            ..network
        };
        assert_eq!(alone.next_hop(ip("fd00:0:0:1::2")), None);
    }

    #[test]
    fn only_who_is_needed_is_known_and_as_long_as_that() {
        let mut neighbours = neighbours(Some(GATEWAY));
        neighbours.learn(PEER, HOP, 0);
        assert_eq!(hop(&mut neighbours, PEER), None);
        neighbours.want(PEER);
        neighbours.want(PEER);
        neighbours.learn(PEER, HOP, 0);
        neighbours.release(PEER);
        assert_eq!(hop(&mut neighbours, PEER), Some(HOP));
        neighbours.release(PEER);
        assert_eq!(hop(&mut neighbours, PEER), None);
        neighbours.want(FAR);
        neighbours.learn(GATEWAY, HOP, 0);
        assert_eq!(hop(&mut neighbours, FAR), Some(HOP));
    }

    #[test]
    fn the_unknown_are_asked_for_often_and_the_known_now_and_then() {
        let mut neighbours = neighbours(None);
        neighbours.want(PEER);
        let asked = |neighbours: &mut Neighbours, now| neighbours.due(now).len();
        assert_eq!(asked(&mut neighbours, 5), 1);
        assert_eq!(asked(&mut neighbours, 5 + ASK_AGAIN - 1), 0);
        assert_eq!(asked(&mut neighbours, 5 + ASK_AGAIN), 1);
        neighbours.learn(PEER, HOP, 10);
        assert_eq!(asked(&mut neighbours, 10 + REFRESH - 1), 0);
        assert_eq!(asked(&mut neighbours, 10 + REFRESH), 1);
        assert_eq!(hop(&mut neighbours, PEER), Some(HOP), "until he says otherwise");
    }

    #[test]
    fn who_says_something_else_is_asked_for_soon_however_often_he_says_it() {
        let mut neighbours = neighbours(None);
        neighbours.want(PEER);
        assert_eq!(neighbours.due(0).len(), 1);
        neighbours.learn(PEER, HOP, 1);
        let lie = Hop {
            mac: [0x66; 6],
            ..HOP
        };
        neighbours.learn(PEER, lie, 10);
        neighbours.learn(PEER, lie, 20);
        assert!(neighbours.due(10 + ASK_AGAIN - 1).is_empty());
        assert_eq!(neighbours.due(10 + ASK_AGAIN), [PEER]);
        // The owner's answer is asked about once more, and then believed.
        neighbours.learn(PEER, HOP, 11 + ASK_AGAIN);
        assert_eq!(hop(&mut neighbours, PEER), Some(HOP));
        assert_eq!(neighbours.due(10 + 2 * ASK_AGAIN), [PEER]);
        let now = 11 + 2 * ASK_AGAIN;
        neighbours.learn(PEER, HOP, now);
        assert!(neighbours.due(now + REFRESH - 1).is_empty());
        assert_eq!(neighbours.due(now + REFRESH), [PEER]);
    }

    #[test]
    fn what_one_shard_hears_all_know_and_one_asks() {
        let mut one = neighbours(None);
        one.want(PEER);
        let mut other = one.share();
        other.want(PEER);
        assert_eq!((one.due(5), other.due(5)), (vec![PEER], Vec::new()));
        other.learn(PEER, HOP, 6);
        assert_eq!([hop(&mut one, PEER), hop(&mut other, PEER)], [Some(HOP); 2]);
        assert_eq!(
            hop(&mut one.share(), PEER),
            Some(HOP),
            "also one that comes later"
        );
        assert!(one.due(5 + ASK_AGAIN).is_empty(), "it was heard of");
        let moved = Hop { port: 0, ..HOP };
        one.learn(PEER, moved, 7);
        assert_eq!(hop(&mut other, PEER), Some(moved), "he is at another port now");
        one.release(PEER);
        assert_eq!(hop(&mut one, PEER), Some(moved), "the other needs it");
        other.release(PEER);
        assert_eq!([hop(&mut one, PEER), hop(&mut other, PEER)], [None; 2]);
    }
}

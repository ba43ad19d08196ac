//! Which Ethernet addresses members and parents are reached by. The kernel knows nothing of this port, so they are asked for by
//! ARP.

use std::collections::HashMap;
use std::net::Ipv4Addr;

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
    mac: Option<Mac>,
    /// When it is asked for again.
    ask: Nanos,
    /// Jobs that need it.
    users: usize,
}

/// The Ethernet addresses of those that jobs' packets go to first. Nobody else's are kept.
#[derive(Debug)]
pub struct Neighbours {
    network: Network,
    known: HashMap<Ipv4Addr, Neighbour>,
}

impl Neighbours {
    /// None so far.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            known: HashMap::new(),
        }
    }

    /// The network that they are in.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// From now on the way to `to` is needed once more.
    pub fn want(&mut self, to: Ipv4Addr) {
        if let Some(hop) = self.network.next_hop(to) {
            let neighbour = self.known.entry(hop).or_insert(Neighbour {
                mac: None,
                ask: 0,
                users: 0,
            });
            neighbour.users += 1;
        }
    }

    /// Whether it is needed.
    pub fn wants(&self, to: Ipv4Addr) -> bool {
        let hop = self.network.next_hop(to);
        hop.is_some_and(|hop| self.known.contains_key(&hop))
    }

    /// It is needed once less.
    pub fn release(&mut self, to: Ipv4Addr) {
        let Some(hop) = self.network.next_hop(to) else {
            return;
        };
        if let Some(neighbour) = self.known.get_mut(&hop) {
            neighbour.users = neighbour.users.saturating_sub(1);
            if neighbour.users == 0 {
                self.known.remove(&hop);
            }
        }
    }

    /// Somebody says which Ethernet address is his. It is kept if he is needed.
    pub fn learn(&mut self, who: Ipv4Addr, mac: Mac, now: Nanos) {
        if let Some(neighbour) = self.known.get_mut(&who) {
            neighbour.mac = Some(mac);
            neighbour.ask = now + REFRESH;
        }
    }

    /// The Ethernet address by which `to` is reached.
    pub fn mac(&self, to: Ipv4Addr) -> Option<Mac> {
        self.known.get(&self.network.next_hop(to)?)?.mac
    }

    /// Who is to be asked for now.
    pub fn due(&mut self, now: Nanos) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.known.iter_mut().filter_map(move |(who, neighbour)| {
            if neighbour.ask > now {
                return None;
            }
            neighbour.ask = now + ASK_AGAIN;
            Some(*who)
        })
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
        neighbours.learn(PEER, MAC, 0);
        assert_eq!(neighbours.mac(PEER), None);
        neighbours.want(PEER);
        neighbours.want(PEER);
        neighbours.learn(PEER, MAC, 0);
        neighbours.release(PEER);
        assert_eq!(neighbours.mac(PEER), Some(MAC));
        neighbours.release(PEER);
        assert_eq!(neighbours.mac(PEER), None);
        neighbours.want(FAR);
        neighbours.learn(GATEWAY, MAC, 0);
        assert_eq!(neighbours.mac(FAR), Some(MAC));
    }

    #[test]
    fn the_unknown_are_asked_for_often_and_the_known_now_and_then() {
        let mut neighbours = neighbours(None);
        neighbours.want(PEER);
        let asked = |neighbours: &mut Neighbours, now| neighbours.due(now).count();
        assert_eq!(asked(&mut neighbours, 5), 1);
        assert_eq!(asked(&mut neighbours, 5 + ASK_AGAIN - 1), 0);
        assert_eq!(asked(&mut neighbours, 5 + ASK_AGAIN), 1);
        neighbours.learn(PEER, MAC, 10);
        assert_eq!(asked(&mut neighbours, 10 + REFRESH - 1), 0);
        assert_eq!(asked(&mut neighbours, 10 + REFRESH), 1);
        assert_eq!(neighbours.mac(PEER), Some(MAC), "until he says otherwise");
    }
}

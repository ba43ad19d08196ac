//! Who is whose member: the aggregators of a job and the workers and aggregators below each.

use agg_core::worker::Membership;
use agg_core::{Endpoint, Epoch};

/// A worker or an aggregator, by its number in the scenario. It has the same address wherever it is a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Party {
    /// A worker: a rank of the job.
    Worker(usize),
    /// An aggregator.
    Node(usize),
    /// The store of the aggregator with this number (R-SPILL).
    Store(usize),
}

impl Party {
    /// Where its packets come from.
    pub fn endpoint(self) -> Endpoint {
        let port = match self {
            Self::Worker(number) => 1 + number,
            Self::Node(number) => 1000 + number,
            Self::Store(number) => 2000 + number,
        };
        Endpoint {
            ip: [0; 16],
            port: port as u16,
        }
    }
}

/// One aggregator's place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its epoch.
    pub epoch: Epoch,
    /// The next level.
    pub parent: Option<usize>,
    /// In the order of their numbers. None where this aggregator was lost.
    pub members: Vec<Party>,
}

/// All aggregators of a job. The root is number 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology(Vec<Place>);

impl Topology {
    /// One aggregator of these workers.
    pub fn flat(workers: &[usize]) -> Self {
        Self::tree(workers, &[])
    }

    /// A root of these workers and of leaves with such workers; a leaf without any is lost.
    pub fn tree(root: &[usize], leaves: &[&[usize]]) -> Self {
        let workers = |workers: &[usize]| {
            workers
                .iter()
                .map(|worker| Party::Worker(*worker))
                .collect::<Vec<_>>()
        };
        let alive = (1..).zip(leaves).filter(|(_, leaf)| !leaf.is_empty());
        let mut members: Vec<_> = alive.map(|(number, _)| Party::Node(number)).collect();
        members.extend(workers(root));
        let mut places = vec![Place {
            epoch: Epoch(1),
            parent: None,
            members,
        }];
        places.extend((2..).zip(leaves).map(|(epoch, leaf)| Place {
            epoch: Epoch(epoch),
            parent: Some(0),
            members: workers(leaf),
        }));
        Self(places)
    }

    /// Two aggregators that do not know of each other, each with all these workers.
    pub fn twice(workers: &[usize]) -> Self {
        let mut places = Self::flat(workers).0;
        places.push(Place {
            epoch: Epoch(2),
            ..places[0].clone()
        });
        Self(places)
    }

    /// The same with epochs above all of `before`'s (R-REFORM-2).
    pub fn after(mut self, before: &Self) -> Self {
        let known = before.0.iter().map(|place| place.epoch.0).max().unwrap_or(0);
        for place in &mut self.0 {
            place.epoch.0 += known;
        }
        self
    }

    /// How many aggregators there are, lost ones too.
    pub fn nodes(&self) -> usize {
        self.0.len()
    }

    /// An aggregator's place.
    pub fn place(&self, node: usize) -> &Place {
        &self.0[node]
    }

    /// Whether an aggregator was lost.
    pub fn is_lost(&self, node: usize) -> bool {
        self.0[node].members.is_empty()
    }

    /// A party's number at an aggregator.
    pub fn number(&self, node: usize, party: Party) -> Option<u8> {
        let position = self.0[node].members.iter().position(|member| *member == party);
        position.map(|number| number as u8)
    }

    /// The aggregator that a worker is a member of.
    pub fn home(&self, worker: usize) -> Option<usize> {
        let mut nodes = 0..self.nodes();
        nodes.find(|node| self.number(*node, Party::Worker(worker)).is_some())
    }

    /// How many workers a party stands for.
    pub fn workers(&self, party: Party) -> usize {
        match party {
            Party::Worker(_) => 1,
            Party::Store(_) => 0,
            Party::Node(node) => self.0[node]
                .members
                .iter()
                .map(|member| self.workers(*member))
                .sum(),
        }
    }

    /// The workers of the whole job.
    pub fn ranks(&self) -> Vec<usize> {
        let mut ranks: Vec<_> = (0..64).filter(|worker| self.home(*worker).is_some()).collect();
        ranks.sort_unstable();
        ranks
    }

    /// A worker's place, as the control service gives it.
    pub fn membership(&self, worker: usize) -> Option<(usize, Membership)> {
        let home = self.home(worker)?;
        let membership = Membership {
            epoch: self.0[home].epoch,
            member: self.number(home, Party::Worker(worker))?,
            members: self.0[home].members.len() as u8,
            workers: self.ranks().len() as u32,
        };
        Some((home, membership))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_each_levels_own() {
        let tree = Topology::tree(&[3], &[&[0, 1], &[2]]);
        assert_eq!(
            (tree.home(1), tree.home(2), tree.home(3), tree.home(4)),
            (Some(1), Some(2), Some(0), None)
        );
        assert_eq!(tree.workers(Party::Node(0)), 4);
        assert_eq!(tree.number(0, Party::Node(2)), Some(1));
        let (home, membership) = tree.membership(3).expect("it is a member");
        assert_eq!(
            (home, membership.member, membership.members, membership.workers),
            (0, 2, 3, 4)
        );
        let flat = Topology::tree(&[0, 1], &[&[], &[2]]).after(&tree);
        assert!(flat.is_lost(1) && flat.place(0).epoch == Epoch(4));
        assert_eq!(flat.place(0).members[0], Party::Node(2));
    }
}

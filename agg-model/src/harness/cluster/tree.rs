//! Trees of aggregators over workers.

use std::collections::BTreeMap;

use crate::harness::random::Random;
use crate::{ModelJob, ModelMember, ModelParent, Source};

/// A tree: who is a member of whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tree {
    /// The worker of this rank.
    Worker(usize),
    /// An aggregator and its members, in the order of their numbers.
    Aggregator(Vec<Tree>),
}

impl Tree {
    /// One aggregator for all.
    pub fn flat(ranks: impl IntoIterator<Item = usize>) -> Self {
        Self::Aggregator(ranks.into_iter().map(Self::Worker).collect())
    }

    /// Leaves of so many workers each, below one root.
    pub fn leaves(sizes: &[usize]) -> Self {
        let mut next = 0;
        let leaf = |size: &usize| {
            next += size;
            Self::flat(next - size..next)
        };
        Self::Aggregator(sizes.iter().map(leaf).collect())
    }

    /// Any tree of at most so many levels over these ranks.
    pub fn random(ranks: &[usize], levels: u32, random: &mut Random) -> Self {
        if levels <= 1 || ranks.len() < 2 {
            return Self::flat(ranks.iter().copied());
        }
        let mut members = Vec::new();
        let mut left = ranks;
        while !left.is_empty() {
            let (some, rest) = left.split_at(1 + random.below(left.len() as u64) as usize);
            left = rest;
            // A worker beside leaves, a leaf of one, and all below one leaf are trees too.
            members.push(match some {
                [rank] if random.permille(700) => Self::Worker(*rank),
                _ => Self::random(some, levels - 1, random),
            });
        }
        Self::Aggregator(members)
    }

    /// Its workers.
    pub fn ranks(&self) -> Vec<usize> {
        match self {
            Self::Worker(rank) => vec![*rank],
            Self::Aggregator(members) => members.iter().flat_map(Self::ranks).collect(),
        }
    }
}

/// Who is a member of an aggregator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    /// The worker of this rank.
    Worker(usize),
    /// The aggregator with this number; the root is 0.
    Aggregator(usize),
}

impl Who {
    /// Where it sends from.
    pub(super) fn source(self) -> Source {
        match self {
            Self::Worker(rank) => ([0; 16], 1 + rank as u16),
            Self::Aggregator(number) => ([1; 16], 1 + number as u16),
        }
    }
}

/// The jobs of a tree's aggregators, by their numbers, and their members.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) jobs: Vec<ModelJob>,
    pub(super) members: Vec<Vec<Who>>,
    /// The aggregator and member number of each worker, by its rank.
    pub(super) homes: BTreeMap<usize, (usize, u8)>,
}

impl Plan {
    /// Each aggregator has the root's job with its own members, parent and epoch: one of its own from `epochs` on.
    pub(super) fn new(tree: &Tree, root: &ModelJob, epochs: u32, random: &mut Random) -> Self {
        let mut plan = Self::default();
        let Tree::Aggregator(members) = tree else {
            panic!("the root is an aggregator")
        };
        plan.add(members, root, None, epochs, random);
        plan
    }

    /// Its number.
    fn add(
        &mut self,
        members: &[Tree],
        root: &ModelJob,
        parent: Option<ModelParent>,
        epochs: u32,
        random: &mut Random,
    ) -> usize {
        let number = self.jobs.len();
        let epoch = epochs + random.below(3) as u32;
        self.members.push(Vec::new());
        self.jobs.push(ModelJob {
            epoch,
            parent,
            ..root.clone()
        });
        let mut entries = Vec::new();
        for (member, tree) in (0_u8..).zip(members) {
            let who = match tree {
                Tree::Worker(rank) => {
                    self.homes.insert(*rank, (number, member));
                    Who::Worker(*rank)
                }
                Tree::Aggregator(members) => {
                    let parent = ModelParent {
                        source: Who::Aggregator(number).source(),
                        member,
                        epoch,
                    };
                    Who::Aggregator(self.add(members, root, Some(parent), epochs, random))
                }
            };
            self.members[number].push(who);
            entries.push(ModelMember {
                source: who.source(),
                set: [member].into(),
                workers: tree.ranks().len() as u32,
            });
        }
        self.jobs[number].members = entries;
        number
    }
}

//! Jobs that re-form: all levels start again with empty slots, and the workers send again (R-REFORM).

use std::collections::{BTreeMap, BTreeSet};

use agg_core::Epoch;
use agg_core::worker::{Boundary, Membership};

use super::{Cluster, EPOCH, Event, Tree};
use crate::harness::Values;

/// How long it takes until everybody has heard of it, in ns.
const SPREAD: u64 = 5_000_000;

/// A job that waits for its workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Reforming {
    /// Where it goes on.
    tree: Option<Tree>,
    /// How far workers say that they are: operations completed and the next chunk.
    positions: BTreeMap<usize, (u32, u64)>,
    /// Whether the job shrinks.
    shrinks: bool,
    /// Whether aggregators are gone, rather than that they refuse.
    gone: bool,
    /// The workers that have their new place.
    placed: BTreeSet<usize>,
}

impl Cluster {
    /// The place of a worker in the tree.
    pub(super) fn place(&self, rank: usize) -> Membership {
        let (home, member) = self.homes[&rank];
        let job = &self.nodes[home].job;
        Membership {
            epoch: Epoch(job.epoch),
            member,
            members: job.members.len() as u8,
            workers: self.homes.len() as u32,
        }
    }

    fn highest_epoch(&self) -> u32 {
        let of_nodes = self.nodes.iter().map(|node| node.job.epoch);
        let of_workers = self.workers.iter().map(|worker| worker.epoch());
        of_nodes.chain(of_workers).max().unwrap_or(EPOCH)
    }

    /// An aggregator has lost its memory.
    pub(super) fn restart(&mut self) {
        if self.nodes.len() == 1 && self.site.silent_restarts {
            self.build(self.highest_epoch() + 1);
        } else if self.reforming.is_none() {
            let levels = 1 + self.random.below(u64::from(self.site.levels)) as u32;
            let tree = Tree::random(&self.ranks(), levels, &mut self.random);
            self.reform(tree, false);
        }
    }

    /// A rank is lost for good, and the job goes on without it.
    pub(super) fn lose(&mut self, rank: usize) {
        self.homes.remove(&rank);
        self.parts[rank].ahead.clear();
        let levels = 1 + self.random.below(u64::from(self.site.levels)) as u32;
        let tree = Tree::random(&self.ranks(), levels, &mut self.random);
        self.reform(tree, true);
    }

    /// Whether aggregators say nothing at all.
    pub(super) fn is_silent(&self) -> bool {
        let gone = |reforming: &Reforming| reforming.gone && reforming.tree.is_some();
        self.reforming.as_ref().is_some_and(gone)
    }

    fn reform(&mut self, tree: Tree, shrinks: bool) {
        for node in &mut self.nodes {
            node.lockstep.suspend(node.job.key);
        }
        for rank in self.ranks() {
            self.post(Event::Register(rank), Vec::new(), 0, SPREAD);
        }
        self.reforming = Some(Reforming {
            tree: Some(tree),
            shrinks,
            gone: self.random.permille(300),
            ..Reforming::default()
        });
    }

    /// From saying how far it is to its new place a worker takes nothing, where others go by what it said.
    pub(super) fn is_frozen(&self, rank: usize) -> bool {
        self.reforming.as_ref().is_some_and(|reforming| {
            let waits = reforming.positions.contains_key(&rank) && !reforming.placed.contains(&rank);
            waits && reforming.shrinks
        })
    }

    /// R-REFORM-1; the last one to register lets the job go on (R-REFORM-2).
    pub(super) fn register(&mut self, rank: usize) {
        let ranks = self.homes.len();
        let position = self.workers[rank].position();
        let reforming = self.reforming.as_mut().expect("it asked for this");
        reforming.positions.insert(rank, position);
        if reforming.positions.len() < ranks {
            return;
        }
        let positions = reforming.positions.values();
        // R-REFORM-3
        let boundary = reforming.shrinks.then(|| Boundary {
            operation: positions
                .clone()
                .map(|(operations, _)| *operations)
                .max()
                .unwrap_or(0),
            next_chunk: positions.map(|(_, next_chunk)| *next_chunk).max().unwrap_or(0),
        });
        self.site.tree = reforming.tree.take().expect("taken once");
        if let Some(boundary) = boundary {
            for rank in 0..self.workers.len() {
                if !self.homes.contains_key(&rank) {
                    self.losses.entry(rank).or_insert(boundary.operation as usize);
                }
            }
        }
        self.build(self.highest_epoch() + 1);
        for rank in self.ranks() {
            self.post(Event::Rejoin(rank, boundary), Vec::new(), 0, SPREAD);
        }
    }

    pub(super) fn rejoin(&mut self, rank: usize, boundary: Option<Boundary>) {
        let place = self.place(rank);
        self.workers[rank].rejoin(place, boundary, self.now);
        let ranks = self.homes.len();
        let reforming = self.reforming.as_mut().expect("it has not ended");
        reforming.placed.insert(rank);
        if reforming.placed.len() == ranks {
            self.reforming = None;
        }
    }

    /// Whether an operation ended with a rank that was lost.
    pub(super) fn was_lost(&self, operation: usize) -> bool {
        self.losses.values().any(|lost| *lost == operation)
    }

    /// What those began to reduce that were in the job when an operation began.
    pub(super) fn participants(&self, operation: usize) -> Vec<Values> {
        let inputs = self.parts.iter().enumerate().filter_map(|(rank, part)| {
            let takes_part = self.losses.get(&rank).is_none_or(|lost| operation <= *lost);
            takes_part.then(|| part.begun.get(operation).cloned())?
        });
        inputs.collect()
    }
}

//! Jobs and their members, as an aggregator knows them.

use std::collections::BTreeSet;

/// The address (IPv6, or IPv4 as mapped) and UDP port that a packet comes from.
pub type Source = ([u8; 16], u16);

/// A member of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelMember {
    /// The only source it sends from.
    pub source: Source,
    /// The set of its contributions.
    pub set: BTreeSet<u8>,
    /// How many workers that set stands for.
    pub workers: u32,
}

/// The policy Quorum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelQuorum {
    /// So many members are enough,
    pub members: u8,
    /// once so many nanoseconds have passed.
    pub grace: u64,
}

/// Where a leaf's sums go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelParent {
    /// Where its packets come from.
    pub source: Source,
    /// The leaf's number there.
    pub member: u8,
    /// Its epoch.
    pub epoch: u32,
}

/// A job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelJob {
    /// Its random key.
    pub key: u64,
    /// Its epoch at this aggregator.
    pub epoch: u32,
    /// Its members, by their numbers.
    pub members: Vec<ModelMember>,
    /// Lanes of a chunk.
    pub lanes: usize,
    /// Its number of slots.
    pub window: u16,
    /// The generations of a slot (R-CHUNK-2).
    pub generations: u16,
    /// The policy; All without one.
    pub quorum: Option<ModelQuorum>,
    /// The next level, at a leaf.
    pub parent: Option<ModelParent>,
    /// Chunks of near memory, before a store (R-SPILL); without, there is one for each generation.
    pub frames: Option<u32>,
    /// The refusal's reason (4, 5 or 6) and the member it is about, once aborted.
    pub aborted: Option<(i16, u8)>,
    /// R-REFORM-1: the members are to register again.
    pub suspended: bool,
    /// R-QUORUM-5: whom removed members' sets name.
    pub removed: BTreeSet<u8>,
    /// R-QUORUM-1: who is late.
    pub late: BTreeSet<u8>,
}

impl ModelJob {
    /// A job of epoch 1 at a root that waits for all of its members.
    pub fn new(key: u64, members: Vec<ModelMember>, lanes: usize, window: u16) -> Self {
        Self {
            key,
            epoch: 1,
            members,
            lanes,
            window,
            generations: 2,
            quorum: None,
            parent: None,
            frames: None,
            aborted: None,
            suspended: false,
            removed: BTreeSet::new(),
            late: BTreeSet::new(),
        }
    }

    /// The members that a complete slot holds.
    pub fn expected(&self) -> BTreeSet<u8> {
        let all = self.members.iter().flat_map(|member| member.set.clone());
        all.filter(|member| !self.removed.contains(member)).collect()
    }

    /// How many generations all its slots have.
    pub fn heads(&self) -> usize {
        usize::from(self.window) * usize::from(self.generations)
    }

    /// How many values its near memory has.
    pub fn values(&self) -> usize {
        self.frames.map_or(self.heads(), |frames| frames as usize) * self.lanes
    }

    /// Whether it could be admitted at all, were there room.
    pub fn is_sensible(&self) -> bool {
        let most = if self.quorum.is_some() { 64 } else { 2 };
        let quorum_fits = self.quorum.is_none_or(|quorum| {
            let possible = (1..=self.members.len()).contains(&usize::from(quorum.members));
            possible && self.parent.is_none()
        });
        (1..=64).contains(&self.members.len())
            && self.members.iter().all(|member| !member.set.is_empty())
            && (0..16).any(|power| self.window == 1 << power)
            && (1..7).any(|power| self.generations == 1 << power && self.generations <= most)
            && quorum_fits
            && self
                .frames
                .is_none_or(|frames| frames >= 2 && self.parent.is_none() && self.quorum.is_none())
            && self.key != 0
    }
}

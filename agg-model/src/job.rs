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

/// A job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelJob {
    /// Its random key.
    pub key: u64,
    /// Its members, by their numbers.
    pub members: Vec<ModelMember>,
    /// Lanes of a chunk.
    pub lanes: usize,
    /// Its number of slots.
    pub window: u16,
    /// The refusal's reason (4, 5 or 6) and the member it is about, once aborted.
    pub aborted: Option<(i16, u8)>,
}

impl ModelJob {
    /// The members that a complete slot holds.
    pub fn expected(&self) -> BTreeSet<u8> {
        self.members
            .iter()
            .flat_map(|member| member.set.clone())
            .collect()
    }
}

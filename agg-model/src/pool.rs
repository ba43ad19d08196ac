//! Slot memory shared by jobs: each takes the first run of free places that is long enough.

use std::collections::BTreeMap;

/// Places in a row, each free or taken by the job with a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelPool {
    places: Vec<Option<u64>>,
}

impl ModelPool {
    /// A pool of `len` free places.
    pub fn new(len: usize) -> Self {
        Self {
            places: vec![None; len],
        }
    }

    /// Where the first `len` free places in a row begin.
    pub fn find(&self, len: usize) -> Option<usize> {
        self.places
            .windows(len)
            .position(|run| run.iter().all(Option::is_none))
    }

    /// Where the places of the job `key` begin.
    pub fn start(&self, key: u64) -> Option<usize> {
        self.places.iter().position(|place| *place == Some(key))
    }

    /// Gives `len` places from `start` on to the job `key`.
    pub fn take(&mut self, start: usize, len: usize, key: u64) {
        self.places[start..start + len].fill(Some(key));
    }

    /// Frees the places of the job `key`.
    pub fn free(&mut self, key: u64) {
        for place in &mut self.places {
            if *place == Some(key) {
                *place = None;
            }
        }
    }

    /// How many places each job holds.
    pub fn held(&self) -> BTreeMap<u64, usize> {
        let mut held = BTreeMap::new();
        for key in self.places.iter().flatten() {
            *held.entry(*key).or_insert(0) += 1;
        }
        held
    }
}

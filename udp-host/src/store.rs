//! Deeper memory of a shard, for sums that wait for a late rank (R-SPILL). It is reserved when a job is admitted.

use std::collections::HashMap;

use agg_core::{MemberSet, Nanos, Round, StoreAction, Verdict};
use agg_host::ShardAggregator;

use crate::lent::Borrowed;
use crate::shard::Route;

/// Which sum it is: the same round and set always have the same values (R-NUM-5).
type Sum = (Round, MemberSet);

/// The deeper memory of one job: a place for each of its generations.
pub(crate) struct JobStore {
    lanes: usize,
    /// Which sum is at each place.
    sums: Box<[Option<Sum>]>,
    values: Box<[i32]>,
}

impl JobStore {
    /// Bytes that a job takes.
    pub(crate) fn bytes(generations: u64, lanes: u64) -> u64 {
        generations.saturating_mul(4 * lanes)
    }

    /// Memory for so many generations; `None` where it cannot be had.
    pub(crate) fn new(generations: usize, lanes: usize) -> Option<Self> {
        let mut values = Vec::new();
        values.try_reserve_exact(generations.checked_mul(lanes)?).ok()?;
        values.resize(generations * lanes, 0);
        Some(Self {
            lanes,
            sums: vec![None; generations].into_boxed_slice(),
            values: values.into_boxed_slice(),
        })
    }

    /// What it takes of the shard's deeper memory, in bytes.
    pub(crate) fn size(&self) -> u64 {
        4 * self.values.len() as u64
    }

    fn place(&mut self, place: u32) -> Option<(&mut Option<Sum>, &mut [i32])> {
        let place = place as usize;
        let values = self.values.get_mut(place * self.lanes..)?.get_mut(..self.lanes)?;
        Some((self.sums.get_mut(place)?, values))
    }

    fn put(&mut self, place: u32, sum: Sum, values: &[i32]) -> bool {
        match self.place(place) {
            Some((kept, room)) if room.len() == values.len() => {
                room.copy_from_slice(values);
                *kept = Some(sum);
                true
            }
            _ => false,
        }
    }

    fn get(&mut self, place: u32, sum: Sum) -> Option<&[i32]> {
        let (kept, values) = self.place(place)?;
        (*kept == Some(sum)).then_some(&*values)
    }
}

/// Where a job's deeper memory is.
pub(crate) enum Store {
    /// In this process.
    Here(JobStore),
    /// At a lender, so many bytes.
    Lent(u64),
}

impl Store {
    /// What it takes of the shard's deeper memory, in bytes.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Here(store) => store.size(),
            Self::Lent(bytes) => *bytes,
        }
    }
}

/// Does what the aggregator asks of its jobs' stores. `send` gets what is to be sent then, as after a packet.
pub(crate) fn serve<E>(
    aggregator: &mut ShardAggregator,
    routes: &mut HashMap<u64, Route>,
    lender: Option<&Borrowed>,
    now: Nanos,
    out: &mut [u8],
    mut send: impl FnMut(Verdict, &HashMap<u64, Route>, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    while let Some(request) = aggregator.store_request() {
        let (key, place, sum) = (request.key, request.place, (request.round, request.set));
        let store = match routes.get_mut(&key).and_then(|route| route.store.as_mut()) {
            Some(Store::Here(store)) => store,
            Some(Store::Lent(_)) => {
                if let Some(lender) = lender {
                    lender.ask(&request);
                }
                continue;
            }
            None => continue,
        };
        match request.action {
            StoreAction::Put(values) => {
                if store.put(place, sum, values) {
                    aggregator.stored(key, place, sum.0, sum.1);
                }
            }
            StoreAction::Get => {
                if let Some(values) = store.get(place, sum) {
                    let verdict = aggregator.recalled(key, place, sum.0, sum.1, values, now, out);
                    send(verdict, routes, out)?;
                }
            }
        }
    }
    Ok(())
}

//! Operations that were submitted and wait for their turn: what the one before can tell the other ranks of them already
//! (R-OP-7).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use agg_core::{Exponent, Operation};

use crate::element::Element;
use crate::shared::{Shared, lock};

/// More bytes than these are not looked through when an operation is submitted: it takes its caller's time.
const MOST_BYTES: usize = 4 << 20;

/// Elements of an operation that is too small for this; it has a way of its own (R-NUM-11).
const FEW_ELEMENTS: usize = 4096;

/// An operation to come.
pub(crate) struct Announcement {
    pub(crate) operation: Operation,
    /// On each stream its elements there, and the exponents of the first blocks.
    pub(crate) parts: Vec<(u64, Vec<Exponent>)>,
}

/// Announcements by the places of their operations in the order of all.
#[derive(Default)]
pub(crate) struct Upcoming {
    announcements: Mutex<BTreeMap<u64, Arc<Announcement>>>,
    /// The place after the last that was announced: to look without a lock.
    end: AtomicU64,
}

impl Upcoming {
    /// The operation in this place will be this one.
    pub(crate) fn add(&self, place: u64, announcement: Announcement) {
        lock(&self.announcements).insert(place, Arc::new(announcement));
        self.end.fetch_max(place + 1, Ordering::Release);
    }

    /// What was announced for this place.
    pub(crate) fn get(&self, place: u64) -> Option<Arc<Announcement>> {
        if self.end.load(Ordering::Acquire) <= place {
            return None;
        }
        lock(&self.announcements).get(&place).cloned()
    }

    /// The operation in this place has its turn.
    pub(crate) fn pass(&self, place: u64) {
        lock(&self.announcements).retain(|other, _| *other > place);
    }
}

impl Shared {
    /// What can be announced of an operation on these values, if that can be of use.
    pub(crate) fn announcement<E: Element>(
        &self,
        values: &mut [E],
        operation: Operation,
    ) -> Option<Announcement> {
        let all = self.config.policy == agg_control::Policy::All;
        if !all || !operation.kind.is_scaled() || values.len() <= FEW_ELEMENTS {
            return None;
        }
        let (lanes, window) = (usize::from(self.terms.lanes), usize::from(self.terms.window));
        let in_block = operation.kind.elements_of(lanes);
        let most = window.saturating_mul(in_block);
        let looked_at = most.saturating_mul(self.streams.len()).min(values.len());
        if looked_at.saturating_mul(size_of::<E>()) > MOST_BYTES {
            return None;
        }
        let mut rest = values;
        let part = |len: usize| {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            let blocks = len.div_ceil(in_block).min(window) as u64;
            let tensor = E::tensor(part);
            let exponents = (0..blocks).map(|block| tensor.exponent(block, in_block));
            (len as u64, exponents.collect())
        };
        let parts = self.part_lengths(operation).map(part).collect();
        Some(Announcement { operation, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agg_core::OpKind;

    #[test]
    fn what_has_had_its_turn_is_forgotten() {
        let upcoming = Upcoming::default();
        let announcement = |elements| Announcement {
            operation: Operation {
                kind: OpKind::SUM_F32,
                elements,
            },
            parts: Vec::new(),
        };
        for place in [3, 5] {
            upcoming.add(place, announcement(place));
        }
        let elements = |place| upcoming.get(place).map(|of| of.operation.elements);
        assert_eq!(
            [2, 3, 4, 5, 6].map(elements),
            [None, Some(3), None, Some(5), None]
        );
        upcoming.pass(3);
        assert_eq!([3, 5].map(elements), [None, Some(5)]);
    }
}

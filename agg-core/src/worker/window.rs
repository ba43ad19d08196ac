//! The window: what a worker knows of each slot, and two lists through the slots: what is to be sent, in order, and
//! what is in flight, the longest unanswered first.

use crate::wire::Header;
use crate::{Exponent, MemberSet, Nanos};

const END: u16 = u16::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Links {
    previous: u16,
    next: u16,
    linked: bool,
}

const UNLINKED: Links = Links {
    previous: END,
    next: END,
    linked: false,
};

/// What a worker knows of one slot. The host provides one for each slot of the window.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SlotState {
    /// The header of the last result (R-KEEP-1); its values are beside it in the worker's memory.
    pub(super) kept: Option<Header>,
    /// The chunk after the last one that has its result.
    pub(super) finished: u64,
    /// The chunk that waits for its result, if `outstanding`.
    pub(super) chunk: u64,
    pub(super) outstanding: bool,
    /// How often the chunk was sent.
    pub(super) sends: u32,
    /// When it was sent first.
    pub(super) first_sent_at: Nanos,
    /// When it was last sent, or passed over when its turn to be sent again had come.
    pub(super) sent_at: Nanos,
    /// The position of its last send among all sends.
    pub(super) order: u64,
    /// The members that were in when the aggregator last said so.
    pub(super) present: Option<MemberSet>,
    /// The aggregator has said that this member's contribution did not come, though it had the time.
    pub(super) lost: bool,
    /// Others have overtaken it since its last send, and it was not sent again since the aggregator had said to hold it.
    pub(super) passed_over: bool,
    /// Nothing goes on without it: it is sent whatever the congestion window.
    pub(super) urgent: bool,
    /// A Want is to be answered with the kept result.
    pub(super) answer: bool,
    /// The agreed exponent of the chunk that depends on the one at this index of the operation (R-NUM-3); of every other
    /// operation, since the next one's can come before the last values of one.
    pub(super) exponents: [Exponent; 2],
    /// The exponent that the next operation's header-only chunk in this slot announces (R-OP-7).
    pub(super) announces: Exponent,
    links: [Links; 2],
}

impl Default for SlotState {
    fn default() -> Self {
        Self {
            kept: None,
            finished: 0,
            chunk: 0,
            outstanding: false,
            sends: 0,
            first_sent_at: 0,
            sent_at: 0,
            order: 0,
            present: None,
            lost: false,
            passed_over: false,
            urgent: false,
            answer: false,
            exponents: [Exponent::NONE; 2],
            announces: Exponent::NONE,
            links: [UNLINKED; 2],
        }
    }
}

impl SlotState {
    /// All but what only paces sending (see [`super::ProtocolState`]): of the lists, whether the slot is in them.
    pub(super) fn without_time(&self) -> impl Eq + core::hash::Hash + use<> {
        let listed = self.links.map(|links| links.linked);
        let waits = (self.chunk, self.outstanding, self.sends > 0);
        (
            self.kept,
            self.finished,
            waits,
            self.answer,
            self.exponents,
            self.announces,
            listed,
        )
    }
}

/// A doubly linked list through the slots, so that moving one costs the same in a window of any size.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct List {
    which: usize,
    first: u16,
    last: u16,
    len: u16,
}

impl List {
    /// The slots that have something to send.
    pub(super) const fn to_send() -> Self {
        Self {
            which: 0,
            first: END,
            last: END,
            len: 0,
        }
    }

    /// The slots whose chunk was sent and not answered, in the order of sending.
    pub(super) const fn in_flight() -> Self {
        Self {
            which: 1,
            first: END,
            last: END,
            len: 0,
        }
    }

    pub(super) fn first(&self) -> Option<u16> {
        (self.first != END).then_some(self.first)
    }

    pub(super) fn last(&self) -> Option<u16> {
        (self.last != END).then_some(self.last)
    }

    /// How many slots are in it.
    pub(super) fn len(&self) -> u16 {
        self.len
    }

    /// Its slots, in order.
    pub(super) fn iter(&self, slots: &[SlotState]) -> impl Iterator<Item = u16> {
        let next = |slot: &u16| {
            let next = slots[usize::from(*slot)].links[self.which].next;
            (next != END).then_some(next)
        };
        core::iter::successors(self.first(), next)
    }

    pub(super) fn contains(&self, slots: &[SlotState], slot: u16) -> bool {
        slots[usize::from(slot)].links[self.which].linked
    }

    pub(super) fn push_back(&mut self, slots: &mut [SlotState], slot: u16) {
        self.remove(slots, slot);
        slots[usize::from(slot)].links[self.which] = Links {
            previous: self.last,
            next: END,
            linked: true,
        };
        match self.last {
            END => self.first = slot,
            last => slots[usize::from(last)].links[self.which].next = slot,
        }
        self.last = slot;
        self.len += 1;
    }

    pub(super) fn push_front(&mut self, slots: &mut [SlotState], slot: u16) {
        self.remove(slots, slot);
        slots[usize::from(slot)].links[self.which] = Links {
            previous: END,
            next: self.first,
            linked: true,
        };
        match self.first {
            END => self.last = slot,
            first => slots[usize::from(first)].links[self.which].previous = slot,
        }
        self.first = slot;
        self.len += 1;
    }

    /// Takes `slot` out; nothing happens where it is not in.
    pub(super) fn remove(&mut self, slots: &mut [SlotState], slot: u16) {
        let Links {
            previous,
            next,
            linked,
        } = slots[usize::from(slot)].links[self.which];
        if !linked {
            return;
        }
        match previous {
            END => self.first = next,
            previous => slots[usize::from(previous)].links[self.which].next = next,
        }
        match next {
            END => self.last = previous,
            next => slots[usize::from(next)].links[self.which].previous = previous,
        }
        slots[usize::from(slot)].links[self.which] = UNLINKED;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn order(list: &List, slots: &[SlotState]) -> Vec<u16> {
        let found: Vec<_> = list.iter(slots).collect();
        assert_eq!(found.len(), usize::from(list.len()));
        found
    }

    #[test]
    fn a_list_keeps_its_order_through_moves_and_removals() {
        let mut slots: Vec<SlotState> = (0..6).map(|_| SlotState::default()).collect();
        let (mut send, mut flight) = (List::to_send(), List::in_flight());
        for slot in 0..5 {
            send.push_back(&mut slots, slot);
            flight.push_front(&mut slots, slot);
        }
        send.push_back(&mut slots, 1);
        send.push_front(&mut slots, 3);
        send.remove(&mut slots, 0);
        send.remove(&mut slots, 5);
        assert_eq!(order(&send, &slots), [3, 2, 4, 1]);
        assert_eq!(order(&flight, &slots), [4, 3, 2, 1, 0]);
        for slot in [1, 2, 3, 4] {
            send.remove(&mut slots, slot);
        }
        assert_eq!((send.first(), send.last), (None, END));
        send.push_front(&mut slots, 2);
        assert_eq!(order(&send, &slots), [2]);
    }
}

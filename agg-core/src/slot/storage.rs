//! Where a generation's values are, in a job with frames and a store (R-SPILL).

use super::{Head, NO_FRAME, State};
use crate::wire::{Flags, Header};
use crate::{MemberSet, Nanos, Round};

impl Head {
    /// In a job with frames, which of them holds its values; [`NO_FRAME`] where none does.
    pub fn frame(&self) -> u32 {
        self.frame
    }

    pub(crate) fn set_frame(&mut self, frame: u32) {
        self.frame = frame;
    }

    pub(crate) fn take_frame(&mut self) -> Option<u32> {
        let frame = core::mem::replace(&mut self.frame, NO_FRAME);
        self.putting = false;
        (frame != NO_FRAME).then_some(frame)
    }

    /// Whether an arrival's values will be taken in: else it needs no frame.
    pub(crate) fn takes(&self, header: &Header) -> bool {
        let is_result = header.flags.has(Flags::RESULT);
        if self.state == State::Vacant || header.round.is_after(self.round) {
            return !is_result;
        }
        let open = matches!(self.state, State::Merging | State::Asked);
        let new = if is_result {
            self.state == State::Asked
        } else {
            !header.set.is_subset(self.set)
        };
        open && self.round == header.round && new
    }

    /// Which sum this is: the same round and set always have the same values (R-NUM-5).
    pub(crate) fn sum(&self) -> (Round, MemberSet) {
        (self.round, self.set)
    }

    pub(crate) fn stored_set(&self) -> MemberSet {
        self.past
    }

    /// Whether a frame is taken by a sum that waits.
    pub(crate) fn waits_near(&self) -> bool {
        let waits = matches!(self.state, State::Merging | State::Asked | State::Recalling);
        waits && self.frame != NO_FRAME && !self.set.is_empty()
    }

    pub(crate) fn is_recalling(&self) -> bool {
        self.state == State::Recalling
    }

    /// Whether the store was asked to take the sum, or to give its part back.
    pub(crate) fn is_putting(&self) -> bool {
        self.putting || self.is_recalling()
    }

    /// Whether the store has a part of the sum.
    pub(crate) fn is_stored(&self) -> bool {
        !self.past.is_empty()
    }

    pub(crate) fn set_putting(&mut self) {
        self.putting = true;
    }

    /// Whether a sum has waited here for `patience`. One of which a part is in the store already must be whole again before
    /// it is put there.
    pub(crate) fn can_be_put(&self, now: Nanos, patience: Nanos) -> bool {
        self.waits_near() && now.wrapping_sub(self.opened_at) >= patience
    }

    /// The store has this sum. The frame that is free now, if nothing was added meanwhile.
    pub(crate) fn hand_over(&mut self, round: Round, set: MemberSet) -> Option<u32> {
        // A sum that has conflicted meanwhile waits no more, and was counted so.
        let awaited = self.putting && self.waits_near() && !self.is_stored();
        if !awaited || (self.round, self.set) != (round, set) {
            return None;
        }
        self.past = set;
        self.take_frame()
    }

    /// There is no frame for a contribution. If it is a resend, somebody waits: another member may have the result, which
    /// can pass without a frame. Whether a Want is to go out.
    pub(crate) fn ask_without_frame(&mut self, header: &Header, now: Nanos) -> bool {
        if !header.flags.has(Flags::RESEND) || header.flags.has(Flags::RESULT) {
            return false;
        }
        if self.state == State::Vacant || header.round.is_after(self.round) {
            self.open_empty(header, now);
            return true;
        }
        let open = matches!(self.state, State::Merging | State::Asked) && self.round == header.round;
        if !open || self.is_silent(now) {
            return false;
        }
        self.state = State::Asked;
        self.wanted_at = now;
        true
    }

    pub(crate) fn cancel_putting(&mut self) {
        self.putting = false;
    }

    /// Whether the store's part of this sum is missing here.
    pub(crate) fn lacks(&self, round: Round, set: MemberSet) -> bool {
        let open = matches!(self.state, State::Merging | State::Asked | State::Recalling);
        open && self.round == round && self.past == set && !set.is_empty()
    }

    /// The store's part of the sum is being added.
    pub(crate) fn take_back(&mut self) {
        self.putting = false;
        self.past = MemberSet::EMPTY;
    }

    /// R-SPILL-4: what the store held is missing again. Whether it held a part of this sum.
    pub(crate) fn forget_stored(&mut self) -> bool {
        self.putting = false;
        if self.past.is_empty() {
            return false;
        }
        // What is still here could stay, but for how many workers it stands is not known apart.
        self.forget_sum();
        true
    }

    /// A sum that waits is missing again.
    pub(crate) fn forget_sum(&mut self) {
        self.past = MemberSet::EMPTY;
        self.set = MemberSet::EMPTY;
        self.workers = 0;
        if self.state == State::Recalling {
            self.state = State::Asked;
        }
    }

    /// R-SPILL-1: gives up the values of a complete slot, and with them the slot: as if it were new in its round.
    pub(crate) fn forget_result(&mut self) -> Option<u32> {
        if self.state != State::Complete || self.frame == NO_FRAME {
            return None;
        }
        self.state = State::Merging;
        self.set = MemberSet::EMPTY;
        self.workers = 0;
        self.take_frame()
    }
}

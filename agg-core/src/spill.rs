//! Near memory for fewer chunks than a job has generations, before a deeper store (R-SPILL).
//!
//! A job with frames has heads for its whole window, but values for some generations only. Results whose frame is
//! needed are forgotten: members that still lack one are helped by the others (R-SLOT-4). Sums that wait for a late
//! member are put into the store, which is the host's: memory behind a NIC's or a kernel's, or another machine. What
//! is put stays here until the store has said that it has it.

use heapless::Deque;

use crate::slot::{Head, NO_FRAME};
use crate::wire::{Flags, Header};
use crate::{Counter, Counters, MemberSet, Nanos, Round};

/// Heads that are looked at for one that can give up its frame, before an arrival is dropped.
const STEPS: u32 = 256;

/// A sum is put into the store when it has waited for so long: its punctual members are in.
const PATIENCE: Nanos = 1_000_000;

/// Requests that wait for the host. What finds no place is asked for again by the next arrival.
const QUEUE: usize = 64;

/// What the host is to do with its store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreRequest<'v> {
    /// The job.
    pub key: u64,
    /// Which of the job's generations; a new request takes the place of an older one's values.
    pub place: u32,
    /// Its round: with the set it says which sum it is.
    pub round: Round,
    /// The members whose values are in the sum.
    pub set: MemberSet,
    /// What to do.
    pub action: StoreAction<'v>,
}

/// What the host is to do with its store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreAction<'v> {
    /// Keep these values, then call [`crate::Aggregator::stored`].
    Put(&'v [i32]),
    /// Give the values back by [`crate::Aggregator::recalled`].
    Get,
}

/// The frames of one job: which are free, and what is to be asked of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frames {
    count: u32,
    /// The first free frame; the first lane of a free one holds the number of the next.
    free: u32,
    /// Frames of sums that wait.
    waiting: u32,
    evict_at: u32,
    put_at: u32,
    /// When an unanswered put was last repeated.
    repeated_at: Nanos,
    requests: Deque<u32, QUEUE>,
}

/// Without the requests, which are none once the host has taken them.
impl core::hash::Hash for Frames {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        (self.count, self.free, self.waiting, self.evict_at, self.put_at).hash(state);
    }
}

impl Frames {
    /// Frames over `values` of `lanes` each. One is kept for results that pass through: those who wait for one may be all
    /// that the other frames wait for.
    pub(crate) fn new(count: u32, values: &mut [i32], lanes: usize) -> Self {
        let count = count.saturating_sub(1);
        for (number, frame) in values.chunks_exact_mut(lanes.max(1)).enumerate() {
            if let Some(next) = frame.first_mut() {
                *next = number as i32 + 1;
            }
        }
        Self {
            count,
            free: 0,
            waiting: 0,
            evict_at: 0,
            put_at: 0,
            repeated_at: 0,
            requests: Deque::new(),
        }
    }

    /// The same without its time, which only paces what is asked of the store (as [`Head::without_time`]).
    pub fn without_time(&self) -> Self {
        Self {
            repeated_at: 0,
            ..self.clone()
        }
    }

    /// How many frames the job was given.
    pub(crate) fn given(&self) -> u32 {
        self.count + 1
    }

    /// The frame for an arrival at the generation `index`: its own, a new one where it will be taken in, or any where it
    /// will not touch values. `None` where there is no frame to be had.
    pub(crate) fn find<const N: usize>(
        &mut self,
        heads: &mut [Head],
        values: &mut [i32],
        index: usize,
        header: &Header,
        has_values: bool,
        counters: &mut Counters,
    ) -> Option<usize> {
        let head = heads.get(index)?;
        if head.frame() != NO_FRAME {
            return Some(head.frame() as usize);
        }
        if !has_values || !head.takes(header) {
            return Some(0);
        }
        match self.assign::<N>(heads, values, index, counters) {
            Some(frame) => Some(frame),
            None if header.flags.has(Flags::RESULT) => {
                heads.get_mut(index)?.set_frame(self.count);
                Some(self.count as usize)
            }
            None => None,
        }
    }

    /// Gives the generation a frame that holds nothing: what was merged already, if anything, is in the store and comes later.
    pub(crate) fn assign<const N: usize>(
        &mut self,
        heads: &mut [Head],
        values: &mut [i32],
        index: usize,
        counters: &mut Counters,
    ) -> Option<usize> {
        let number = match self.pop::<N>(values) {
            Some(number) => number,
            None => self.evict(heads, counters)?,
        };
        let head = heads.get_mut(index)?;
        frame_mut::<N>(values, number)?.fill(head.combine().identity());
        head.set_frame(number);
        Some(number as usize)
    }

    fn pop<const N: usize>(&mut self, values: &mut [i32]) -> Option<u32> {
        let number = self.free;
        if number >= self.count {
            return None;
        }
        self.free = *frame_mut::<N>(values, number)?.first()? as u32;
        Some(number)
    }

    fn push(&mut self, values: &mut [i32], lanes: usize, number: u32) {
        if let Some(next) = values.get_mut((number as usize).saturating_mul(lanes)) {
            *next = self.free as i32;
            self.free = number;
        }
    }

    /// Forgets a result: the one whose turn it is.
    fn evict(&mut self, heads: &mut [Head], counters: &mut Counters) -> Option<u32> {
        for _ in 0..STEPS {
            let head = step(&mut self.evict_at, heads)?;
            if let Some(frame) = head.forget_result() {
                counters.add(Counter::Evicted);
                return Some(frame);
            }
        }
        None
    }

    /// Keeps account after an arrival at `head`, which held a waiting sum before it or not, and asks the store for room.
    pub(crate) fn after<const N: usize>(
        &mut self,
        heads: &mut [Head],
        values: &mut [i32],
        index: usize,
        waited: bool,
        now: Nanos,
        counters: &mut Counters,
    ) {
        let Some(head) = heads.get_mut(index) else { return };
        if head.frame() == self.count {
            head.forget_result();
            head.take_frame();
        }
        // Header-only, or it was not taken in after all.
        if (!head.has_values() || head.sum().1.is_empty())
            && let Some(frame) = head.take_frame()
        {
            self.push(values, N, frame);
        }
        self.waiting = self.waiting + u32::from(head.waits_near()) - u32::from(waited).min(self.waiting);
        // Where sums that wait have nearly all frames, results that could go are too rare to be searched for.
        if self.free >= self.count
            && 2 * self.waiting > self.count
            && let Some(frame) = head.forget_result()
        {
            counters.add(Counter::Evicted);
            self.push(values, N, frame);
        }
        // From half on: the store's answer takes time in which arrivals need frames.
        if 2 * self.waiting > self.count {
            self.request_put(heads, now);
        }
    }

    /// Asks the store to take a sum that waits; its own part of it back first, if it has one. Where all were asked for already
    /// its answers may have been lost: from time to time one is asked for again, which changes nothing if it was there.
    pub(crate) fn request_put(&mut self, heads: &mut [Head], now: Nanos) {
        // Where there is hardly any room left, whatever waits must go.
        let crowded = u64::from(self.waiting) * 4 > u64::from(self.count) * 3;
        let patience = if crowded { 0 } else { PATIENCE };
        let mut unanswered = None;
        for _ in 0..STEPS {
            let at = self.put_at;
            let Some(head) = step(&mut self.put_at, heads) else {
                return;
            };
            if !head.can_be_put(now, patience) {
                continue;
            }
            if head.is_putting() {
                unanswered = unanswered.or(Some(at));
                continue;
            }
            if self.requests.push_back(at).is_ok() {
                head.set_putting();
            }
            return;
        }
        if let Some(at) = unanswered
            && now.wrapping_sub(self.repeated_at) >= PATIENCE
        {
            self.repeated_at = now;
            // Where there is no room it is its turn again later.
            let _ = self.requests.push_back(at);
        }
    }

    /// A generation's values are needed again.
    pub(crate) fn request_get(&mut self, index: usize) {
        // Where there is no room the next resend asks again.
        let _ = self.requests.push_back(index as u32);
    }

    /// Whether there may be a request.
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// The next request that still holds.
    pub(crate) fn request<'v>(
        &mut self,
        key: u64,
        heads: &[Head],
        values: &'v [i32],
        lanes: usize,
        counters: &mut Counters,
    ) -> Option<StoreRequest<'v>> {
        while let Some(place) = self.requests.pop_front() {
            let Some(head) = heads.get(place as usize) else {
                continue;
            };
            let (round, set) = head.sum();
            let request = |set, action| StoreRequest {
                key,
                place,
                round,
                set,
                action,
            };
            // Also where only a part waits: the whole is put then.
            let asks = head.is_recalling() || head.is_stored() && head.is_putting();
            if asks {
                counters.add(Counter::Recalled);
                return Some(request(head.stored_set(), StoreAction::Get));
            }
            let frame = values
                .get((head.frame() as usize).saturating_mul(lanes)..)
                .and_then(|values| values.get(..lanes));
            if let (true, Some(frame)) = (head.is_putting(), frame) {
                counters.add(Counter::Spilled);
                return Some(request(set, StoreAction::Put(frame)));
            }
        }
        None
    }

    /// The store has the sum of `round` and `set`: its frame is free, if it is still the same.
    pub(crate) fn stored(
        &mut self,
        heads: &mut [Head],
        values: &mut [i32],
        lanes: usize,
        place: u32,
        (round, set): (Round, MemberSet),
    ) {
        let head = heads.get_mut(place as usize);
        if let Some(frame) = head.and_then(|head| head.hand_over(round, set)) {
            self.waiting = self.waiting.saturating_sub(1);
            self.push(values, lanes, frame);
        }
    }

    /// The store is gone: whatever it held is missing again, and the members are asked for it.
    pub(crate) fn lost(&mut self, heads: &mut [Head], values: &mut [i32], lanes: usize) {
        self.waiting = 0;
        for head in &mut *heads {
            if head.forget_stored()
                && let Some(frame) = head.take_frame()
            {
                self.push(values, lanes, frame);
            }
            self.waiting += u32::from(head.waits_near());
        }
        self.requests.clear();
        // Where it stays away, nothing else frees the frame of a sum that nobody needs any more.
        if self.waiting >= self.count {
            self.forget_one(heads, values, lanes);
        }
    }

    /// Forgets a sum that waits: the one whose turn it is.
    fn forget_one(&mut self, heads: &mut [Head], values: &mut [i32], lanes: usize) {
        for _ in 0..heads.len() {
            if let Some(head) = step(&mut self.put_at, heads)
                && head.waits_near()
                && let Some(frame) = head.take_frame()
            {
                head.forget_sum();
                self.waiting -= 1;
                return self.push(values, lanes, frame);
            }
        }
    }
}

fn step<'h>(at: &mut u32, heads: &'h mut [Head]) -> Option<&'h mut Head> {
    let index = *at as usize;
    *at = if index + 1 < heads.len() { *at + 1 } else { 0 };
    heads.get_mut(index)
}

pub(crate) fn frame_mut<const N: usize>(values: &mut [i32], number: u32) -> Option<&mut [i32; N]> {
    values
        .get_mut((number as usize).checked_mul(N)?..)?
        .first_chunk_mut::<N>()
}

//! Near memory before a deeper store (docs/protocol.md, "Spill").
//!
//! Which complete slot is forgotten and which sum is put the rules leave open: the model is told, and checks that it
//! may be.

use std::collections::BTreeSet;

use crate::aggregator::ModelAggregator;
use crate::generation::{Effect, Generation, PAUSE, Stage};
use crate::job::ModelJob;
use crate::packet::{DATA, FROM_AGGREGATOR, ModelPacket};
use crate::verdict::ModelVerdict;

/// What the store is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelRequest {
    /// Which generation, counting slot by slot.
    pub place: u32,
    /// Its round.
    pub round: u32,
    /// Whose sum.
    pub set: BTreeSet<u8>,
    /// The values to keep; none where they are to be given back.
    pub put: Option<Vec<i32>>,
}

impl Generation {
    /// Whether it is a sum that waits in a frame.
    fn waits(&self) -> bool {
        self.near && !self.set.is_empty() && matches!(self.stage, Stage::Open | Stage::Recalling)
    }

    /// Whether an arrival of its round will be taken in.
    fn takes(&self, arrival: &ModelPacket) -> bool {
        let new = match arrival.result {
            true => self.wanted_at.is_some(),
            false => !arrival.set.is_subset(&self.set),
        };
        self.stage == Stage::Open && new
    }

    /// R-SPILL-1, R-SPILL-4: its set is empty, in its round.
    fn empty(&mut self) {
        self.set.clear();
        self.workers = 0;
        self.values.clear();
        self.stored.clear();
        (self.near, self.putting) = (false, false);
        match self.stage {
            Stage::Complete => (self.stage, self.wanted_at) = (Stage::Open, None),
            Stage::Recalling => self.stage = Stage::Open,
            _ => {}
        }
    }

    /// R-SPILL-3: its set is full, and a part is in the store.
    pub(crate) fn recall(&mut self, now: u64) -> Effect {
        self.stage = Stage::Recalling;
        self.wanted_at = Some(now);
        self.recalls = true;
        Effect::Quiet("contributions_merged")
    }

    /// R-SPILL-3, again.
    pub(crate) fn arrive_when_recalling(&mut self, arrival: &ModelPacket, now: u64) -> Effect {
        match arrival.resend && self.wanted_at.is_none_or(|at| now - at >= PAUSE) {
            true => self.recall(now),
            false => Effect::Quiet("duplicates"),
        }
    }
}

impl ModelAggregator {
    /// The next event forgets the result of this generation: its slot, and its number there.
    pub fn forgets(&mut self, slot: u16, generation: u32) {
        self.forgotten = Some((slot, generation));
    }

    /// A generation by its place in a job.
    fn at(&mut self, key: u64, place: u32) -> Option<&mut Generation> {
        let generations = u32::from(self.jobs.get(&key)?.generations);
        let (slot, generation) = (place / generations, place % generations);
        self.generations.get_mut(&(key, slot as u16, generation))
    }

    /// The generations of a job that hold frames: slot, number there, and whether it is a result that may be forgotten.
    pub fn near(&self, key: u64) -> Vec<(u16, u32, bool)> {
        let of_job = self.generations.iter().filter(|((of, ..), _)| *of == key);
        let near = of_job.filter(|(_, generation)| generation.near);
        near.map(|((_, slot, number), generation)| (*slot, *number, generation.stage == Stage::Complete))
            .collect()
    }

    /// The store was asked for what is full; its answer comes when it comes.
    pub(crate) fn asked(&mut self, key: u64) {
        let of_job = self.generations.iter_mut().filter(|((of, ..), _)| *of == key);
        of_job.for_each(|(_, held)| held.recalls = false);
    }

    /// The values of a generation that are near.
    pub(crate) fn values(&mut self, key: u64, place: u32) -> &[i32] {
        &self.at(key, place).expect("it was used").values
    }

    /// Whether the store has a part of what a generation holds.
    pub fn is_stored(&self, key: u64, slot: u16, generation: u32) -> bool {
        let held = self.generations.get(&(key, slot, generation));
        held.is_some_and(|held| !held.stored.is_empty())
    }

    fn waiting_near(&self, key: u64) -> usize {
        let of_job = self.generations.iter().filter(|((of, ..), _)| *of == key);
        of_job.filter(|(_, generation)| generation.waits()).count()
    }

    /// Frames but the one that is kept for RESULTs.
    fn usable(&self, key: u64) -> usize {
        self.jobs[&key]
            .frames
            .map_or(usize::MAX, |frames| frames as usize - 1)
    }

    /// R-SPILL-1: whether there is a frame, now that a result may have been forgotten.
    fn has_frame(&mut self, key: u64, counted: &mut Vec<&'static str>) -> bool {
        let near = self.near(key);
        if near.len() < self.usable(key) {
            return true;
        }
        let complete: Vec<_> = near.iter().filter(|(.., complete)| *complete).collect();
        if complete.is_empty() {
            return false;
        }
        let only = match complete[..] {
            [(slot, number, _)] => Some((*slot, *number)),
            _ => None,
        };
        let chosen = self
            .forgotten
            .take()
            .or(only)
            .expect("a result is forgotten, and which is said");
        assert!(
            complete
                .iter()
                .any(|(slot, number, _)| (*slot, *number) == chosen),
            "{chosen:?} is no result"
        );
        let generation = self.generations.get_mut(&(key, chosen.0, chosen.1));
        generation.expect("it holds a frame").empty();
        counted.push("results_forgotten");
        true
    }

    /// What a member sent, in a job with a store.
    pub(crate) fn take_near(
        &mut self,
        packet: &ModelPacket,
        values: Vec<i32>,
        now: u64,
    ) -> (Effect, Vec<&'static str>) {
        let mut counted = Vec::new();
        let place = self.place(packet);
        let held = self.generations.get(&place);
        let newer = held.is_none_or(|held| crate::round::is_after(packet.round, held.round));
        let taken = match held {
            Some(held) if !newer => held.round == packet.round && held.takes(packet),
            _ => !packet.result,
        };
        let near = held.is_some_and(|held| held.near);
        let mut passes = false;
        let needs_frame = !packet.header_only && taken && !near;
        if needs_frame && !self.has_frame(packet.key, &mut counted) {
            if !packet.result {
                return (self.turn_away(packet, now), counted);
            }
            passes = true;
        } else if needs_frame && let Some(held) = self.generations.get_mut(&place) {
            // What it holds is in the store; here it begins with nothing.
            held.values.clear();
        }
        let before = self
            .generations
            .get(&place)
            .map(|held| (held.round, held.set.clone()));
        let effect = self.merge(packet, values, now);
        if let Some(held) = self.generations.get_mut(&place) {
            let has_values = !held.header_only && !held.set.is_empty();
            held.near = (near || taken && !packet.header_only) && has_values;
            held.putting &= held.near && before == Some((held.round, held.set.clone()));
            if passes {
                match held.stage {
                    Stage::Complete => held.empty(),
                    _ => held.near = false,
                }
            }
        }
        self.give_up_at_once(place, &mut counted);
        (effect, counted)
    }

    /// R-SPILL-1: a slot that is complete now, where no frame is free and more than half hold sums that wait.
    fn give_up_at_once(&mut self, place: (u64, u16, u32), counted: &mut Vec<&'static str>) {
        let (key, ..) = place;
        let full = self.near(key).len() >= self.usable(key);
        if full
            && 2 * self.waiting_near(key) > self.usable(key)
            && let Some(held) = self.generations.get_mut(&place)
            && held.near
            && held.stage == Stage::Complete
        {
            held.empty();
            counted.push("results_forgotten");
        }
    }

    /// R-SPILL-1: there is no frame.
    fn turn_away(&mut self, packet: &ModelPacket, now: u64) -> Effect {
        let counter = "dropped_no_free_frame";
        if !packet.resend {
            return Effect::Quiet(counter);
        }
        let place = self.place(packet);
        let job = &self.jobs[&packet.key];
        let held = self
            .generations
            .get_mut(&place)
            .filter(|held| held.round == packet.round);
        let held = match held {
            Some(held) if held.wanted_at.is_some_and(|at| now - at < PAUSE) => return Effect::Quiet(counter),
            Some(held) => held,
            None => {
                self.generations
                    .insert(place, Generation::opened_by_want(packet, now));
                self.generations.get_mut(&place).expect("it was put there")
            }
        };
        match held.want_all(packet, job, now) {
            Effect::ToAll(_, want) => Effect::ToAll(counter, want),
            other => other,
        }
    }

    /// What is asked of the store now: it may be, and whatever has to be is among it.
    pub fn requested(&mut self, key: u64, now: u64, requests: &[ModelRequest]) {
        let (waiting, usable) = (self.waiting_near(key), self.usable(key));
        let full = self.near(key).len() == usable;
        for request in requests {
            let held = self
                .at(key, request.place)
                .expect("of a generation that was used");
            assert_eq!(held.round, request.round, "{request:?}");
            let recalls = std::mem::take(&mut held.recalls);
            if request.put.is_none() && recalls {
                assert_eq!(held.stored, request.set, "{request:?}");
                continue;
            }
            // R-SPILL-2
            assert!(
                2 * waiting > usable || full,
                "{waiting} of {usable} wait: {request:?}"
            );
            let crowded = 4 * waiting > 3 * usable;
            assert!(
                held.waits() && (crowded || now - held.opened_at >= PAUSE),
                "{request:?}"
            );
            match &request.put {
                Some(values) => {
                    assert!(held.stored.is_empty(), "{request:?}");
                    assert_eq!((&held.set, &held.values), (&request.set, values), "what is put");
                    held.putting = true;
                }
                None => assert!(
                    !held.stored.is_empty() && held.stored == request.set,
                    "{request:?}"
                ),
            }
        }
        for ((of, ..), held) in &self.generations {
            assert!(
                *of != key || !held.recalls,
                "the store was not asked for {held:?}"
            );
        }
    }

    /// R-SPILL-2: the store has confirmed.
    pub fn stored(&mut self, key: u64, place: u32, round: u32, set: &BTreeSet<u8>) {
        if let Some(held) = self.at(key, place)
            && held.putting
            && held.waits()
            && held.stored.is_empty()
            && (held.round, &held.set) == (round, set)
        {
            held.stored.clone_from(set);
            held.values.clear();
            (held.near, held.putting) = (false, false);
        }
    }

    /// R-SPILL-3: the store gives its part back. What is counted besides the verdict's counter.
    pub fn recalled(
        &mut self,
        key: u64,
        place: u32,
        sum: (u32, &BTreeSet<u8>),
        values: &[i32],
        now: u64,
    ) -> (ModelVerdict, Vec<&'static str>) {
        let mut counted = Vec::new();
        let Some(held) = self.at(key, place).filter(|held| {
            let open = matches!(held.stage, Stage::Open | Stage::Recalling);
            open && (held.round, &held.stored) == sum && !held.stored.is_empty()
        }) else {
            return (ModelVerdict::quiet("duplicates"), counted);
        };
        if !held.near && !self.has_frame(key, &mut counted) {
            return (ModelVerdict::quiet("dropped_no_free_frame"), counted);
        }
        let job = self.jobs[&key].clone();
        let held = self.at(key, place).expect("it was there");
        held.combine(values);
        held.stored.clear();
        (held.near, held.putting) = (true, false);
        held.stage = Stage::Open;
        let about = about(&job, place);
        let effect = held.settle(&about, &job, "contributions_merged", now);
        let generations = u32::from(job.generations);
        self.give_up_at_once(
            (key, (place / generations) as u16, place % generations),
            &mut counted,
        );
        (ModelVerdict::of(effect), counted)
    }

    /// R-SPILL-4. Where no frame is free then, `also` is the sum that is emptied besides.
    pub fn store_lost(&mut self, key: u64, also: Option<(u16, u32)>) {
        let of_job = self.generations.iter_mut().filter(|((of, ..), _)| *of == key);
        for (_, held) in of_job {
            if !held.stored.is_empty() {
                held.empty();
            }
            held.putting = false;
        }
        let full = self.waiting_near(key) >= self.usable(key);
        assert_eq!(full, also.is_some(), "one more is emptied where no frame is free");
        if let Some((slot, number)) = also {
            let held = self
                .generations
                .get_mut(&(key, slot, number))
                .filter(|held| held.waits());
            held.expect("a sum that waits").empty();
        }
    }
}

/// A packet about the slot of a place.
fn about(job: &ModelJob, place: u32) -> ModelPacket {
    ModelPacket {
        kind: DATA,
        up: false,
        result: false,
        resend: false,
        nonfinite: false,
        header_only: false,
        congested: false,
        member: FROM_AGGREGATOR,
        slot: (place / u32::from(job.generations)) as u16,
        key: job.key,
        epoch: job.epoch,
        round: 0,
        set: BTreeSet::new(),
        workers: 0,
        scale: None,
        next: None,
        op: 0,
        op_seq: 0,
        rest: Vec::new(),
    }
}

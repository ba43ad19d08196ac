//! The aggregator: a packet in, a verdict out (R-VALID, R-SLOT).
//!
//! One [`Aggregator`] is one shard with one owner. The memory of its slots is the host's, handed in once; nothing
//! is allocated afterwards. Hosts that keep slots elsewhere (eBPF maps) use the same parts directly:
//! [`Header::parse`], [`Job::authorize`], [`Head::accept`].

use heapless::Vec;
use heapless::index_map::IndexMap;

use crate::job::{Job, Rejection, Way};
use crate::key_hash::BuildKeyHash;
use crate::pool::{self, Extent};
use crate::round::GENERATIONS;
use crate::slot::{Arrival, Head, Lag, Outcome, To, mark_past};
use crate::spill::{Frames, StoreRequest, frame_mut};
use crate::wire::{Ecn, HEADER_LEN, Header, Invalid, Probe};
use crate::{
    Abort, AdmitError, Counter, Counters, Endpoint, Epoch, JobConfig, Lanes, MAX_MEMBERS, Member, MemberSet,
    Nanos, Round,
};

/// Jobs that one aggregator can hold.
pub const MAX_JOBS: usize = 64;

/// What the host does with the packet that [`Aggregator::handle`] was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing to send.
    Quiet,
    /// The first `len` bytes of the output go back to the source.
    Reply {
        /// Bytes to send.
        len: usize,
    },
    /// The first `len` bytes of the output go to every member of the job.
    Broadcast {
        /// The job.
        key: u64,
        /// Bytes to send.
        len: usize,
    },
    /// The first `len` bytes of the output go to the job's parent.
    Forward {
        /// The job.
        key: u64,
        /// Bytes to send.
        len: usize,
    },
}

#[derive(Clone, Debug)]
struct Entry {
    job: Job,
    members: Vec<Member, MAX_MEMBERS>,
    lanes: Lanes,
    extent: Extent,
    /// Where it has fewer frames than generations.
    frames: Option<Frames>,
}

/// An aggregator over borrowed or owned slot memory: `H` holds heads, `V` holds lanes (boxed slices, arrays, …).
#[derive(Clone, Debug)]
pub struct Aggregator<H, V> {
    jobs: IndexMap<u64, Entry, BuildKeyHash, MAX_JOBS>,
    heads: H,
    values: V,
    counters: Counters,
    /// With which probes are answered.
    probe_epoch: Option<Epoch>,
}

impl<H: AsRef<[Head]> + AsMut<[Head]>, V: AsRef<[i32]> + AsMut<[i32]>> Aggregator<H, V> {
    /// An aggregator without jobs.
    pub fn new(heads: H, values: V) -> Self {
        Self {
            jobs: IndexMap::default(),
            heads,
            values,
            counters: Counters::default(),
            probe_epoch: None,
        }
    }

    /// From now on probes that carry this epoch are answered (R-PROBE-2): that of the aggregator's start, which its control
    /// service tells. Who does not know it gets no answer.
    pub fn answer_probes(&mut self, epoch: Epoch) {
        self.probe_epoch = Some(epoch);
    }

    /// The epoch of a job.
    pub fn epoch(&self, key: u64) -> Option<Epoch> {
        self.jobs.get(&key).map(|entry| entry.job.epoch)
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The members of a job, in the order of their numbers.
    pub fn members(&self, key: u64) -> Option<&[Member]> {
        self.jobs.get(&key).map(|entry| entry.members.as_slice())
    }

    /// The frames of a job that has a store (R-SPILL).
    pub fn frames(&self, key: u64) -> Option<u32> {
        Some(self.jobs.get(&key)?.frames.as_ref()?.given())
    }

    /// What is known of a job's frames besides the slot memory. To save it.
    pub fn spill(&self, key: u64) -> Option<&Frames> {
        self.jobs.get(&key)?.frames.as_ref()
    }

    /// The same, to restore what [`Self::spill`] gave beside the slots' memory.
    pub fn spill_mut(&mut self, key: u64) -> Option<&mut Frames> {
        self.jobs.get_mut(&key)?.frames.as_mut()
    }

    /// The slot memory of all jobs: heads and values. To inspect it, or to save it.
    pub fn memory(&self) -> (&[Head], &[i32]) {
        (self.heads.as_ref(), self.values.as_ref())
    }

    /// The slot memory of all jobs, to restore what [`Self::memory`] gave under the same jobs.
    pub fn memory_mut(&mut self) -> (&mut [Head], &mut [i32]) {
        (self.heads.as_mut(), self.values.as_mut())
    }

    /// What is known of a job besides its members and slots.
    pub fn job(&self, key: u64) -> Option<&Job> {
        self.jobs.get(&key).map(|entry| &entry.job)
    }

    /// The same, to restore what [`Self::job`] gave beside the slots' memory: under a quorum packets change it.
    pub fn job_mut(&mut self, key: u64) -> Option<&mut Job> {
        self.jobs.get_mut(&key).map(|entry| &mut entry.job)
    }

    /// Takes a job in: reserves and empties its slots. A suspended job of the same key is replaced; it stays as it was
    /// where there is an error.
    pub fn admit(&mut self, config: &JobConfig) -> Result<(), AdmitError> {
        config.check()?;
        let suspended = self.jobs.get(&config.key).map(|entry| entry.job.suspended);
        if suspended == Some(false) {
            return Err(AdmitError::Key);
        }
        let (heads, values) = (self.heads.as_ref().len(), self.values.as_ref().len());
        let taken = self.taken(Some(config.key));
        let extent = pool::place(config, &taken, heads, values)?;
        if self.jobs.len() == MAX_JOBS && suspended.is_none() {
            return Err(AdmitError::Jobs(MAX_JOBS));
        }
        if let Some(heads) = self.heads.as_mut().get_mut(extent.heads.clone()) {
            heads.fill(Head::VACANT);
        }
        let job = config.job();
        let frames = config.frames.map(|frames| {
            let values = self.values.as_mut().get_mut(extent.values.clone());
            Frames::new(frames, values.unwrap_or_default(), config.lanes.count())
        });
        let entry = Entry {
            job,
            members: config.members.clone(),
            lanes: config.lanes,
            extent,
            frames,
        };
        self.jobs
            .insert(config.key, entry)
            .map(|_| ())
            .map_err(|_| AdmitError::Jobs(MAX_JOBS))
    }

    /// Ends a job: from now on each of its packets is refused with the reason (R-JOB-2). The first abort stays.
    pub fn abort(&mut self, key: u64, abort: Abort) {
        if let Some(entry) = self.jobs.get_mut(&key) {
            entry.job.abort.get_or_insert(abort);
        }
    }

    /// From now on each packet of the job is refused: its members are to register again, for the job to be admitted
    /// anew with a higher epoch (R-REFORM-1).
    pub fn suspend(&mut self, key: u64) {
        if let Some(entry) = self.jobs.get_mut(&key) {
            entry.job.suspended = true;
        }
    }

    /// Removes a member from a job under a quorum: no slot waits for it any more, and its packets are refused
    /// (R-QUORUM-5). Slots that are let go by this go with their next arrival.
    pub fn exclude(&mut self, key: u64, member: u8) {
        if let Some(entry) = self.jobs.get_mut(&key)
            && let Some(member) = entry.members.get(usize::from(member))
        {
            entry.job.exclude(member);
        }
    }

    /// Forgets a job and frees its slots.
    pub fn release(&mut self, key: u64) {
        self.jobs.swap_remove(&key);
    }

    /// What the jobs but `without` hold.
    fn taken(&self, without: Option<u64>) -> Vec<Extent, MAX_JOBS> {
        let mut taken = Vec::new();
        for (_, entry) in self.jobs.iter().filter(|(key, _)| Some(**key) != without) {
            // Always has room. `collect` would panic where it has not, and the compiler cannot tell.
            let _ = taken.push(entry.extent.clone());
        }
        taken
    }

    /// Bytes of slot memory that the next job is sure to get.
    pub fn largest_free(&self) -> u64 {
        let (heads, values) = (self.heads.as_ref().len(), self.values.as_ref().len());
        pool::largest_free(&self.taken(None), heads, values)
    }

    fn heads_of(&self, key: u64) -> Option<(&Entry, &[Head])> {
        let entry = self.jobs.get(&key)?;
        Some((entry, self.heads.as_ref().get(entry.extent.heads.clone())?))
    }

    /// The slots of a job that wait for members: slot, round, and the members that are in.
    pub fn waiting(&self, key: u64) -> impl Iterator<Item = (u16, Round, MemberSet)> + '_ {
        let (generations, heads) = self
            .heads_of(key)
            .map_or((GENERATIONS, &[][..]), |(entry, heads)| {
                (entry.job.generations, heads)
            });
        heads.iter().enumerate().filter_map(move |(index, head)| {
            let slot = index.checked_div(usize::from(generations)).unwrap_or(0);
            head.waiting().map(|(round, set)| (slot as u16, round, set))
        })
    }

    /// How far each member of a job is behind, by its number. It looks at every slot: for a report, not for each packet.
    pub fn lags(&self, key: u64, now: Nanos) -> Vec<Lag, MAX_MEMBERS> {
        let mut lags = Vec::new();
        let Some((entry, heads)) = self.heads_of(key) else {
            return lags;
        };
        // As many as members: it has room.
        let _ = lags.resize_default(entry.members.len());
        for head in heads {
            head.add_lag(&entry.job, &entry.members, now, &mut lags);
        }
        lags
    }

    /// Handles one packet, of whose way nothing is known: [`Self::handle_ecn`] without a mark.
    #[inline(always)]
    pub fn handle(&mut self, packet: &[u8], source: &Endpoint, now: Nanos, out: &mut [u8]) -> Verdict {
        self.handle_ecn(packet, Ecn::Clear, source, now, out)
    }

    /// Handles one packet, and whether the network has marked it (R-ECN-2). What is to be sent is written to `out`, which
    /// must hold a packet of the largest chunk in use; the verdict says to whom.
    #[inline(always)]
    pub fn handle_ecn(
        &mut self,
        packet: &[u8],
        ecn: Ecn,
        source: &Endpoint,
        now: Nanos,
        out: &mut [u8],
    ) -> Verdict {
        let Some((front, rest)) = packet.split_first_chunk::<HEADER_LEN>() else {
            return self.quiet(Counter::DroppedLength);
        };
        if let Err(invalid) = Header::validate(front) {
            return self.handle_other(invalid, front, packet.len(), out);
        }
        let header = Header::read(front).arrived(ecn);
        let Some(entry) = self.jobs.get_mut(&header.key) else {
            return self.quiet(Counter::DroppedKey);
        };
        let member = entry.members.get(usize::from(header.member));
        let way = match entry.job.way(&header, member, source) {
            Ok(way) => way,
            Err(Rejection::Drop(counter)) => return self.quiet(counter),
            Err(Rejection::Refuse(refusal)) => {
                let answer = entry.job.refusal(&header, refusal);
                self.counters.add(refusal.counter());
                return emit_header(&answer, out).map_or(Verdict::Quiet, |len| Verdict::Reply { len });
            }
        };
        let heads = self
            .heads
            .as_mut()
            .get_mut(entry.extent.heads.clone())
            .unwrap_or_default();
        let values = self
            .values
            .as_mut()
            .get_mut(entry.extent.values.clone())
            .unwrap_or_default();
        let place = Place {
            heads,
            values,
            header: &header,
            rest,
            frames: entry.frames.as_mut(),
            counters: &mut self.counters,
            job: &mut entry.job,
            sender: member.map_or(MemberSet::EMPTY, |member| member.set),
            down: way == Way::Down,
            now,
        };
        let (counter, verdict) = match entry.lanes {
            Lanes::L16 => place.run::<16>(out),
            Lanes::L256 => place.run::<256>(out),
            Lanes::L352 => place.run::<352>(out),
            Lanes::L848 => place.run::<848>(out),
            Lanes::L2048 => place.run::<2048>(out),
            Lanes::L8192 => place.run::<8192>(out),
        };
        self.counters.add(counter);
        verdict
    }

    /// What is to be asked of the host's store next: to be called after packets were handled, until there is no more.
    pub fn store_request(&mut self) -> Option<StoreRequest<'_>> {
        // First which job, then its request: a request borrows the memory.
        let waits = |entry: &Entry| entry.frames.as_ref().is_some_and(Frames::has_requests);
        let (&key, entry) = self.jobs.iter_mut().find(|(_, entry)| waits(entry))?;
        let (lanes, extent) = (entry.lanes, entry.extent.clone());
        let frames = entry.frames.as_mut()?;
        let heads = self.heads.as_ref().get(extent.heads)?;
        let values = self.values.as_ref().get(extent.values)?;
        frames.request(key, heads, values, lanes.count(), &mut self.counters)
    }

    /// The store has what [`StoreAction::Put`](crate::StoreAction::Put) gave it.
    pub fn stored(&mut self, key: u64, place: u32, round: Round, set: MemberSet) {
        let Some((entry, heads, values, _)) = self.parts(key) else {
            return;
        };
        let lanes = entry.lanes.count();
        if let Some(frames) = entry.frames.as_mut() {
            frames.stored(heads, values, lanes, place, (round, set));
        }
    }

    /// The store's answer to [`StoreAction::Get`](crate::StoreAction::Get). The verdict is as that of [`Self::handle`].
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of the answer, and where to write"
    )]
    pub fn recalled(
        &mut self,
        key: u64,
        place: u32,
        round: Round,
        set: MemberSet,
        sums: &[i32],
        now: Nanos,
        out: &mut [u8],
    ) -> Verdict {
        let Some((entry, heads, values, counters)) = self.parts(key) else {
            return Verdict::Quiet;
        };
        let recall = Recall {
            entry,
            heads,
            values,
            counters,
            key,
            place,
            sum: (round, set),
            now,
        };
        let (counter, verdict) = match recall.entry.lanes {
            Lanes::L16 => recall.run::<16>(sums, out),
            Lanes::L256 => recall.run::<256>(sums, out),
            Lanes::L352 => recall.run::<352>(sums, out),
            Lanes::L848 => recall.run::<848>(sums, out),
            Lanes::L2048 => recall.run::<2048>(sums, out),
            Lanes::L8192 => recall.run::<8192>(sums, out),
        };
        self.counters.add(counter);
        verdict
    }

    /// A job's store is gone, with all that it held: the members are asked for that again (R-SPILL-4).
    pub fn store_lost(&mut self, key: u64) {
        if let Some((entry, heads, values, _)) = self.parts(key)
            && let Some(frames) = entry.frames.as_mut()
        {
            frames.lost(heads, values, entry.lanes.count());
        }
    }

    /// A job with its part of the slot memory, and the counters.
    fn parts(&mut self, key: u64) -> Option<(&mut Entry, &mut [Head], &mut [i32], &mut Counters)> {
        let entry = self.jobs.get_mut(&key)?;
        let heads = self.heads.as_mut().get_mut(entry.extent.heads.clone())?;
        let values = self.values.as_mut().get_mut(entry.extent.values.clone())?;
        Some((entry, heads, values, &mut self.counters))
    }

    /// What is for no slot: a probe, or nothing of use.
    #[inline(never)]
    fn handle_other(
        &mut self,
        invalid: Invalid,
        front: &[u8; HEADER_LEN],
        len: usize,
        out: &mut [u8],
    ) -> Verdict {
        let (Some(epoch), Some(probe)) = (self.probe_epoch, Probe::read(front)) else {
            return self.quiet(invalid.counter());
        };
        match probe.answer(epoch, len) {
            Ok((answer, lanes)) => match answer.write(lanes, out) {
                Some(len) => {
                    self.counters.add(Counter::ProbesAnswered);
                    Verdict::Reply { len }
                }
                None => self.quiet(Counter::DroppedLength),
            },
            Err(counter) => self.quiet(counter),
        }
    }

    #[inline(always)]
    fn quiet(&mut self, counter: Counter) -> Verdict {
        self.counters.add(counter);
        Verdict::Quiet
    }
}

/// An authorised packet beside its job's slot memory.
struct Place<'a> {
    heads: &'a mut [Head],
    values: &'a mut [i32],
    header: &'a Header,
    rest: &'a [u8],
    job: &'a mut Job,
    frames: Option<&'a mut Frames>,
    counters: &'a mut Counters,
    /// The set of the member that sent it.
    sender: MemberSet,
    /// It came from the parent.
    down: bool,
    now: Nanos,
}

impl Place<'_> {
    /// Merges into the slot's generation and writes what is to be sent. What only some jobs need has code of its own, so
    /// that the code that most packets run stays small.
    #[inline(always)]
    fn run<const N: usize>(self, out: &mut [u8]) -> (Counter, Verdict) {
        if self.down || self.frames.is_some() {
            // A copy: a header whose address is given away cannot stay in registers.
            let header = *self.header;
            let place = Place {
                header: &header,
                ..self
            };
            return place.run_rarely::<N>(out);
        }
        // From members only data comes.
        let header = self.header;
        let Some(values) = values_of::<N>(header, self.rest) else {
            return (Counter::DroppedLength, Verdict::Quiet);
        };
        let job = self.job;
        if job.policy.keeps_history() {
            mark_past_of(self.heads, job, header.slot, header.round, self.sender);
        }
        let index = job.generation_of(header);
        let head = self.heads.get_mut(index);
        let lanes = frame_mut::<N>(self.values, index as u32);
        let (Some(head), Some(lanes)) = (head, lanes) else {
            return (Counter::DroppedSlot, Verdict::Quiet);
        };
        let outcome = head.accept(lanes, job, Arrival { header, values }, self.now);
        if job.policy.keeps_history() {
            job.late = head.late_after(outcome, self.sender, job);
        }
        emit(outcome, head, lanes, job, header, out)
    }

    /// Not inlined, and so compiled for the instruction set that every machine has, whatever the caller's is.
    #[inline(never)]
    fn run_rarely<const N: usize>(mut self, out: &mut [u8]) -> (Counter, Verdict) {
        match self.frames.take() {
            Some(frames) if !self.down => self.run_near::<N>(frames, out),
            _ => self.run_down::<N>(out),
        }
    }

    /// At a leaf: what the parent sent.
    fn run_down<const N: usize>(self, out: &mut [u8]) -> (Counter, Verdict) {
        let header = self.header;
        let Some(values) = values_of::<N>(header, self.rest) else {
            return (Counter::DroppedLength, Verdict::Quiet);
        };
        let index = self.job.generation_of(header);
        let head = self.heads.get_mut(index);
        let lanes = frame_mut::<N>(self.values, index as u32);
        let (Some(head), Some(lanes)) = (head, lanes) else {
            return (Counter::DroppedSlot, Verdict::Quiet);
        };
        let outcome = head.accept_down(lanes, self.job, Arrival { header, values }, self.now);
        emit(outcome, head, lanes, self.job, header, out)
    }

    /// In a job with fewer frames than generations (R-SPILL).
    fn run_near<const N: usize>(self, frames: &mut Frames, out: &mut [u8]) -> (Counter, Verdict) {
        let (header, job) = (self.header, self.job);
        let Some(arrived) = values_of::<N>(header, self.rest) else {
            return (Counter::DroppedLength, Verdict::Quiet);
        };
        let index = job.generation_of(header);
        // Before it may get a frame: what is in the store waits there.
        let waited = self.heads.get(index).is_some_and(Head::waits_near);
        let frame = frames.find::<N>(
            self.heads,
            self.values,
            index,
            header,
            arrived.is_some(),
            self.counters,
        );
        let Some(frame) = frame else {
            frames.request_put(self.heads, self.now);
            let asks = self.heads.get_mut(index).is_some_and(|head| {
                let asks = head.ask_without_frame(header, self.now);
                asks && emit_header(&head.want(header.key, job.epoch, header.slot), out).is_some()
            });
            let want = Verdict::Broadcast {
                key: header.key,
                len: HEADER_LEN,
            };
            return (Counter::DroppedMemory, if asks { want } else { Verdict::Quiet });
        };
        let head = self.heads.get_mut(index);
        let values = frame_mut::<N>(self.values, frame as u32);
        let (Some(head), Some(values)) = (head, values) else {
            return (Counter::DroppedSlot, Verdict::Quiet);
        };
        let arrival = Arrival {
            header,
            values: arrived,
        };
        let before = head.sum();
        let outcome = head.accept(values, job, arrival, self.now);
        if head.sum() != before {
            head.cancel_putting();
        }
        if matches!(outcome, Outcome::Recall) {
            frames.request_get(index);
        }
        let emitted = emit(outcome, head, values, job, header, out);
        frames.after::<N>(self.heads, self.values, index, waited, self.now, self.counters);
        emitted
    }
}

/// The store's answer beside its job's slot memory.
struct Recall<'a> {
    entry: &'a mut Entry,
    heads: &'a mut [Head],
    values: &'a mut [i32],
    counters: &'a mut Counters,
    key: u64,
    place: u32,
    sum: (Round, MemberSet),
    now: Nanos,
}

impl Recall<'_> {
    /// R-SPILL-3: merges the store's part, and lets the slot go if it is whole.
    fn run<const N: usize>(self, sums: &[i32], out: &mut [u8]) -> (Counter, Verdict) {
        let (job, index) = (&self.entry.job, self.place as usize);
        let unwanted = (Counter::Duplicate, Verdict::Quiet);
        let (Some(frames), Some(head)) = (self.entry.frames.as_mut(), self.heads.get(index)) else {
            return unwanted;
        };
        if sums.len() != N || !head.lacks(self.sum.0, self.sum.1) {
            return unwanted;
        }
        let waited = head.waits_near();
        if head.frame() == crate::slot::NO_FRAME
            && frames
                .assign::<N>(self.heads, self.values, index, self.counters)
                .is_none()
        {
            frames.request_put(self.heads, self.now);
            return (Counter::DroppedMemory, Verdict::Quiet);
        }
        let Some(head) = self.heads.get_mut(index) else {
            return unwanted;
        };
        let Some(values) = frame_mut::<N>(self.values, head.frame()) else {
            return unwanted;
        };
        head.take_back();
        let combine = head.combine();
        for (value, sum) in values.iter_mut().zip(sums) {
            *value = combine.lanes(*value, *sum);
        }
        let slot = index.checked_div(usize::from(job.generations)).unwrap_or(0) as u16;
        let arrival = head.result(self.key, job.epoch, slot);
        let outcome = head.settle_recalled(job, self.now);
        let emitted = emit(outcome, head, values, job, &arrival, out);
        frames.after::<N>(self.heads, self.values, index, waited, self.now, self.counters);
        emitted
    }
}

/// R-QUORUM-2 for the packet's slot.
#[inline(never)]
fn mark_past_of(heads: &mut [Head], job: &Job, slot: u16, round: Round, sender: MemberSet) {
    let first = usize::from(slot) * usize::from(job.generations);
    let generations = heads.get_mut(first..first + usize::from(job.generations));
    mark_past(generations.unwrap_or_default(), round, sender);
}

/// Writes what an outcome asks for, and says to whom it goes.
#[inline(always)]
fn emit<const N: usize>(
    outcome: Outcome,
    head: &Head,
    values: &[i32; N],
    job: &Job,
    arrival: &Header,
    out: &mut [u8],
) -> (Counter, Verdict) {
    let key = arrival.key;
    match outcome {
        Outcome::Quiet(counter) => (counter, Verdict::Quiet),
        Outcome::Release(counter) => {
            let result = head.released(counter, job.epoch, arrival);
            let len = emit_chunk(head, values, &result, out);
            (
                counter,
                len.map_or(Verdict::Quiet, |len| Verdict::Broadcast { key, len }),
            )
        }
        _ => {
            // A copy, as in `Place::run`.
            let arrival = *arrival;
            emit_rarely(outcome, head, values, job, &arrival, out)
        }
    }
}

/// The same for what does not come of every chunk: code of its own, to keep that of [`emit`] small.
#[inline(never)]
fn emit_rarely<const N: usize>(
    outcome: Outcome,
    head: &Head,
    values: &[i32; N],
    job: &Job,
    arrival: &Header,
    out: &mut [u8],
) -> (Counter, Verdict) {
    let key = arrival.key;
    let (counter, answer) = head.answer(outcome, job, arrival);
    let Some(answer) = answer else {
        return (counter, Verdict::Quiet);
    };
    let len = if answer.values {
        emit_chunk(head, values, &answer.header, out)
    } else {
        emit_header(&answer.header, out)
    };
    let verdict = len.map(|len| match answer.to {
        To::Sender => Verdict::Reply { len },
        To::Members => Verdict::Broadcast { key, len },
        To::Parent => Verdict::Forward { key, len },
    });
    (counter, verdict.unwrap_or(Verdict::Quiet))
}

/// The values behind a header (R-VALID-9).
#[inline(always)]
fn values_of<'p, const N: usize>(header: &Header, rest: &'p [u8]) -> Option<Option<&'p [[u8; 4]; N]>> {
    if header.payload_len(N) == 0 {
        return rest.is_empty().then_some(None);
    }
    let (lanes, leftover) = rest.as_chunks::<4>();
    let lanes: &[[u8; 4]; N] = lanes.try_into().ok()?;
    leftover.is_empty().then_some(Some(lanes))
}

#[inline(always)]
fn emit_header(header: &Header, out: &mut [u8]) -> Option<usize> {
    *out.first_chunk_mut::<HEADER_LEN>()? = header.emit();
    Some(HEADER_LEN)
}

/// A packet with the slot's values, if it has any.
#[inline(always)]
fn emit_chunk<const N: usize>(
    head: &Head,
    values: &[i32; N],
    header: &Header,
    out: &mut [u8],
) -> Option<usize> {
    let (front, rest) = out.split_first_chunk_mut::<HEADER_LEN>()?;
    *front = header.emit();
    if !head.has_values() {
        return Some(HEADER_LEN);
    }
    let lanes: &mut [[u8; 4]; N] = rest.as_chunks_mut::<4>().0.first_chunk_mut::<N>()?;
    for (lane, value) in lanes.iter_mut().zip(values) {
        *lane = value.to_le_bytes();
    }
    Some(HEADER_LEN + 4 * N)
}

//! The aggregator: a packet in, a verdict out (R-VALID, R-SLOT).
//!
//! One [`Aggregator`] is one shard with one owner. The memory of its slots is the host's, handed in once; nothing
//! is allocated afterwards. Hosts that keep slots elsewhere (eBPF maps) use the same parts directly:
//! [`Header::parse`], [`Job::authorize`], [`Head::accept`].

use heapless::Vec;
use heapless::index_map::IndexMap;

use crate::job::{Job, Rejection};
use crate::key_hash::BuildKeyHash;
use crate::pool::{self, Extent};
use crate::round::GENERATIONS;
use crate::slot::{Arrival, Head, Outcome};
use crate::wire::{Flags, HEADER_LEN, Header, Invalid, Kind, NO_MEMBER, Refusal};
use crate::{
    Abort, AdmitError, Counter, Counters, Endpoint, Epoch, Exponent, JobConfig, Lanes, MAX_MEMBERS, Member,
    MemberSet, Nanos, Round,
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
}

#[derive(Clone, Debug)]
struct Entry {
    job: Job,
    members: Vec<Member, MAX_MEMBERS>,
    lanes: Lanes,
    extent: Extent,
}

/// An aggregator over borrowed or owned slot memory: `H` holds heads, `V` holds lanes (boxed slices, arrays, …).
#[derive(Clone, Debug)]
pub struct Aggregator<H, V> {
    epoch: Epoch,
    jobs: IndexMap<u64, Entry, BuildKeyHash, MAX_JOBS>,
    heads: H,
    values: V,
    counters: Counters,
}

impl<H: AsRef<[Head]> + AsMut<[Head]>, V: AsRef<[i32]> + AsMut<[i32]>> Aggregator<H, V> {
    /// An aggregator without jobs. `epoch` must be above that of any earlier start (R-EPOCH-1).
    pub fn new(epoch: Epoch, heads: H, values: V) -> Self {
        Self {
            epoch,
            jobs: IndexMap::default(),
            heads,
            values,
            counters: Counters::default(),
        }
    }

    /// Its epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The members of a job, in the order of their numbers.
    pub fn members(&self, key: u64) -> Option<&[Member]> {
        self.jobs.get(&key).map(|entry| entry.members.as_slice())
    }

    /// The slot memory of all jobs: heads and values. To inspect it, or to save it.
    pub fn memory(&self) -> (&[Head], &[i32]) {
        (self.heads.as_ref(), self.values.as_ref())
    }

    /// The slot memory of all jobs, to restore what [`Self::memory`] gave under the same jobs.
    pub fn memory_mut(&mut self) -> (&mut [Head], &mut [i32]) {
        (self.heads.as_mut(), self.values.as_mut())
    }

    /// Takes a job in: reserves and empties its slots.
    pub fn admit(&mut self, config: &JobConfig) -> Result<(), AdmitError> {
        if config.members.is_empty() || config.members.iter().any(|member| member.set.is_empty()) {
            return Err(AdmitError::Members);
        }
        if !config.window.is_power_of_two() {
            return Err(AdmitError::Window(config.window));
        }
        if config.key == 0 || self.jobs.contains_key(&config.key) {
            return Err(AdmitError::Key);
        }
        let (heads, values) = (self.heads.as_ref().len(), self.values.as_ref().len());
        let mut taken: Vec<Extent, MAX_JOBS> = Vec::new();
        for entry in self.jobs.values() {
            // Always has room. `collect` would panic where it has not, and the compiler cannot tell.
            let _ = taken.push(entry.extent.clone());
        }
        let extent = pool::place(config, &taken, heads, values)?;
        if self.jobs.len() == MAX_JOBS {
            return Err(AdmitError::Jobs(MAX_JOBS));
        }
        if let Some(heads) = self.heads.as_mut().get_mut(extent.heads.clone()) {
            heads.fill(Head::VACANT);
        }
        let expected = config
            .members
            .iter()
            .fold(MemberSet::EMPTY, |set, member| set.union(member.set));
        let job = Job {
            epoch: self.epoch,
            expected,
            window: config.window,
            abort: None,
        };
        let entry = Entry {
            job,
            members: config.members.clone(),
            lanes: config.lanes,
            extent,
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

    /// Forgets a job and frees its slots.
    pub fn release(&mut self, key: u64) {
        self.jobs.swap_remove(&key);
    }

    /// The slots of a job that wait for members: slot, round, and the members that are in.
    pub fn waiting(&self, key: u64) -> impl Iterator<Item = (u16, Round, MemberSet)> + '_ {
        let extent = self
            .jobs
            .get(&key)
            .map_or(0..0, |entry| entry.extent.heads.clone());
        let heads = self.heads.as_ref().get(extent).unwrap_or_default();
        heads.iter().enumerate().filter_map(|(index, head)| {
            head.waiting()
                .map(|(round, set)| ((index / GENERATIONS) as u16, round, set))
        })
    }

    /// Handles one packet. What is to be sent is written to `out`, which must hold a packet of the largest chunk in
    /// use; the verdict says to whom.
    #[inline(always)]
    pub fn handle(&mut self, packet: &[u8], source: &Endpoint, now: Nanos, out: &mut [u8]) -> Verdict {
        let Some((front, rest)) = packet.split_first_chunk::<HEADER_LEN>() else {
            return self.quiet(Counter::DroppedLength);
        };
        if let Err(invalid) = Header::validate(front) {
            return self.quiet(invalid_counter(invalid));
        }
        let header = Header::read(front);
        let Some(entry) = self.jobs.get(&header.key) else {
            return self.quiet(Counter::DroppedKey);
        };
        let member = entry.members.get(usize::from(header.member));
        match entry.job.authorize(&header, member, source) {
            Ok(()) => {}
            Err(Rejection::Drop(counter)) => return self.quiet(counter),
            Err(Rejection::Refuse(refusal)) => {
                let about = entry.job.abort.filter(|abort| abort.refusal() == refusal);
                let answer = refuse(&header, self.epoch, about, refusal);
                self.counters.add(refusal_counter(refusal));
                return emit_header(&answer, out).map_or(Verdict::Quiet, |len| Verdict::Reply { len });
            }
        }
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
            expected: entry.job.expected,
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
    expected: MemberSet,
    now: Nanos,
}

impl Place<'_> {
    /// Merges into the slot's generation and writes what is to be sent.
    #[inline(always)]
    fn run<const N: usize>(self, out: &mut [u8]) -> (Counter, Verdict) {
        let header = self.header;
        let Some(arrived) = values_of::<N>(header, self.rest) else {
            return (Counter::DroppedLength, Verdict::Quiet);
        };
        let index = usize::from(header.slot) * GENERATIONS + header.round.generation();
        let head = self.heads.get_mut(index);
        let values = self
            .values
            .get_mut(index * N..)
            .and_then(|values| values.first_chunk_mut::<N>());
        let (Some(head), Some(values)) = (head, values) else {
            return (Counter::DroppedSlot, Verdict::Quiet);
        };
        let outcome = head.accept(
            values,
            self.expected,
            Arrival {
                header,
                values: arrived,
            },
            self.now,
        );
        let (key, epoch, slot) = (header.key, header.epoch, header.slot);
        let (counter, to_all, len) = match outcome {
            Outcome::Quiet(counter) => return (counter, Verdict::Quiet),
            Outcome::Release(counter) => (counter, true, emit_result(head, values, header, out)),
            Outcome::Replay => (Counter::Replayed, false, emit_result(head, values, header, out)),
            Outcome::Want => (
                Counter::Wanted,
                true,
                emit_header(&head.want(key, epoch, slot), out),
            ),
            Outcome::Refuse(refusal) | Outcome::RefuseAll(refusal) => {
                let len = emit_header(&head.refusal(key, epoch, slot, refusal), out);
                (
                    refusal_counter(refusal),
                    matches!(outcome, Outcome::RefuseAll(_)),
                    len,
                )
            }
        };
        let verdict = match len {
            Some(len) if to_all => Verdict::Broadcast { key, len },
            Some(len) => Verdict::Reply { len },
            None => Verdict::Quiet,
        };
        (counter, verdict)
    }
}

/// The values behind a header (R-VALID-9): none where the flag says so, else exactly `N`.
#[inline(always)]
fn values_of<'p, const N: usize>(header: &Header, rest: &'p [u8]) -> Option<Option<&'p [[u8; 4]; N]>> {
    if header.flags.has(Flags::HEADER_ONLY) {
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

#[inline(always)]
fn emit_result<const N: usize>(
    head: &Head,
    values: &[i32; N],
    header: &Header,
    out: &mut [u8],
) -> Option<usize> {
    let (front, rest) = out.split_first_chunk_mut::<HEADER_LEN>()?;
    *front = head.result(header.key, header.epoch, header.slot).emit();
    if !head.has_values() {
        return Some(HEADER_LEN);
    }
    let lanes: &mut [[u8; 4]; N] = rest.as_chunks_mut::<4>().0.first_chunk_mut::<N>()?;
    for (lane, value) in lanes.iter_mut().zip(values) {
        *lane = value.to_le_bytes();
    }
    Some(HEADER_LEN + 4 * N)
}

/// A refusal that no slot had a part in: of an old epoch, or of an aborted job.
fn refuse(header: &Header, epoch: Epoch, abort: Option<Abort>, refusal: Refusal) -> Header {
    Header {
        kind: Kind::Refusal,
        flags: Flags::NONE,
        member: abort.map_or(NO_MEMBER, |abort| abort.member),
        epoch,
        scale: Exponent(refusal.to_wire()),
        ..*header
    }
}

const fn invalid_counter(invalid: Invalid) -> Counter {
    match invalid {
        Invalid::Length => Counter::DroppedLength,
        Invalid::Magic | Invalid::Version | Invalid::Kind => Counter::DroppedForeign,
        Invalid::Checksum => Counter::DroppedChecksum,
    }
}

const fn refusal_counter(refusal: Refusal) -> Counter {
    match refusal {
        Refusal::Operation => Counter::RefusedOperation,
        Refusal::Scale => Counter::RefusedScale,
        Refusal::Epoch => Counter::RefusedEpoch,
        Refusal::LostMember | Refusal::MemberFailed | Refusal::Ended => Counter::RefusedAborted,
    }
}

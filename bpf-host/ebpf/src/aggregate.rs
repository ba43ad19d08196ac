//! A packet in: checked, merged into its slot under the slot's lock, and answered.

use agg_core::job::{Rejection, Way};
use agg_core::slot::{Head, Merge, To};
use agg_core::wire::{HEADER_LEN, Header, Invalid, Probe};
use agg_core::{Counter, Job, MemberSet, Nanos};
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::helpers::{bpf_spin_lock, bpf_spin_unlock};
use aya_ebpf::programs::XdpContext;
use bpf_layout::{FRAMING, JobEntry, ROW_LANES, Rows, Tally};

use crate::maps::{self, Decision, LockedHead, NOTHING, forgotten};
use crate::{frame, send};

/// Most rounds that a slot keeps.
const MAX_GENERATIONS: u32 = agg_core::round::MAX_GENERATIONS as u32;

/// What is known of a packet that may reach its slot.
struct Arrival<'a> {
    context: &'a XdpContext,
    header: &'a Header,
    entry: &'static JobEntry,
    job: &'a Job,
    way: Way,
    /// The set of the member that sent it.
    sender: MemberSet,
}

#[inline(always)]
fn drop(counter: Counter) -> u32 {
    maps::count(counter);
    XDP_DROP
}

/// Handles one packet.
#[inline(always)]
pub(crate) fn aggregate(context: &XdpContext) -> u32 {
    let Some((framing, len)) = frame::ours(context) else {
        return XDP_PASS;
    };
    let (source, ecn) = (framing.source(), framing.ecn());
    let Some(front) = frame::front(context) else {
        return drop(Counter::DroppedLength);
    };
    if len < HEADER_LEN {
        return drop(Counter::DroppedLength);
    }
    let header = match Header::parse(&front.header) {
        Ok(header) => header.arrived(ecn),
        Err(invalid) => return other(context, &front.header, len, invalid),
    };
    let Some(entry) = maps::job(header.key) else {
        return drop(Counter::DroppedKey);
    };
    let mut job = entry.record.job();
    if job.policy.keeps_history()
        && let Some(late) = maps::late(entry)
    {
        job.late = MemberSet(*late);
    }
    let member = maps::member(entry, header.member).map(|member| member.record.member());
    let Some(decision) = maps::decision(context.ingress_ifindex() as u32) else {
        return XDP_DROP;
    };
    let way = match job.way(&header, member.as_ref(), &source) {
        Ok(way) => way,
        Err(Rejection::Drop(counter)) => return drop(counter),
        Err(Rejection::Refuse(refusal)) => {
            decision.to = To::Sender as u32;
            decision.values = 0;
            decision.counter = refusal.counter() as u32;
            decision.header = job.refusal(&header, refusal).emit();
            return send::send(context, entry, decision);
        }
    };
    if len != HEADER_LEN + header.payload_len(entry.lanes as usize) {
        return drop(Counter::DroppedLength);
    }
    let arrival = Arrival {
        context,
        header: &header,
        entry,
        job: &job,
        way,
        sender: member.map_or(MemberSet::EMPTY, |member| member.set),
    };
    match entry.lanes {
        256 => arrival.merge::<256>(decision),
        352 => arrival.merge::<352>(decision),
        848 => arrival.merge::<848>(decision),
        _ => drop(Counter::DroppedSlot),
    }
}

/// What is for no slot: a probe, or nothing of use.
#[inline(always)]
fn other(context: &XdpContext, header: &[u8; HEADER_LEN], len: usize, invalid: Invalid) -> u32 {
    let Some(probe) = Probe::read(header) else {
        return drop(invalid.counter());
    };
    match probe.answer(maps::epoch(), len) {
        Ok((answer, lanes)) => {
            let sent = send::echo(context, &answer.emit(), lanes);
            sent.unwrap_or_else(|| drop(Counter::DroppedLength))
        }
        Err(counter) => drop(counter),
    }
}

impl Arrival<'_> {
    /// R-QUORUM-2 for each generation of the packet's slot.
    #[inline(always)]
    fn mark_past(&self) {
        let generations = u32::from(self.job.generations);
        let first = u32::from(self.header.slot) * generations;
        for generation in 0..MAX_GENERATIONS {
            if generation >= generations {
                return;
            }
            if let Some(locked) = maps::head(self.entry, first + generation) {
                // SAFETY: the map's memory; nobody else looks at the head while its lock is held.
                unsafe {
                    bpf_spin_lock(&raw mut (*locked).lock);
                    head_of(locked).pass(self.header.round, self.sender);
                    bpf_spin_unlock(&raw mut (*locked).lock);
                }
            }
        }
    }

    /// Decides what comes of it; to be called with the lock held.
    #[inline(always)]
    fn decide(&self, head: &mut Head, now: Nanos, late: Option<&mut u64>, decision: &mut Decision) {
        let (merge, outcome) = match self.way {
            Way::Up => head.judge(self.job, self.header, now),
            Way::Down => head.judge_down(self.job, self.header, now),
        };
        if let Some(late) = late {
            *late = head.late_after(outcome, self.sender, self.job).0;
        }
        let (counter, answer) = head.answer(outcome, self.job, self.header);
        decision.merge = merge as u32;
        decision.counter = counter as u32;
        match answer {
            Some(answer) => {
                decision.to = answer.to as u32;
                decision.values = u32::from(answer.values);
                decision.header = answer.header.emit();
            }
            None => {
                decision.to = NOTHING;
                decision.values = 0;
            }
        }
    }

    /// Merges it into its slot and sends what is to be sent.
    #[inline(always)]
    fn merge<const N: usize>(&self, decision: &mut Decision) -> u32 {
        let generation = self.job.generation_of(self.header) as u32;
        let Some(locked) = maps::head(self.entry, generation) else {
            return drop(Counter::DroppedSlot);
        };
        let Some(row) = maps::row(self.entry, Rows::<N>::row(generation)) else {
            return drop(Counter::DroppedSlot);
        };
        decision.lane = Rows::<N>::lane(generation) as u32;
        // The compiler would know that it is, and leave out what the verifier wants to see.
        let lane = forgotten(&decision.lane) as usize;
        if lane > ROW_LANES - N {
            return drop(Counter::DroppedSlot);
        }
        let keeps_history = self.job.policy.keeps_history();
        if keeps_history && self.way == Way::Up {
            self.mark_past();
        }
        let late = if keeps_history {
            maps::late(self.entry)
        } else {
            None
        };
        let now = maps::now();
        let carries = self.header.payload_len(N) != 0;
        let room = self.context.data() + FRAMING + HEADER_LEN + 4 * N <= self.context.data_end();
        // SAFETY: as was just checked, the chunk lies within its row. Nobody else looks at the head and the values while the
        // lock is held.
        let enough = unsafe {
            let values = &mut *row.cast::<i32>().add(lane).cast::<[i32; N]>();
            bpf_spin_lock(&raw mut (*locked).lock);
            if !room {
                decision.before = (*locked).head;
            }
            self.decide(head_of(locked), now, late, decision);
            let sends = forgotten(&decision.values) != 0;
            if sends && !room {
                (*locked).head = decision.before;
            }
            if room {
                let merge = forgotten(&decision.merge);
                move_values::<N>(self.context, values, carries, merge, sends, &mut decision.sum);
            }
            bpf_spin_unlock(&raw mut (*locked).lock);
            room || !sends
        };
        if !enough {
            // It comes again in a frame that has room, and finds the slot as this one did: an answer is not silenced by itself.
            maps::tally(Tally::Relayed.index());
            return XDP_PASS;
        }
        send::send(self.context, self.entry, decision)
    }
}

/// Does with the lanes what was decided: those that arrived into the slot, then the slot's into the frame.
///
/// # Safety
/// The slot's lock is held.
#[inline(always)]
unsafe fn move_values<const N: usize>(
    context: &XdpContext,
    values: &mut [i32; N],
    carries: bool,
    merge: u32,
    sends: bool,
    sums: &mut u64,
) {
    let start = context.data() + FRAMING + HEADER_LEN;
    if start + 4 * N > context.data_end() {
        return;
    }
    let lanes = start as *mut [[u8; 4]; N];
    // SAFETY: these bytes lie between `data` and `data_end`, as was just checked.
    let arrived = unsafe { &*lanes };
    if carries && merge == Merge::Replace as u32 {
        Merge::Replace.apply(values, arrived);
    }
    if carries && merge == Merge::Add as u32 {
        Merge::Add.apply(values, arrived);
    }
    if carries && merge == Merge::Min as u32 {
        Merge::Min.apply(values, arrived);
    }
    if carries && merge == Merge::Max as u32 {
        Merge::Max.apply(values, arrived);
    }
    if sends {
        // Two lanes at a time: the kernel's byte order is the wire's. `N` is even, and a row begins on 8 bytes.
        let (from, to) = (values.as_ptr().cast::<u64>(), lanes.cast::<u64>());
        let mut sum = 0;
        for pair in 0..N / 2 {
            // SAFETY: as above for the frame, which is aligned to nothing; `values` holds `N / 2` pairs.
            unsafe {
                let lanes = *from.add(pair);
                to.add(pair).write_unaligned(lanes);
                sum += (lanes & 0xffff_ffff) + (lanes >> 32);
            }
        }
        *sums = sum;
    }
}

/// The head behind a lock.
///
/// # Safety
/// The lock is held.
#[inline(always)]
unsafe fn head_of<'a>(locked: *mut LockedHead) -> &'a mut Head {
    // SAFETY: the map's memory holds zeros, which are a vacant head, or what this program or its loader wrote: a head.
    unsafe { &mut *(&raw mut (*locked).head).cast::<Head>() }
}

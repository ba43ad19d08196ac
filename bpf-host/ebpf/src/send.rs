//! An answer out: written over the frame that arrived.

use agg_core::slot::To;
use agg_core::wire::HEADER_LEN;
use agg_core::{Counter, Lanes};
use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_F_BROADCAST;
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_TX};
use aya_ebpf::helpers::bpf_xdp_adjust_tail;
use aya_ebpf::programs::XdpContext;
use bpf_layout::{FRAMING, JobEntry, Tally};

use crate::frame::{self, Front};
use crate::maps::{self, Decision, forgotten};

/// Counts what was decided, and sends what is to be sent.
#[inline(always)]
pub(crate) fn send(context: &XdpContext, entry: &JobEntry, decision: &Decision) -> u32 {
    maps::tally(forgotten(&decision.counter));
    let to = forgotten(&decision.to);
    if to > To::Parent as u32 {
        return XDP_DROP;
    }
    let len = if forgotten(&decision.values) == 0 {
        HEADER_LEN
    } else {
        HEADER_LEN + 4 * entry.lanes as usize
    };
    let Some(front) = resized(context, len) else {
        return unsent();
    };
    front.header = decision.header;
    let mut sum = frame::header_sum(&front.header);
    if len != HEADER_LEN {
        sum += decision.sum;
    }
    front.framing.measure(len, sum);
    let sent = if to == To::Sender as u32 {
        Some(reply(context, front))
    } else if to == To::Parent as u32 {
        forward(front, entry)
    } else {
        broadcast(front, entry)
    };
    sent.unwrap_or_else(unsent)
}

/// Answers a probe of a chunk's size: its header is `answer`, and behind it are zeros, whatever the question had there, so
/// that nobody has bytes of his choice sent to another (R-PROBE-1). `None`: a frame without fragments is never so long.
#[inline(always)]
pub(crate) fn echo(context: &XdpContext, answer: &[u8; HEADER_LEN], lanes: Lanes) -> Option<u32> {
    let sent = match lanes {
        Lanes::L16 => echo_of::<16>(context, answer),
        Lanes::L256 => echo_of::<256>(context, answer),
        Lanes::L352 => echo_of::<352>(context, answer),
        Lanes::L848 => echo_of::<848>(context, answer),
        Lanes::L2048 | Lanes::L8192 => return None,
    };
    maps::count(Counter::ProbesAnswered);
    Some(sent.unwrap_or_else(unsent))
}

#[inline(always)]
fn echo_of<const N: usize>(context: &XdpContext, answer: &[u8; HEADER_LEN]) -> Option<u32> {
    let len = HEADER_LEN + 4 * N;
    // Before the frame gets its length: the compiler would leave out the check where it has that length already.
    let start = context.data() + FRAMING;
    if start + len > context.data_end() {
        return None;
    }
    let put = |place: usize, word: u64| {
        // SAFETY: these bytes lie between `data` and `data_end`, as was just checked; a `Word` is aligned to nothing. Volatile,
        // or the compiler calls a function for the zeros, which the verifier cannot follow.
        unsafe { (start as *mut Word).add(place).write_volatile(Word(word)) };
    };
    for (place, word) in answer.as_chunks::<8>().0.iter().enumerate() {
        put(place, u64::from_ne_bytes(*word));
    }
    for place in HEADER_LEN / 8..len / 8 {
        put(place, 0);
    }
    let front = resized(context, len)?;
    front.framing.measure(len, frame::header_sum(answer));
    Some(reply(context, front))
}

/// Eight bytes of a frame.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Word(u64);

/// What lies before a packet of so many bytes, in a frame that ends behind it.
#[inline(always)]
fn resized(context: &XdpContext, len: usize) -> Option<&'static mut Front> {
    let surplus = (context.data_end() - context.data()) as i64 - (FRAMING + len) as i64;
    if surplus != 0 {
        // SAFETY: moves the frame's end. What was known of its ends is not used afterwards.
        let error = unsafe { bpf_xdp_adjust_tail(context.as_ptr().cast(), -surplus as i32) };
        if error != 0 {
            return None;
        }
    }
    frame::front(context)
}

/// To who sent what arrived.
#[inline(always)]
fn reply(context: &XdpContext, front: &mut Front) -> u32 {
    front.framing.turn();
    front.framing.sum();
    let redirected = maps::redirects_replies().then(|| maps::redirect(context.ingress_ifindex() as u32));
    // No packet leaves by what a test run comes from; its verdict says that this is a reply.
    redirected.flatten().unwrap_or(XDP_TX)
}

/// To the parent.
#[inline(always)]
fn forward(front: &mut Front, entry: &JobEntry) -> Option<u32> {
    let parent = entry.record.job().parent?;
    front.framing.address(&parent.source, &entry.parent);
    front.framing.sum();
    maps::redirect(entry.parent.interface)
}

/// To all members: each one's clone is addressed where it leaves.
#[inline(always)]
fn broadcast(front: &mut Front, entry: &JobEntry) -> Option<u32> {
    front.framing.number(maps::serial()?);
    let devices = maps::broadcast(entry.index)?;
    devices.redirect(0, u64::from(BPF_F_BROADCAST)).ok()
}

#[inline(always)]
fn unsent() -> u32 {
    maps::tally(Tally::Unsent.index());
    XDP_DROP
}

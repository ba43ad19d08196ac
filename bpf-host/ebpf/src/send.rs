//! An answer out: written over the frame that arrived.

use agg_core::slot::To;
use agg_core::wire::HEADER_LEN;
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
    let surplus = (context.data_end() - context.data()) as i64 - (FRAMING + len) as i64;
    if surplus != 0 {
        // SAFETY: moves the frame's end. What was known of its ends is not used afterwards.
        let error = unsafe { bpf_xdp_adjust_tail(context.as_ptr().cast(), -surplus as i32) };
        if error != 0 {
            return unsent();
        }
    }
    let Some(front) = frame::front(context) else {
        return unsent();
    };
    front.header = decision.header;
    let mut sum = frame::header_sum(&front.header);
    if len != HEADER_LEN {
        sum += decision.sum;
    }
    front.framing.measure(len, sum);
    let sent = if to == To::Sender as u32 {
        front.framing.turn();
        front.framing.sum();
        let redirected = maps::redirects_replies().then(|| maps::redirect(context.ingress_ifindex() as u32));
        // No packet leaves by what a test run comes from; its verdict says that this is a reply.
        Some(redirected.flatten().unwrap_or(XDP_TX))
    } else if to == To::Parent as u32 {
        forward(front, entry)
    } else {
        broadcast(front, entry)
    };
    sent.unwrap_or_else(unsent)
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

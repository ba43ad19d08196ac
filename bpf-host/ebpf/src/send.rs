//! An answer out: written over the frame that arrived.

use agg_core::slot::To;
use agg_core::wire::HEADER_LEN;
use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_F_BROADCAST;
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_TX};
use aya_ebpf::helpers::{bpf_redirect, bpf_xdp_adjust_tail};
use aya_ebpf::programs::XdpContext;
use bpf_layout::{FRAMING, JobEntry, Tally};

use crate::frame;
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
            maps::tally(Tally::Unsent.index());
            return XDP_DROP;
        }
    }
    let Some(front) = frame::front(context) else {
        maps::tally(Tally::Unsent.index());
        return XDP_DROP;
    };
    front.header = decision.header;
    front.framing.measure(len);
    if to == To::Sender as u32 {
        front.framing.turn();
        front.framing.sum();
        if maps::redirects_replies() {
            // SAFETY: a number in, a number out.
            return unsafe { bpf_redirect(context.ingress_ifindex() as u32, 0) } as u32;
        }
        return XDP_TX;
    }
    if to == To::Parent as u32 {
        let job = entry.record.job();
        let Some(parent) = job.parent else {
            return XDP_DROP;
        };
        front.framing.address(&parent.source, &entry.parent);
        front.framing.sum();
        // SAFETY: a number in, a number out.
        return unsafe { bpf_redirect(entry.parent.interface, 0) } as u32;
    }
    // Each member's clone is addressed where it leaves.
    let Some(serial) = maps::serial() else {
        return XDP_DROP;
    };
    front.framing.number(serial);
    match maps::broadcast(entry.index) {
        Some(devices) => devices
            .redirect(0, u64::from(BPF_F_BROADCAST))
            .unwrap_or(XDP_DROP),
        None => XDP_DROP,
    }
}

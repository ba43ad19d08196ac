//! What runs for each clone of a packet that goes to every member, where it leaves: it addresses it to its member.
//!
//! The kernel tells such a program nothing of which entry of the device map it runs for. A program of its own for each entry
//! would not know either: the frames that leave by a device are collected, and the program of the first of them runs for
//! all (`bq_enqueue` of kernel/bpf/devmap.c). But they stay in the order of the entries. So the clones of one packet, which
//! bear its serial number, belong to the members behind their device in turn.

use agg_core::MAX_MEMBERS;
use agg_core::wire::Header;
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use bpf_layout::{JobEntry, MemberEntry};

use crate::maps::Turn;
use crate::{frame, maps};

/// Addresses a frame to the member of its job whose turn it is.
#[xdp(map = "devmap")]
pub fn deliver(context: XdpContext) -> u32 {
    // SAFETY: the context's own memory.
    let device = unsafe { (*context.ctx).egress_ifindex };
    let Some(front) = frame::front(&context) else {
        return XDP_DROP;
    };
    let Some(serial) = front.framing.take_number() else {
        return XDP_PASS;
    };
    let key = Header::key_in(&front.header);
    let (Some(job), Some(turn)) = (maps::job(key), maps::turn(device)) else {
        return XDP_DROP;
    };
    if turn.serial != serial {
        *turn = Turn { serial, next: 0 };
    }
    let Some(member) = next(job, turn, device) else {
        return XDP_DROP;
    };
    front
        .framing
        .address(&member.record.member().source, &member.route);
    front.framing.sum();
    XDP_PASS
}

/// The next member that is reached by a device.
#[inline(always)]
fn next(job: &JobEntry, turn: &mut Turn, device: u32) -> Option<&'static MemberEntry> {
    for _ in 0..MAX_MEMBERS {
        let member = maps::member(job, turn.next as u8)?;
        turn.next += 1;
        if member.route.interface == device {
            return Some(member);
        }
    }
    None
}

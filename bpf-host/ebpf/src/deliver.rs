//! What runs for each clone of a packet that goes to every member, where it leaves: it addresses it to its member.
//!
//! The kernel does not say for which entry of the device map it runs: frames that wait for an interface share one program,
//! that of the first entry. But clones are made in the order of the entries, that of the members, and they leave in that
//! order. So each interface has a program of its own, which counts: the first clone of a packet goes to the first member
//! behind the interface, the next to the next. Packets have numbers to tell their clones apart, and everything is
//! done by one CPU.

use agg_core::wire::Header;
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use bpf_layout::Tally;

use crate::{frame, maps};

/// Addresses a frame to a member of its job; `port` is the number of the interface that it leaves by.
#[inline(always)]
fn deliver(context: &XdpContext, port: u32) -> u32 {
    address(context, port).unwrap_or_else(|| {
        maps::tally(Tally::Unsent.index());
        XDP_DROP
    })
}

#[inline(always)]
fn address(context: &XdpContext, port: u32) -> Option<u32> {
    let front = frame::front(context)?;
    let header = Header::parse(&front.header).ok()?;
    let job = maps::job(header.key)?;
    let cursor = maps::cursor(port)?;
    // SAFETY: a field of the context that programs of device maps have.
    let interface = unsafe { (*context.ctx).egress_ifindex };
    let serial = front.framing.take_serial();
    let mut number = if cursor.serial == serial {
        cursor.member.wrapping_add(1)
    } else {
        0
    };
    cursor.serial = serial;
    for _ in 0..agg_core::MAX_MEMBERS {
        let member = maps::member(job, u8::try_from(number).ok()?)?;
        if member.route.interface == interface {
            cursor.member = number;
            front
                .framing
                .address(&member.record.member().source, &member.route);
            front.framing.sum();
            return Some(XDP_PASS);
        }
        number += 1;
    }
    None
}

macro_rules! programs {
    ($($name:ident $port:literal,)*) => {
        $(
            /// Addresses clones that leave by one interface.
            #[xdp(map = "devmap")]
            pub fn $name(context: XdpContext) -> u32 {
                deliver(&context, $port)
            }
        )*
    };
}

programs! {
    deliver_0 0,
    deliver_1 1,
    deliver_2 2,
    deliver_3 3,
    deliver_4 4,
    deliver_5 5,
    deliver_6 6,
    deliver_7 7,
}

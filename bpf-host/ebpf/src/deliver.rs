//! What runs for each clone of a packet that goes to every member, where it leaves: it addresses it to its member.
//!
//! The kernel tells such a program nothing of which entry of the device map it runs for, so each entry has a program of its
//! own, which knows its member.

use agg_core::wire::Header;
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;

use crate::{frame, maps};

/// Addresses a frame to a member of its job.
#[inline(always)]
fn deliver(context: &XdpContext, member: u8) -> u32 {
    let Some(front) = frame::front(context) else {
        return XDP_DROP;
    };
    let Ok(header) = Header::parse(&front.header) else {
        return XDP_DROP;
    };
    let Some(member) = maps::job(header.key).and_then(|job| maps::member(job, member)) else {
        return XDP_DROP;
    };
    front
        .framing
        .address(&member.record.member().source, &member.route);
    front.framing.sum();
    XDP_PASS
}

macro_rules! programs {
    ($($name:ident $member:literal,)*) => {
        $(
            /// Addresses the clone of one member.
            #[xdp(map = "devmap")]
            pub fn $name(context: XdpContext) -> u32 {
                deliver(&context, $member)
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
    deliver_8 8,
    deliver_9 9,
    deliver_10 10,
    deliver_11 11,
    deliver_12 12,
    deliver_13 13,
    deliver_14 14,
    deliver_15 15,
    deliver_16 16,
    deliver_17 17,
    deliver_18 18,
    deliver_19 19,
    deliver_20 20,
    deliver_21 21,
    deliver_22 22,
    deliver_23 23,
    deliver_24 24,
    deliver_25 25,
    deliver_26 26,
    deliver_27 27,
    deliver_28 28,
    deliver_29 29,
    deliver_30 30,
    deliver_31 31,
    deliver_32 32,
    deliver_33 33,
    deliver_34 34,
    deliver_35 35,
    deliver_36 36,
    deliver_37 37,
    deliver_38 38,
    deliver_39 39,
    deliver_40 40,
    deliver_41 41,
    deliver_42 42,
    deliver_43 43,
    deliver_44 44,
    deliver_45 45,
    deliver_46 46,
    deliver_47 47,
    deliver_48 48,
    deliver_49 49,
    deliver_50 50,
    deliver_51 51,
    deliver_52 52,
    deliver_53 53,
    deliver_54 54,
    deliver_55 55,
    deliver_56 56,
    deliver_57 57,
    deliver_58 58,
    deliver_59 59,
    deliver_60 60,
    deliver_61 61,
    deliver_62 62,
    deliver_63 63,
}

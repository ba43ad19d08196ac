//! The XDP program: takes packets of Tributary out of what arrives at an interface.
#![no_std]
#![no_main]

use agg_core::wire::{HEADER_LEN, Header};
use aya_ebpf::bindings::xdp_action;
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;

/// Ethernet, IPv4 without options, UDP.
const PAYLOAD: usize = 14 + 20 + 8;

/// Drops what is a packet of ours, passes everything else to the stack.
#[xdp]
pub fn tributary(context: XdpContext) -> u32 {
    match header(&context) {
        Some(_) => xdp_action::XDP_DROP,
        None => xdp_action::XDP_PASS,
    }
}

/// The header of a packet, if it is one of ours.
#[inline(always)]
fn header(context: &XdpContext) -> Option<Header> {
    let start = context.data() + PAYLOAD;
    let end = start + HEADER_LEN;
    if end > context.data_end() {
        return None;
    }
    // SAFETY: these bytes lie between `data` and `data_end`, as was just checked, and nothing writes them meanwhile.
    let bytes = unsafe { &*(start as *const [u8; HEADER_LEN]) };
    Header::parse(bytes).ok()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Helpers that the kernel offers to programs under its own licence only are used.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

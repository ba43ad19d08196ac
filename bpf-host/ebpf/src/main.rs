//! The XDP program: `agg-core` inside the kernel.
//!
//! [`tributary`] takes packets of Tributary out of what arrives at an interface and lets the core decide about each; the
//! answer is written over the packet that arrived. What goes to every member is cloned by the kernel, once for each entry of
//! the job's device map, and [`deliver`] addresses each clone. Nothing of the protocol is decided here.
#![no_std]
#![no_main]

mod aggregate;
mod deliver;
mod frame;
mod maps;
mod send;

use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;

/// Takes what is ours, passes everything else to the stack.
#[xdp]
pub fn tributary(context: XdpContext) -> u32 {
    aggregate::aggregate(&context)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Helpers that the kernel offers to programs under its own licence only are used.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

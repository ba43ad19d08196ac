//! Bare passes over the lanes of a packet, without a protocol: what the benchmark compares [`tributary`] with, and the ways
//! to add that were tried. Never attached to an interface.
//!
//! [`tributary`]: ../tributary_xdp/index.html
#![no_std]
#![no_main]

use aya_ebpf::bindings::xdp_action::{XDP_ABORTED, XDP_DROP};
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::{btf_map, xdp};
use aya_ebpf::programs::XdpContext;

/// Lanes of a chunk that fits an Ethernet of 1500 bytes.
const N: usize = 352;

/// Ethernet, IPv4, UDP and the header of ours.
const BEFORE: usize = 42 + 56;

/// A slot.
#[btf_map]
static SLOT: Array<[i32; N], 1> = Array::new();

/// Runs `pass` over the values of the slot and the bytes of the packet.
#[inline(always)]
fn run(context: &XdpContext, pass: impl FnOnce(&mut [i32; N], &mut [[u8; 4]; N])) -> u32 {
    let start = context.data() + BEFORE;
    if start + 4 * N > context.data_end() {
        return XDP_ABORTED;
    }
    let Some(slot) = SLOT.get_ptr_mut(0) else {
        return XDP_ABORTED;
    };
    // SAFETY: the bytes lie between `data` and `data_end`, as was just checked; the slot is the map's memory, which only
    // this program uses, one run at a time.
    unsafe { pass(&mut *slot, &mut *(start as *mut [[u8; 4]; N])) };
    XDP_DROP
}

/// Nothing: what a test run costs by itself.
#[xdp]
pub fn nothing(_: XdpContext) -> u32 {
    XDP_DROP
}

/// One add a lane.
#[xdp]
pub fn add(context: XdpContext) -> u32 {
    run(&context, |slot, lanes| {
        for (value, bytes) in slot.iter_mut().zip(lanes) {
            *value = value.wrapping_add(i32::from_le_bytes(*bytes));
        }
    })
}

/// The lanes take the place of the slot's.
#[xdp]
pub fn replace(context: XdpContext) -> u32 {
    run(&context, |slot, lanes| {
        for (value, bytes) in slot.iter_mut().zip(lanes) {
            *value = i32::from_le_bytes(*bytes);
        }
    })
}

/// Adds, and writes the sums over the packet: in one pass.
#[xdp]
pub fn add_and_answer(context: XdpContext) -> u32 {
    run(&context, |slot, lanes| {
        for (value, bytes) in slot.iter_mut().zip(lanes) {
            *value = value.wrapping_add(i32::from_le_bytes(*bytes));
            *bytes = value.to_le_bytes();
        }
    })
}

/// Two adds in one of 64 bits: the lower one's carry is kept out of the upper one.
#[xdp]
pub fn add_pairs(context: XdpContext) -> u32 {
    const TOP: u64 = 0x8000_0000_8000_0000;
    run(&context, |slot, lanes| {
        let (slot, lanes) = (slot.as_mut_ptr().cast::<u64>(), lanes.as_ptr().cast::<u64>());
        for pair in 0..N / 2 {
            // SAFETY: `pair` is below half the number of lanes. The packet's may lie anywhere.
            unsafe {
                let (a, b) = (*slot.add(pair), lanes.add(pair).read_unaligned());
                *slot.add(pair) = ((a & !TOP) + (b & !TOP)) ^ ((a ^ b) & TOP);
            }
        }
    })
}

/// Eight adds a turn of the loop.
#[xdp]
pub fn add_unrolled(context: XdpContext) -> u32 {
    run(&context, |slot, lanes| {
        let (slots, lanes) = (slot.as_chunks_mut::<8>().0, lanes.as_chunks::<8>().0);
        for (slot, lanes) in slots.iter_mut().zip(lanes) {
            for (value, bytes) in slot.iter_mut().zip(lanes) {
                *value = value.wrapping_add(i32::from_le_bytes(*bytes));
            }
        }
    })
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Helpers that the kernel offers to programs under its own licence only are used.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

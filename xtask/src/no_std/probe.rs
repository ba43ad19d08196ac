//! agg-core with nothing around it but a panic handler. Written to target/ and built by `cargo xtask test`.
#![no_std]

use agg_core as _;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

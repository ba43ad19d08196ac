//! What happens on a panic: the host decides.

use core::panic::PanicInfo;

unsafe extern "C" {
    /// Provided by the host; must not return. The aggregator never calls it; a worker does if the host breaks its
    /// contract.
    fn tributary_panic() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: the host defines it, with this signature; it is declared in the header.
    unsafe { tributary_panic() }
}

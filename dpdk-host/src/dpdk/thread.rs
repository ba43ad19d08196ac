//! Threads that DPDK did not start.

use super::Pool;

thread_local! {
    static ATTACHED: Attached = Attached::new();
}

/// Whether pools know this thread.
struct Attached(bool);

impl Attached {
    fn new() -> Self {
        // SAFETY: there is a pool, so EAL runs.
        Self(unsafe { dpdk_sys::shim_thread_register() } == 0)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread was registered.
            unsafe { dpdk_sys::shim_thread_unregister() }
        }
    }
}

/// Has pools keep mbufs at hand for the calling thread too, until it ends. It works without, only slower; so nothing is said
/// where DPDK knows too many threads already.
pub fn attach(_: &Pool) {
    // A thread that is about to end need not.
    let _ = ATTACHED.try_with(|_| ());
}

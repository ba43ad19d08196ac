//! Frames from one core to another.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use super::error::{c_text, said};
use super::{BURST, Burst, DpdkError, Eal};

/// What both ends share. With the last of them the frames inside go back to their pools.
#[derive(Debug)]
struct Ring {
    ring: NonNull<c_void>,
}

// SAFETY: each end is one thread's at a time, and the ring is made for one at either end.
unsafe impl Send for Ring {}
// SAFETY: as above: what both ends do at once is what the ring is for.
unsafe impl Sync for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut left = Burst::default();
        while take(self, BURST, &mut left) > 0 {
            left.drain().for_each(drop);
        }
        // SAFETY: it is empty, and no end is left.
        unsafe { dpdk_sys::shim_ring_free(self.ring.as_ptr()) }
    }
}

/// The end where frames go in.
#[derive(Debug)]
pub struct RingSender(Arc<Ring>);

/// The end where they come out, in order.
#[derive(Debug)]
pub struct RingReceiver(Arc<Ring>);

/// A way for frames from one thread to another, without locks: `size`, a power of two, less one wait there. No two have the
/// same name, of at most 28 bytes.
///
/// # Errors
/// What DPDK said.
pub fn ring(
    _: &Eal,
    name: &str,
    size: u32,
    node: Option<u32>,
) -> Result<(RingSender, RingReceiver), DpdkError> {
    let c_name = c_text(name)?;
    let node = node.and_then(|node| i32::try_from(node).ok()).unwrap_or(-1);
    let mut error = 0;
    // SAFETY: EAL runs, and the name is a string.
    let ring = unsafe { dpdk_sys::shim_ring_create(c_name.as_ptr(), size, node, &raw mut error) };
    let ring = NonNull::new(ring).ok_or_else(|| DpdkError::Ring {
        name: name.to_owned(),
        size,
        said: said(error),
    })?;
    let ring = Arc::new(Ring { ring });
    Ok((RingSender(Arc::clone(&ring)), RingReceiver(ring)))
}

impl RingSender {
    /// Puts frames in, from the front of a burst on; returns how many. Those that there is no room for stay in the burst.
    pub fn send(&mut self, from: &mut Burst) -> usize {
        from.take_raw(|mbufs| {
            // SAFETY: the ring is there as long as an end is; this is its only sender, and the mbufs that it takes are its own
            // then.
            let sent = unsafe {
                dpdk_sys::shim_ring_enqueue(self.0.ring.as_ptr(), mbufs.as_mut_ptr(), mbufs.len() as u32)
            };
            sent as usize
        })
    }
}

impl RingReceiver {
    /// Adds the frames that have come, up to `limit`, behind those in a burst; returns how many. It does not wait.
    pub fn receive(&mut self, limit: usize, into: &mut Burst) -> usize {
        take(&self.0, limit, into)
    }
}

fn take(ring: &Ring, limit: usize, into: &mut Burst) -> usize {
    let limit = limit.min(BURST - into.len());
    into.extend_raw(limit, |spare| {
        // SAFETY: the ring is there as long as an end is; who calls is its only receiver, and there is room for so many.
        let taken = unsafe {
            dpdk_sys::shim_ring_dequeue(ring.ring.as_ptr(), spare.as_mut_ptr(), spare.len() as u32)
        };
        taken as usize
    })
}

//! Memory for frames.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::error::{c_text, said};
use super::{Burst, DpdkError, Eal, Mbuf};

/// Mbufs, all of the same size. A pool is never freed: drivers may hold some of them until the process ends.
///
/// Clones are the same pool.
#[derive(Debug, Clone)]
pub struct Pool {
    pool: NonNull<c_void>,
}

// SAFETY: DPDK's pools are for all threads at once.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// Mbufs that a core keeps at hand, not to ask the pool for each.
const CACHE: u32 = 256;

impl Pool {
    /// At least `count` mbufs with room for frames of `room` bytes, on a NUMA node (`None`: any). No two pools have
    /// the same name.
    ///
    /// # Errors
    /// No memory, or the name is taken.
    pub fn new(_: &Eal, name: &str, count: u32, room: u16, node: Option<u32>) -> Result<Self, DpdkError> {
        let c_name = c_text(name)?;
        let node = node.and_then(|node| i32::try_from(node).ok()).unwrap_or(-1);
        // DPDK wants a cache of at most two thirds of the pool.
        let cache = CACHE.min(count / 2);
        let mut error = 0;
        // SAFETY: EAL runs, and the name is a string.
        let pool =
            unsafe { dpdk_sys::shim_pool_create(c_name.as_ptr(), count, cache, room, node, &raw mut error) };
        let pool = NonNull::new(pool).ok_or_else(|| DpdkError::Pool {
            count,
            bytes: room,
            said: said(error),
        })?;
        Ok(Self { pool })
    }

    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.pool.as_ptr()
    }

    /// Mbufs that are free, those at hand of cores included.
    pub fn available(&self) -> u32 {
        // SAFETY: pools live as long as the process.
        unsafe { dpdk_sys::shim_pool_available(self.as_ptr()) }
    }

    /// An empty mbuf; `None` where none is free.
    pub fn take(&self) -> Option<Mbuf> {
        // SAFETY: pools live as long as the process.
        let mbuf = unsafe { dpdk_sys::shim_alloc(self.as_ptr()) };
        // SAFETY: a new mbuf is nobody else's.
        NonNull::new(mbuf).map(|mbuf| unsafe { Mbuf::from_raw(mbuf) })
    }

    /// Adds so many empty mbufs to a burst, or none and says so where not that many are free or fit in it.
    pub fn take_some(&self, count: usize, into: &mut Burst) -> bool {
        into.extend_raw(count, |spare| {
            // SAFETY: `spare` is room for `count` pointers.
            let code = unsafe { dpdk_sys::shim_alloc_bulk(self.as_ptr(), spare.as_mut_ptr(), count as u32) };
            if code == 0 { count } else { 0 }
        }) == count
    }
}

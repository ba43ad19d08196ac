//! What keeps net_memif from giving memory back that a burst still uses.

use std::marker::PhantomData;
use std::sync::OnceLock;

use super::error::said;
use super::{Device, DpdkError, PortInfo};

/// A way through the gate, for ports that need one.
///
/// net_memif maps its peer's memory. When the peer is gone, closed or killed, DPDK's interrupt thread unmaps that at once, whatever
/// other threads do (22.11 to 24.11; seen here as a segmentation fault in a receive burst that copied a frame just then). No
/// callback tells of it before. DPDK's interrupt thread is let through when it has something to do and no burst
/// is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gate(());

impl Gate {
    /// Of such a port; `None`: it needs none.
    pub(super) fn of(device: &Device, info: &PortInfo) -> Result<Option<Self>, DpdkError> {
        static STARTED: OnceLock<i32> = OnceLock::new();
        if !info.is_memif() {
            return Ok(None);
        }
        // SAFETY: there is a device, so EAL runs, and this is called once.
        let code = *STARTED.get_or_init(|| unsafe { dpdk_sys::shim_gate_start() });
        if code == 0 {
            return Ok(Some(Self(())));
        }
        Err(DpdkError::Device {
            name: device.name().to_owned(),
            said: said(code),
            advice: "DPDK's interrupt thread could not be held up for it",
        })
    }

    /// Goes in. No thread does so twice.
    pub(super) fn enter(self) -> Inside {
        // SAFETY: the gate has been started.
        unsafe { dpdk_sys::shim_gate_enter() };
        Inside(PhantomData)
    }
}

/// Inside, until it is dropped.
pub(super) struct Inside(
    /// Not Send: who has entered leaves.
    PhantomData<*const ()>,
);

impl Drop for Inside {
    fn drop(&mut self) {
        // SAFETY: this thread has entered.
        unsafe { dpdk_sys::shim_gate_leave() }
    }
}

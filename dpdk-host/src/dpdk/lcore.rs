//! The cores that DPDK has for its work: one thread each, which stays on it.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::said;
use super::{DpdkError, Eal};

/// A core of DPDK's. One that has no work takes some.
#[derive(Debug)]
pub struct Lcore {
    number: u32,
}

/// Work on a core. Dropped, it is waited for.
#[derive(Debug)]
pub struct Running {
    lcore: Lcore,
    is_awaited: bool,
}

type Work = Box<dyn FnOnce() + Send>;

impl Eal {
    /// The cores beside the main one, as `-l` or `--lcores` give them.
    pub fn workers(&self) -> Vec<Lcore> {
        let mut workers = Vec::new();
        let mut from = -1;
        // SAFETY: EAL runs.
        while let Ok(number) = u32::try_from(unsafe { dpdk_sys::shim_lcore_next(from) }) {
            workers.push(Lcore { number });
            from = number as i32;
        }
        workers
    }

    /// The main core: this thread. It takes no work.
    pub fn main(&self) -> Lcore {
        // SAFETY: EAL runs, and this is the thread that has started it.
        let number = unsafe { dpdk_sys::shim_lcore() };
        Lcore { number }
    }
}

impl Lcore {
    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its NUMA node; `None`: all memory is as near.
    pub fn node(&self) -> Option<u32> {
        // SAFETY: there is a core, so EAL runs.
        u32::try_from(unsafe { dpdk_sys::shim_lcore_node(self.number) }).ok()
    }

    /// Has it do some work. What panics there has said so itself, and ends only that.
    ///
    /// # Errors
    /// What DPDK said.
    pub fn launch(self, work: impl FnOnce() + Send + 'static) -> Result<Running, DpdkError> {
        // Two boxes: a pointer to a `dyn` is two words, C has one.
        let work: Box<Work> = Box::new(Box::new(work));
        let argument = Box::into_raw(work).cast::<c_void>();
        // SAFETY: `begin` takes what was boxed here, once; a core that has work refuses this.
        let code = unsafe { dpdk_sys::shim_launch(self.number, begin, argument) };
        if code != 0 {
            // SAFETY: nobody has taken it.
            drop(unsafe { Box::from_raw(argument.cast::<Work>()) });
            return Err(DpdkError::Lcore {
                number: self.number,
                said: said(code),
            });
        }
        Ok(Running {
            lcore: self,
            is_awaited: false,
        })
    }
}

unsafe extern "C" fn begin(argument: *mut c_void) -> c_int {
    // SAFETY: what `launch` gave away, once.
    let work = unsafe { Box::from_raw(argument.cast::<Work>()) };
    let ended: Result<(), Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(work));
    c_int::from(ended.is_err())
}

impl Running {
    /// Waits until the work is done; `false`: it panicked.
    pub fn wait(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.is_awaited = true;
        // SAFETY: EAL runs, and the core was given work.
        unsafe { dpdk_sys::shim_wait(self.lcore.number) == 0 }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_awaited {
            self.end();
        }
    }
}

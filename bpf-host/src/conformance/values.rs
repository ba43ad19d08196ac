//! Map `VALUES` in this process's memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use bpf_layout::{ROW_BYTES, ROW_LANES};

/// The rows of values, which the program writes.
pub(super) struct Values {
    first: NonNull<i32>,
    rows: usize,
}

impl Values {
    pub(super) fn map(map: BorrowedFd<'_>, rows: usize) -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: new memory at an address that the kernel chooses.
        let first = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                rows * ROW_BYTES,
                protection,
                flags,
                map.as_raw_fd(),
                0,
            )
        };
        if first == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(first.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { first, rows })
    }

    /// The first lanes of a row. To be looked at while no packet is under way.
    pub(super) fn row(&self, row: usize, lanes: usize) -> Vec<i32> {
        self.with(row, lanes, |at| {
            // SAFETY: within the mapping; as long as no program runs, nobody writes.
            unsafe { std::slice::from_raw_parts(at, lanes) }.to_vec()
        })
    }

    /// Overwrites them.
    pub(super) fn set_row(&mut self, row: usize, values: &[i32]) {
        self.with(row, values.len(), |at| {
            // SAFETY: within the mapping, and `values` is memory of this process's own.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), at, values.len()) }
        });
    }

    fn with<T>(&self, row: usize, lanes: usize, look: impl FnOnce(*mut i32) -> T) -> T {
        assert!(row < self.rows && lanes <= ROW_LANES);
        // SAFETY: within the mapping, as was just checked.
        look(unsafe { self.first.as_ptr().add(row * ROW_LANES) })
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        // SAFETY: what `map` mapped, of which nothing is borrowed.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.rows * ROW_BYTES) };
    }
}

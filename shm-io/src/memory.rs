//! Memory that one process writes and another reads: a sealed file without a name (memfd_create(2)).
//!
//! Its first page has the words by which the two sides understand each other, on cache lines of their own; the ring of the
//! packets that its owner sends follows.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

use crate::{LARGEST_RING, SMALLEST_RING};

/// Bytes that the owner has sent, ever.
const SENT: usize = 0;
/// Bytes that the owner has taken out of the other side's ring, ever.
const TAKEN: usize = 128;
/// Whether the owner sleeps: see [`crate::line`].
const SLEEP: usize = 256;
/// Where the ring begins.
const RING: usize = 4096;

/// `TMPFS_MAGIC` of linux/magic.h: not huge pages, of which there may be too few when one is touched.
const TMPFS: u64 = 0x0102_1994;

/// The seals that a reader insists on: what it has mapped stays there.
const LASTING: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A mapping of a region, of either side.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is the process's, not a thread's; who may touch which part of it is said where it is touched.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, len: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, so that nothing that exists is replaced.
        let base = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len, "an offset in the region");
        // SAFETY: the offset is in the mapping, by the line above.
        unsafe { self.base.as_ptr().add(offset) }
    }

    fn word64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the words are in the first page, aligned, and live as long as the mapping; all accesses to them, by
        // this process and by others, are atomic.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    fn word32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as for `word64`.
        unsafe { AtomicU32::from_ptr(self.at(offset).cast()) }
    }

    /// Bytes of the ring.
    pub(crate) fn ring(&self) -> usize {
        self.len - RING
    }

    pub(crate) fn sent(&self) -> &AtomicU64 {
        self.word64(SENT)
    }

    pub(crate) fn taken(&self) -> &AtomicU64 {
        self.word64(TAKEN)
    }

    pub(crate) fn sleep(&self) -> &AtomicU32 {
        self.word32(SLEEP)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody borrows from it any more. That it fails is impossible then.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// The memory that this process writes.
pub(crate) struct Own(Mapping);

impl Deref for Own {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.0
    }
}

impl Own {
    /// Makes memory with a ring of so many bytes, a power of two, and returns the file to hand over.
    pub(crate) fn new(ring: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("tributary-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let len = RING + ring;
        // Beyond it the kernel would end this process by a signal (SIGXFSZ).
        if let Some(limit) = getrlimit(Resource::Fsize)
            .current
            .filter(|limit| *limit < len as u64)
        {
            let text =
                format!("this process may have no file of {len} bytes: its limit is {limit} (ulimit -f)");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        ftruncate(&file, len as u64)?;
        let mapping = Mapping::new(file.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE)?;
        // From here on no other mapping of it can be written to.
        fcntl_add_seals(&file, LASTING | SealFlags::FUTURE_WRITE)?;
        Ok((Self(mapping), file))
    }

    /// A part of the ring to write to; `None` where it is none.
    ///
    /// # Safety
    /// While the part is borrowed nobody else in this process borrows of the ring; one [`crate::Sender`] does that.
    #[expect(
        clippy::mut_from_ref,
        reason = "the mapping is shared, the ring has one writer"
    )]
    pub(crate) unsafe fn part(&self, offset: usize, len: usize) -> Option<&mut [u8]> {
        if offset.checked_add(len)? > self.ring() {
            return None;
        }
        // SAFETY: the part is in the mapping. The memory is sealed: no other process can write to it; the caller sees to it
        // that this one does not.
        Some(unsafe { std::slice::from_raw_parts_mut(self.0.at(RING + offset), len) })
    }
}

/// The memory that the other process writes. It may write anything at any time.
pub(crate) struct Other(Mapping);

impl Deref for Other {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.0
    }
}

impl Other {
    /// Maps a file that the other process has handed over, if it is what it should be.
    pub(crate) fn new(file: BorrowedFd<'_>) -> io::Result<Self> {
        let unfit = |what: &str| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a file was handed over that {what}"),
            )
        };
        if !fcntl_get_seals(file)?.contains(LASTING) {
            return Err(unfit("can change its size"));
        }
        if fstatfs(file)?.f_type as u64 != TMPFS {
            return Err(unfit("is not in ordinary memory"));
        }
        let len = usize::try_from(fstat(file)?.st_size).map_err(|_| Errno::OVERFLOW)?;
        let ring = len.saturating_sub(RING);
        if !ring.is_power_of_two() || !(SMALLEST_RING..=LARGEST_RING).contains(&ring) {
            return Err(unfit("has the wrong size"));
        }
        Ok(Self(Mapping::new(file, len, ProtFlags::READ)?))
    }

    /// The word of the ring at an offset that is a multiple of 8; `None` outside.
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let inside = offset.is_multiple_of(8) && offset < self.ring();
        inside.then(|| self.0.word64(RING + offset))
    }

    /// Copies bytes of the ring, whatever they are; `false` outside, where nothing is copied.
    pub(crate) fn copy(&self, offset: usize, to: &mut [u8]) -> bool {
        if offset.checked_add(to.len()).is_none_or(|end| end > self.ring()) {
            return false;
        }
        // SAFETY: the part is in the mapping, and `to` is private memory. The other process may write meanwhile: the bytes
        // are then any mixture of old and new ones, all of them valid, and nobody looks at them but in the copy.
        unsafe { std::ptr::copy_nonoverlapping(self.0.at(RING + offset), to.as_mut_ptr(), to.len()) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn nobody_else_can_write_to_what_was_handed_over() {
        let (own, file) = Own::new(SMALLEST_RING).unwrap();
        let writable = Mapping::new(
            file.as_fd(),
            RING + SMALLEST_RING,
            ProtFlags::READ | ProtFlags::WRITE,
        );
        assert_eq!(
            writable.map(|_| ()).unwrap_err().raw_os_error(),
            Some(Errno::PERM.raw_os_error())
        );
        assert_eq!(rustix::io::write(&file, &[1]), Err(Errno::PERM));
        assert_eq!(ftruncate(&file, 0), Err(Errno::PERM));
        // By another name neither.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let again = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        assert_eq!(rustix::io::write(&again, &[1]), Err(Errno::PERM));
        // SAFETY: nobody else borrows of it.
        unsafe { own.part(64, 2) }.unwrap().copy_from_slice(&[3, 4]);
        let other = Other::new(file.as_fd()).unwrap();
        let mut copied = [0; 2];
        assert!(other.copy(64, &mut copied));
        assert_eq!(copied, [3, 4]);
    }

    #[test]
    fn what_could_end_its_reader_is_not_taken() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = |len, seals| {
            let file = memfd_create("x", flags).unwrap();
            ftruncate(&file, len).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            file
        };
        let good = (RING + SMALLEST_RING) as u64;
        let why = |file: &OwnedFd| Other::new(file.as_fd()).err().map(|error| error.to_string());
        assert_eq!(why(&file(good, LASTING)), None);
        for seals in [
            SealFlags::empty(),
            SealFlags::SEAL | SealFlags::GROW,
            SealFlags::SHRINK | SealFlags::GROW,
        ] {
            let why = why(&file(good, seals)).unwrap();
            assert!(why.ends_with("can change its size"), "{why}");
        }
        let sizes = [
            0,
            RING,
            RING + 1,
            RING + SMALLEST_RING + 64,
            RING + SMALLEST_RING / 2,
        ];
        for len in sizes.into_iter().chain([RING + 2 * LARGEST_RING]) {
            let why = why(&file(len as u64, LASTING)).unwrap();
            assert!(why.ends_with("has the wrong size"), "{why}");
        }
        // Not even a file of memory.
        assert!(Other::new(std::fs::File::open("/dev/zero").unwrap().as_fd()).is_err());
    }

    #[test]
    fn there_is_nothing_outside_the_ring() {
        let (own, file) = Own::new(SMALLEST_RING).unwrap();
        let other = Other::new(file.as_fd()).unwrap();
        let mut two = [0; 2];
        for offset in [SMALLEST_RING - 1, SMALLEST_RING, usize::MAX - 1, usize::MAX] {
            // SAFETY: nobody else borrows of it.
            assert!(unsafe { own.part(offset, 2) }.is_none());
            assert!(!other.copy(offset, &mut two));
            assert!(other.word(offset).is_none());
        }
        assert!(other.copy(SMALLEST_RING - 2, &mut two) && other.word(SMALLEST_RING - 8).is_some());
    }
}

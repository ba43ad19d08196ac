//! From the pointers of C to references, checked as far as that can be done.

use core::ffi::c_void;
use core::ptr;

/// Makes a `T` in memory of the host; null where that is too small or not aligned.
///
/// # Safety
/// `memory` must point to `bytes` writable bytes that nothing else uses as long as the `T` is used.
pub(crate) unsafe fn place<T>(memory: *mut c_void, bytes: usize, value: T) -> *mut T {
    let place = memory.cast::<T>();
    if place.is_null() || !place.is_aligned() || bytes < size_of::<T>() {
        return ptr::null_mut();
    }
    // SAFETY: it is large enough and aligned, and the caller says that it is writable and unused.
    unsafe { place.write(value) };
    place
}

/// `len` elements; none where the pointer is null.
///
/// # Safety
/// `first` must be null or point to `len` initialised elements that nobody writes during `'m`.
pub(crate) unsafe fn slice<'m, T>(first: *const T, len: usize) -> &'m [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { core::slice::from_raw_parts(first, len) }
}

/// `len` elements to write to; none where the pointer is null.
///
/// # Safety
/// `first` must be null or point to `len` initialised elements that nobody else uses during `'m`.
pub(crate) unsafe fn slice_mut<'m, T>(first: *mut T, len: usize) -> &'m mut [T] {
    if first.is_null() {
        return &mut [];
    }
    // SAFETY: as the caller says.
    unsafe { core::slice::from_raw_parts_mut(first, len) }
}

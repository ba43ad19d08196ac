//! No time stamps on what is received.
//!
//! `quinn-udp` asks the kernel for them (`SO_TIMESTAMPNS`, socket(7)) and has 96 bytes for all that the kernel says of a
//! datagram. With its time (32), its own address (32 or 40) and the length of GRO's segments (24) there is no room left for
//! its traffic class (24), and ECN marks are not seen, on just those sockets that receive the most.

use std::{io, os::fd::BorrowedFd};

#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(unsafe_code, reason = "neither rustix nor socket2 has this option")]
pub(crate) fn switch_off(socket: BorrowedFd<'_>) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let off: libc::c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads an integer, whose size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn switch_off(_: BorrowedFd<'_>) -> io::Result<()> {
    Ok(())
}

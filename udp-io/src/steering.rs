//! Which queue of a port a packet belongs to, decided in the kernel.

#![cfg_attr(any(target_os = "linux", target_os = "android"), allow(unsafe_code))]

/// What packets of the port's protocol look like, and which of their bytes tells the queue.
///
/// Of a train that arrived in one piece (GSO, GRO) the first packet decides for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    /// The first two bytes of every packet of the protocol.
    pub prefix: [u8; 2],
    /// No packet of the protocol is shorter, in bytes.
    pub shortest: u32,
    /// Offset of the byte that tells the queue.
    pub at: u32,
}

impl Steering {
    /// The queue of a packet of the protocol whose deciding byte is `byte`. Queue 0 is for packets that are not of the
    /// protocol, so it is 0 only where there is no other queue.
    pub const fn queue_of_byte(byte: u8, queues: usize) -> usize {
        match queues.saturating_sub(1) {
            0 => 0,
            others => 1 + byte as usize % others,
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::attach;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::{
        io,
        os::fd::{AsRawFd, BorrowedFd},
    };

    use libc::{
        BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_H, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_LEN, BPF_MOD,
        BPF_RET, BPF_W, sock_filter, sock_fprog,
    };

    use super::Steering;

    /// `BPF_A` of linux/filter.h: return the accumulator.
    const BPF_A: u32 = 0x10;

    /// Length of the program.
    const INSTRUCTIONS: usize = 9;

    /// The program (classic BPF, Documentation/networking/filter.rst). The kernel runs it with its data at the UDP
    /// payload (`run_bpf_filter` in net/core/sock_reuseport.c) and takes what it returns as the number of the socket
    /// in the order of binding. A load past the packet's end returns 0, which suits.
    fn program(steering: &Steering, queues: usize) -> [sock_filter; INSTRUCTIONS] {
        let plain = |code: u32, k| sock_filter {
            code: code as u16,
            jt: 0,
            jf: 0,
            k,
        };
        // Jumps count from the next instruction; the last one returns 0.
        let unless = |code: u32, k, jf| sock_filter { jf, ..plain(code, k) };
        // A modulus of 0 would be refused; without other queues there is nothing to steer.
        let others = (queues as u32).saturating_sub(1).max(1);
        [
            plain(BPF_LD | BPF_W | BPF_LEN, 0),
            unless(BPF_JMP | BPF_JGE | BPF_K, steering.shortest, 6),
            plain(BPF_LD | BPF_H | BPF_ABS, 0),
            unless(
                BPF_JMP | BPF_JEQ | BPF_K,
                u16::from_be_bytes(steering.prefix).into(),
                4,
            ),
            plain(BPF_LD | BPF_B | BPF_ABS, steering.at),
            plain(BPF_ALU | BPF_MOD | BPF_K, others),
            plain(BPF_ALU | BPF_ADD | BPF_K, 1),
            plain(BPF_RET | BPF_A, 0),
            plain(BPF_RET | BPF_K, 0),
        ]
    }

    /// Attaches the program to all the sockets that share the port of `socket` (`SO_ATTACH_REUSEPORT_CBPF`).
    pub(crate) fn attach(socket: BorrowedFd<'_>, steering: &Steering, queues: usize) -> io::Result<()> {
        let mut filter = program(steering, queues);
        let program = sock_fprog {
            len: INSTRUCTIONS as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: the descriptor is open while it is borrowed; the kernel copies the `sock_fprog`, whose size is given,
        // and the `len` instructions it points to before the call returns, and writes to neither.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_CBPF,
                (&raw const program).cast(),
                size_of::<sock_fprog>() as libc::socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

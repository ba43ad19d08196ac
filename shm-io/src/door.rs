//! How two processes find each other: an abstract Unix socket.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect as connect_to, listen,
    socket_with,
};

use crate::greeting::{Greeting, check_user, set_patience};
use crate::line::{Line, sleep};
use crate::memory::{Other, Own};
use crate::{LARGEST_RING, SMALLEST_RING};

/// Callers that can wait at the door.
const BACKLOG: i32 = 64;

/// How long a caller has to say what it wants: it need not think.
const GREETING: Duration = Duration::from_millis(500);

/// Where other processes of this machine, and of this network namespace, can call. Its name is free again as soon as it is
/// dropped, or its process ended.
pub struct Door {
    socket: OwnedFd,
    name: String,
}

impl Door {
    /// Opens a door of this name, which has at most 100 bytes.
    ///
    /// # Errors
    /// The name is taken, or too long.
    pub fn open(name: &str) -> io::Result<Self> {
        let socket = socket()?;
        bind(&socket, &address(name)?)?;
        listen(&socket, BACKLOG)?;
        // Callers may be gone again when they are to be let in.
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            socket,
            name: name.to_owned(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for a caller, at most for `limit`, and hears what it wants.
    ///
    /// # Errors
    /// Who called is another user's, said something else than was expected, or took too long. The door works on.
    pub fn accept(&self, limit: Duration) -> io::Result<Option<Call>> {
        let Some(socket) = self.caller(limit)? else {
            return Ok(None);
        };
        check_user(socket.as_fd())?;
        set_patience(socket.as_fd(), GREETING)?;
        let (greeting, file) = Greeting::receive(socket.as_fd())?;
        let other = Other::new(file.as_fd())?;
        Ok(Some(Call {
            socket,
            greeting,
            other,
        }))
    }

    /// Waits for somebody to call, whoever it is, at most for `limit`.
    pub(crate) fn caller(&self, limit: Duration) -> io::Result<Option<OwnedFd>> {
        if !sleep(&mut [PollFd::new(self, PollFlags::IN)], limit)? {
            return Ok(None);
        }
        match accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Door {
    /// The socket that is readable when somebody calls.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door({})", self.name)
    }
}

/// Another process that called. To drop it is to refuse it.
pub struct Call {
    socket: OwnedFd,
    greeting: Greeting,
    other: Other,
}

impl Call {
    /// What it wants.
    pub fn number(&self) -> u64 {
        self.greeting.number
    }

    /// Bytes of shared memory that the line would take.
    pub fn bytes(&self) -> usize {
        self.other.ring() + ring_size(self.greeting.ring)
    }

    /// Makes the line, has `take` put it to use, and names it to the caller: who can then send.
    ///
    /// # Errors
    /// There is no memory, or the caller is gone; or `take`'s own.
    pub fn answer<T>(self, name: u64, take: impl FnOnce(Line) -> io::Result<T>) -> io::Result<T> {
        let (own, file) = Own::new(ring_size(self.greeting.ring))?;
        let socket = self.socket.try_clone()?;
        let taken = take(Line::new(own, self.other, self.socket, name))?;
        let answer = Greeting {
            number: name,
            ring: 0,
        };
        answer.send(socket.as_fd(), file.as_fd())?;
        Ok(taken)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({:?})", self.greeting)
    }
}

/// Calls at the door of this name, with a number that says what for, and waits for an answer, at most for `patience` with
/// each step. `ring`: bytes of the ring each way, about; a packet takes its length and up to 72 bytes.
///
/// # Errors
/// There is no such door on this machine, or not in this network namespace; it is another user's; it does not let in.
pub fn connect(name: &str, number: u64, ring: usize, patience: Duration) -> io::Result<Line> {
    let socket = dial(name, patience)?;
    check_user(socket.as_fd())?;
    let (own, file) = Own::new(ring_size(ring as u64))?;
    let ring = ring as u64;
    Greeting { number, ring }.send(socket.as_fd(), file.as_fd())?;
    let (answer, file) = Greeting::receive(socket.as_fd())?;
    let other = Other::new(file.as_fd())?;
    Ok(Line::new(own, other, socket, answer.number))
}

/// Calls at the door of this name, whosever it is; every step waits at most for `patience`.
pub(crate) fn dial(name: &str, patience: Duration) -> io::Result<OwnedFd> {
    let socket = socket()?;
    set_patience(socket.as_fd(), patience)?;
    connect_to(&socket, &address(name)?)?;
    Ok(socket)
}

pub(crate) fn socket() -> io::Result<OwnedFd> {
    // Each byte that wakes is a message, so that the end of the other side is told from it.
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(socket)
}

pub(crate) fn address(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}

/// The size of ring that stands for a wish.
fn ring_size(wish: u64) -> usize {
    let wish = wish.clamp(SMALLEST_RING as u64, LARGEST_RING as u64) as usize;
    wish.next_power_of_two().min(LARGEST_RING)
}

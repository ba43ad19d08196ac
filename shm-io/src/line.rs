//! What joins two processes: the memory of each, and a socket.
//!
//! Who is about to sleep says so in its own memory, looks once more, and sleeps on the socket. Who has sent something looks
//! there, after that, and writes a byte to the socket. One of both sees the other. The word by which a side says that it
//! sleeps has a number, so that it is woken once from each sleep.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::memory::{Other, Own};
use crate::{Receiver, Sender};

/// In the word: the side sleeps.
const ASLEEP: u32 = 1;
/// And is also to be woken when there is room in its ring.
const FOR_ROOM: u32 = 2;
/// The rest is a number.
const ONE: u32 = 4;

/// Joins this process to another one.
pub struct Line {
    pub(crate) own: Own,
    pub(crate) other: Other,
    socket: OwnedFd,
    sleepers: Mutex<Sleepers>,
    /// The socket had something for a thread that slept, and may have it still.
    rung: AtomicBool,
    hung_up: AtomicBool,
    name: u64,
}

/// Several threads may wait on a line.
#[derive(Default)]
struct Sleepers {
    threads: u32,
    /// What this side says of itself.
    word: u32,
}

impl Line {
    pub(crate) fn new(own: Own, other: Other, socket: OwnedFd, name: u64) -> Self {
        Self {
            own,
            other,
            socket,
            sleepers: Mutex::default(),
            rung: AtomicBool::new(false),
            hung_up: AtomicBool::new(false),
            name,
        }
    }

    /// Both ends of it.
    pub fn split(self) -> (Sender, Receiver) {
        let line = Arc::new(self);
        (Sender::new(Arc::clone(&line)), Receiver::new(line))
    }

    /// What who answered has named it.
    pub fn name(&self) -> u64 {
        self.name
    }

    /// Bytes of both rings.
    pub fn bytes(&self) -> usize {
        self.own.ring() + self.other.ring()
    }

    /// Whether the other side has sent what was not received yet; also when it has written nonsense.
    pub fn has_packets(&self) -> bool {
        let sent = self.other.sent().load(Ordering::Relaxed);
        sent != self.own.taken().load(Ordering::Relaxed)
    }

    /// Whether there is nobody on the other side any more, as far as was seen.
    pub fn has_hung_up(&self) -> bool {
        self.hung_up.load(Ordering::Relaxed)
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a thread of this side is about to sleep, until packets come or, where it wants that, there is room. Then
    /// it looks once more whether there is something to do: if so, it says so.
    pub fn doze(&self, for_room: bool) -> bool {
        let mut sleepers = self.sleepers();
        sleepers.threads += 1;
        let for_room_too = if for_room { FOR_ROOM } else { 0 };
        let others = if sleepers.threads > 1 {
            sleepers.word & FOR_ROOM
        } else {
            0
        };
        let number = sleepers.word.wrapping_add(ONE) & !(ONE - 1);
        sleepers.word = number | others | for_room_too | ASLEEP;
        self.own.sleep().store(sleepers.word, Ordering::Relaxed);
        drop(sleepers);
        // Either this side sees what was sent, or the other one that this side sleeps.
        fence(Ordering::SeqCst);
        let taken = self.other.taken().load(Ordering::Relaxed);
        let is_empty = self.own.sent().load(Ordering::Relaxed) == taken;
        self.has_packets() || (for_room && is_empty)
    }

    /// Says that a thread that has said [`doze`](Self::doze) is awake; `bell` if the socket had something: that is left
    /// there, for other threads that sleep, until [`answer`](Self::answer).
    pub fn rise(&self, bell: bool) {
        if bell {
            self.rung.store(true, Ordering::Relaxed);
        }
        let mut sleepers = self.sleepers();
        sleepers.threads = sleepers.threads.saturating_sub(1);
        if sleepers.threads == 0 {
            sleepers.word &= !(ASLEEP | FOR_ROOM);
        } else if bell {
            // The others are to be woken again.
            sleepers.word = sleepers.word.wrapping_add(ONE);
        }
        self.own.sleep().store(sleepers.word, Ordering::Relaxed);
    }

    /// Takes out of the socket what woke somebody, if something did: to be called before packets are received, by who
    /// receives them. Sees whether the other side has hung up.
    pub fn answer(&self) {
        if !self.rung.load(Ordering::Relaxed) || !self.rung.swap(false, Ordering::Relaxed) {
            return;
        }
        match recv(&self.socket, &mut [0; 1], RecvFlags::DONTWAIT) {
            // If there are more, the next sleep is short.
            Ok((_, 1)) | Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(_) | Err(_) => self.hung_up.store(true, Ordering::Relaxed),
        }
    }

    /// Wakes the other side if it sleeps and either something was sent or it waits for room. `woken` is the sleep that it
    /// was last woken from.
    pub(crate) fn wake(&self, is_news: bool, woken: &mut u32) {
        fence(Ordering::SeqCst);
        let word = self.other.sleep().load(Ordering::Relaxed);
        let wants = word & ASLEEP != 0 && (is_news || word & FOR_ROOM != 0);
        if !wants || word == *woken {
            return;
        }
        *woken = word;
        // A socket that is full wakes as well; one that is closed is seen to be when this side waits.
        let _ = send(&self.socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

impl AsFd for Line {
    /// The socket that is readable when this side is woken, and when the other side has hung up.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ours, theirs) = (self.own.ring(), self.other.ring());
        write!(f, "Line({ours} bytes there, {theirs} back)")
    }
}

/// Waits until packets may have come over any of the lines or, where that is wanted, there may be room again, at most for
/// `limit`; `false` after that. When all have hung up, it waits as long as if nothing came.
///
/// # Errors
/// The kernel cannot wait.
pub fn wait_any(lines: &[&Line], for_room: bool, limit: Duration) -> io::Result<bool> {
    let mut found = false;
    for line in lines {
        found |= line.doze(for_room);
    }
    match lines {
        // There is something to do: the socket can wait.
        _ if found => {}
        // Without memory of its own: this is the way of every operation.
        [line] if !line.has_hung_up() => {
            let mut socket = [PollFd::new(*line, PollFlags::IN)];
            let rung = sleep(&mut socket, limit);
            line.rise(!socket[0].revents().is_empty());
            return Ok(rung? || line.has_packets());
        }
        _ => {
            let there = lines.iter().filter(|line| !line.has_hung_up());
            let mut sockets: Vec<_> = there.map(|line| PollFd::new(*line, PollFlags::IN)).collect();
            let rung = sleep(&mut sockets, limit);
            let mut sockets = sockets.iter();
            for line in lines {
                let socket = if line.has_hung_up() { None } else { sockets.next() };
                line.rise(socket.is_some_and(|socket| !socket.revents().is_empty()));
            }
            return rung;
        }
    };
    for line in lines {
        line.rise(false);
    }
    Ok(found)
}

/// Sleeps until a socket has something; `false` if none had in time, or a signal came.
pub(crate) fn sleep(sockets: &mut [PollFd<'_>], limit: Duration) -> io::Result<bool> {
    // A limit beyond the type's range is as good as none.
    let limit = Timespec::try_from(limit).ok();
    match poll(sockets, limit.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

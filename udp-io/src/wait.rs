//! Waiting for packets.

use std::{
    array, io,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};

use crate::{Held, Port};

/// Sockets that are waited for without allocating; more than a worker has shards.
const INLINE: usize = 64;

/// Waits at most `timeout` until one of `ports` has something to receive. Sub-millisecond timeouts work; zero only
/// looks. `true` may be spurious, as with [`Port::wait_readable`]. Without ports it just sleeps.
pub fn wait_any<P: Port>(ports: &[&P], timeout: Duration) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        let mut left = timeout.saturating_sub(start.elapsed());
        let expires = left.is_zero();
        for port in ports {
            match port.poll_held()? {
                Held::Nothing => {}
                Held::Until(due) => left = left.min(due.saturating_duration_since(Instant::now())),
                Held::Ready => return Ok(true),
            }
        }
        if poll_readable(ports, left)? {
            return Ok(true);
        }
        if expires {
            return Ok(false);
        }
    }
}

fn poll_readable<P: Port>(ports: &[&P], timeout: Duration) -> io::Result<bool> {
    match ports {
        [] => poll(&mut [], timeout),
        [port] => poll(&mut [PollFd::new(port.udp(), PollFlags::IN)], timeout),
        _ if ports.len() <= INLINE => {
            // The array is longer than needed; its tail repeats the last port and is not polled.
            let mut fds: [PollFd<'_>; INLINE] =
                array::from_fn(|i| PollFd::new(ports[i.min(ports.len() - 1)].udp(), PollFlags::IN));
            poll(&mut fds[..ports.len()], timeout)
        }
        _ => {
            let mut fds: Vec<_> = ports
                .iter()
                .map(|port| PollFd::new(port.udp(), PollFlags::IN))
                .collect();
            poll(&mut fds, timeout)
        }
    }
}

/// `poll(2)` with a fine timeout: whether any of `fds` has an event. A signal that interrupts it is no error, and
/// does not lengthen the wait.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        // A timeout beyond the type's range is as good as its end.
        let timespec = Timespec::try_from(left).unwrap_or(Timespec {
            tv_sec: i64::MAX,
            tv_nsec: 0,
        });
        match rustix::event::poll(fds, Some(&timespec)) {
            Ok(events) => return Ok(events > 0),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
    }
}

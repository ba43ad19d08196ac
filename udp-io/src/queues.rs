//! One UDP port with several receive queues, so that who floods one fills that one only.

use std::{io, net::SocketAddr, time::Duration};

use crate::{PortConfig, PortError, Steering, UdpPort, socket::Sharing, watch::Watch};

/// Queues a port can have at most: a [`QueueSet`] has a bit for each.
pub const MAX_QUEUES: usize = 64;

/// How many queues, how they are chosen, and how much each may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// Queues, 1 to [`MAX_QUEUES`] (clipped), queue 0 included.
    pub queues: usize,
    /// Which packet goes where.
    pub steering: Steering,
    /// Buffers of the queues from 1 on; of queue 0 where it is the only one.
    pub buffers: PortConfig,
    /// Receive buffer of queue 0, for packets of no use, in bytes.
    pub foreign_buffer: usize,
}

/// A UDP port whose packets the kernel sorts into queues, a socket each: see [`Steering`]. Packets sent from any of
/// the sockets have the same source.
///
/// On systems other than Linux, and where the kernel has no such thing, there is one queue only: look at
/// [`queues`](Self::queues).
#[derive(Debug)]
pub struct QueuedPort {
    queues: Vec<UdpPort>,
    watch: Watch,
}

impl QueuedPort {
    /// Opens `config.queues` sockets on `addr`; port 0 lets the kernel choose.
    ///
    /// Errors: as [`UdpPort::bind`]. A port that another process has is refused although the sockets share theirs.
    pub fn bind(addr: SocketAddr, config: &QueueConfig) -> Result<QueuedPort, PortError> {
        let queues = match Self::bind_several(addr, config)? {
            Some(queues) => queues,
            None => vec![UdpPort::bind(addr, &config.buffers)?],
        };
        let watch =
            Watch::new(&queues).map_err(|error| PortError::new(addr, "watch the queues of a port", error))?;
        Ok(QueuedPort { queues, watch })
    }

    /// The queues where there can be several; without what does not work, the port is free again.
    fn bind_several(addr: SocketAddr, config: &QueueConfig) -> Result<Option<Vec<UdpPort>>, PortError> {
        let count = config.queues.clamp(1, MAX_QUEUES);
        if count == 1 || !cfg!(any(target_os = "linux", target_os = "android")) {
            return Ok(None);
        }
        let foreign = PortConfig {
            receive_buffer: config.foreign_buffer,
            ..config.buffers
        };
        // The order of binding is the number that the program returns.
        let first = UdpPort::open(addr, &foreign, Sharing::Later)?;
        let addr = first.local_addr();
        let mut queues = vec![first];
        while queues.len() < count {
            queues.push(UdpPort::open(addr, &config.buffers, Sharing::Joins)?);
        }
        // Until here the kernel has spread what arrived by a hash: it is of no use, nobody can know of the port yet.
        Ok(steer(&queues, &config.steering).is_ok().then_some(queues))
    }

    /// The queues by their number.
    pub fn queues(&self) -> &[UdpPort] {
        &self.queues
    }

    /// The bound address, with the port number the kernel chose if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.any().local_addr()
    }

    /// The receive buffer the kernel granted to each queue that packets of use go to: see
    /// [`UdpPort::receive_buffer`].
    pub fn receive_buffer(&self) -> usize {
        self.any().receive_buffer()
    }

    /// The last queue stands for those that are alike; there is always one.
    fn any(&self) -> &UdpPort {
        &self.queues[self.queues.len() - 1]
    }

    /// Waits at most `timeout`, to the millisecond, until a queue has something to receive, and says which have. Zero only
    /// looks. As with [`wait_any`](crate::wait_any), one that is named may still turn out empty; a signal ends the wait.
    pub fn wait(&self, timeout: Duration) -> io::Result<QueueSet> {
        self.wait_also(timeout, |_| {})
    }

    /// As [`wait`](Self::wait), also for the files [named](Self::watch_also) to it: `also` is told which can be read.
    pub fn wait_also(&self, timeout: Duration, also: impl FnMut(u64)) -> io::Result<QueueSet> {
        self.watch.wait(&self.queues, timeout, also)
    }

    /// Has [`wait_also`](Self::wait_also) wait for another file, too, until that is closed. Its name is none below
    /// [`MAX_QUEUES`].
    ///
    /// Errors: what the kernel says; the name is a queue's.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn watch_also(&self, file: std::os::fd::BorrowedFd<'_>, name: u64) -> io::Result<()> {
        if name < MAX_QUEUES as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.watch.also(file, name)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn steer(queues: &[UdpPort], steering: &Steering) -> io::Result<()> {
    use std::os::fd::AsFd;
    crate::steering::attach(queues[0].as_fd(), steering, queues.len())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn steer(_: &[UdpPort], _: &Steering) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Some of the queues of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueSet(u64);

impl QueueSet {
    /// Adds a queue, whose number is below [`MAX_QUEUES`].
    pub fn insert(&mut self, queue: usize) {
        self.0 |= bit(queue);
    }

    /// Takes a queue out.
    pub fn remove(&mut self, queue: usize) {
        self.0 &= !bit(queue);
    }

    /// Those in either.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the queue is in.
    pub fn contains(self, queue: usize) -> bool {
        self.0 & bit(queue) != 0
    }

    /// Whether none is in.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many are in.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The first queue at or after `from`, going round.
    pub fn next_from(self, from: usize) -> Option<usize> {
        let from = from % MAX_QUEUES;
        let ahead = self.0.rotate_right(from as u32);
        (ahead != 0).then(|| (from + ahead.trailing_zeros() as usize) % MAX_QUEUES)
    }
}

/// No bit for a queue that cannot be.
fn bit(queue: usize) -> u64 {
    1_u64.checked_shl(queue as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_walked_round() {
        let mut set = QueueSet::default();
        assert_eq!(set.next_from(3), None);
        for queue in [0, 2, 63] {
            set.insert(queue);
        }
        let walk: Vec<_> = [0, 1, 2, 3, 63, 64].map(|from| set.next_from(from)).into();
        assert_eq!(walk, [0, 2, 2, 63, 63, 0].map(Some));
        set.remove(63);
        assert_eq!(
            (set.next_from(3), set.len(), set.contains(63)),
            (Some(0), 2, false)
        );
        set.insert(64);
        assert_eq!(set.len(), 2);
    }
}

//! The interface that hosts and workers are generic over.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{PushError, RecvBatch, SendBatch, UdpPort, wait_any};

/// A UDP socket, or one with faults injected. One thread may receive while another sends.
pub trait Port: Send + Sync {
    /// Replaces the contents of `batch` by what has arrived, without waiting. Returns the number of packets, 0
    /// when nothing is there. More may be waiting: a batch holds a limited number.
    ///
    /// Errors: the socket itself is broken. A peer that is not there (`ECONNREFUSED`) is not an error.
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize>;

    /// Sends and empties `batch`, waiting for room in the socket's send buffer a short time if need be. Returns
    /// the number of packets the kernel took; the others are lost and counted in [`SendBatch::counts`].
    ///
    /// Errors: the socket itself is broken; the batch is empty nevertheless.
    fn flush(&self, batch: &mut SendBatch) -> io::Result<usize>;

    /// The socket underneath.
    fn udp(&self) -> &UdpPort;

    /// Moves on packets that the port itself holds back, and says whether any can be received now.
    fn poll_held(&self) -> io::Result<Held>;

    /// The bound address, with the port number the kernel chose if 0 was asked for.
    fn local_addr(&self) -> SocketAddr {
        self.udp().local_addr()
    }

    /// Waits at most `timeout` for something to receive. Sub-millisecond timeouts work; zero only looks. `true`
    /// may be spurious (a packet with a bad checksum), so [`recv`](Port::recv) may still return 0.
    fn wait_readable(&self, timeout: Duration) -> io::Result<bool>
    where
        Self: Sized,
    {
        wait_any(&[self], timeout)
    }

    /// Queues `packet` for `dest`, flushing `batch` first when it has no room.
    ///
    /// Errors: as [`flush`](Port::flush); `packet` is longer than the batch allows.
    #[inline]
    fn send(&self, batch: &mut SendBatch, dest: SocketAddr, packet: &[u8]) -> io::Result<()> {
        self.send_to_all(batch, &[dest], packet)
    }

    /// Queues one packet for each of `dests`, flushing `batch` first when it has no room. Errors as
    /// [`send`](Port::send).
    #[inline]
    fn send_to_all(&self, batch: &mut SendBatch, dests: &[SocketAddr], packet: &[u8]) -> io::Result<()> {
        self.send_with(batch, dests, packet.len(), |bytes| bytes.copy_from_slice(packet))
    }

    /// Queues one packet of `len` bytes, written by `fill`, for each of `dests`, flushing `batch` first when it
    /// has no room. `fill` must write the whole slice, which holds old bytes. Errors as [`send`](Port::send).
    #[inline]
    fn send_with<F>(&self, batch: &mut SendBatch, dests: &[SocketAddr], len: usize, fill: F) -> io::Result<()>
    where
        F: FnOnce(&mut [u8]),
    {
        if dests.is_empty() {
            return Ok(());
        }
        let train = match batch.train_for(dests, len) {
            Err(PushError::Full) => {
                self.flush(batch)?;
                batch.train_for(dests, len)
            }
            found => found,
        };
        let train = train.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        batch.append(train, len, fill);
        Ok(())
    }
}

/// What a port holds back, from [`Port::poll_held`]. A plain socket holds back nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Nothing: only the socket matters.
    Nothing,
    /// Something, which needs another [`Port::poll_held`] (or receive, or flush) at this time.
    Until(Instant),
    /// Something that [`Port::recv`] will return now.
    Ready,
}

impl<P: Port> Port for Arc<P> {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        (**self).recv(batch)
    }

    fn flush(&self, batch: &mut SendBatch) -> io::Result<usize> {
        (**self).flush(batch)
    }

    fn udp(&self) -> &UdpPort {
        (**self).udp()
    }

    fn poll_held(&self) -> io::Result<Held> {
        (**self).poll_held()
    }
}

//! What carries packets between a rank and its aggregator: the kernel's UDP, or something else.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub use agg_core::wire::Ecn;

/// Why a transport does not open: one line that says what to do.
pub type TransportError = Box<dyn std::error::Error + Send + Sync>;

/// Carries UDP datagrams between this rank and its aggregator, by whatever means: see [`Config::transport`](crate::Config).
/// The control service is always reached over TCP.
pub trait Transport: Debug + Send + Sync {
    /// How datagrams get to an aggregator whose first shard receives at `aggregator`.
    ///
    /// # Errors
    /// There is no way to it.
    fn way(&self, aggregator: SocketAddr) -> Result<Way, TransportError>;

    /// Opens ports at [`Way::local_ip`], one for each stream. A rank that moves to another aggregator keeps the ports that it
    /// has if the way there begins at the same address, else it opens others before it drops these.
    ///
    /// # Errors
    /// They cannot be had.
    fn open(&self, way: &Way, streams: u16) -> Result<Arc<dyn Ports>, TransportError>;
}

/// How datagrams get to an aggregator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Where the aggregator receives.
    pub aggregator: SocketAddr,
    /// The address that they come from, and that answers are to be sent to.
    pub local_ip: IpAddr,
    /// Bytes of the largest one that is not fragmented, without its headers.
    pub max_datagram: usize,
}

/// The open ports of a rank, one for each stream.
pub trait Ports: Send + Sync {
    /// Where each stream receives.
    fn addresses(&self) -> &[SocketAddr];

    /// Bytes that can wait on each stream until they are received, as [`agg_control::receive_buffer_cost`] counts them; 0:
    /// as many as there can be.
    fn receive_buffer(&self) -> u64;

    /// The port of a stream, for datagrams of up to `max_packet` bytes. It is called once for each stream, and for
    /// the first one also before the rank registers, to try the way (R-PROBE-3): that link is dropped before the stream's own
    /// is used.
    fn link(&self, stream: usize, max_packet: usize) -> Box<dyn Link>;

    /// Waits until a datagram may have come for any stream, at most for `limit`. The streams' links may be in use meanwhile.
    ///
    /// # Errors
    /// The ports are broken.
    fn wait(&self, limit: Duration) -> io::Result<()>;
}

/// The port of one stream, in the hands of whoever runs the stream. Nothing but [`wait`](Self::wait) waits long.
///
/// Datagrams may be lost: what cannot be sent is counted, not an error.
pub trait Link: Send {
    /// Where the next datagram to send is to be written; it has old bytes. `None`: nothing can be sent now, and
    /// [`wait`](Self::wait) returns when it is worth trying again.
    fn room(&mut self) -> Option<&mut [u8]>;

    /// Sends the first `len` bytes of what was written to [`room`](Self::room), with others or when [`flush`](Self::flush) is
    /// called.
    ///
    /// # Errors
    /// The port is broken.
    fn send(&mut self, len: usize, to: SocketAddr) -> io::Result<()>;

    /// Sends all that is left.
    ///
    /// # Errors
    /// The port is broken.
    fn flush(&mut self) -> io::Result<()>;

    /// Hands out the datagrams that have come, with their sources and what the network says of their way: they are to be sent
    /// as ECN-capable, ECT(0), where there is a network (R-ECN-1).
    ///
    /// # Errors
    /// The port is broken.
    fn receive(&mut self, each: &mut dyn FnMut(SocketAddr, &[u8], Ecn)) -> io::Result<()>;

    /// Waits until a datagram may have come, at most for `limit`.
    ///
    /// # Errors
    /// The port is broken.
    fn wait(&mut self, limit: Duration) -> io::Result<()>;

    /// What became of datagrams since it was opened.
    fn counts(&self) -> LinkCounts;

    /// Why the last datagram was not sent that was not.
    fn last_error(&self) -> Option<io::Error>;
}

/// What became of datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Sent.
    pub sent: u64,
    /// Not sent, since there was no room for them or no way.
    pub unsent: u64,
    /// Lost on purpose, both ways.
    pub lost: u64,
    /// Came, and were dropped since they were longer than any packet of the job.
    pub too_long: u64,
}

impl std::ops::Add for LinkCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            unsent: self.unsent + other.unsent,
            lost: self.lost + other.lost,
            too_long: self.too_long + other.too_long,
        }
    }
}

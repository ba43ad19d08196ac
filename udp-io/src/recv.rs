//! Receiving many packets with one system call.

use std::{
    array,
    io::{self, IoSliceMut},
    net::SocketAddr,
};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta};

use crate::{MAX_DATAGRAM, UdpPort};

/// A GRO buffer must hold the longest train the kernel may have made, or the rest of the train is lost.
const GRO_BUFFER: usize = 1 << 16;

/// Fewer buffers when each holds a whole train: 16 are 1 MiB, about what a core's own cache holds.
const GRO_BUFFERS: usize = 16;

/// Received packets, in memory that is allocated once and reused.
pub struct RecvBatch {
    storage: Box<[u8]>,
    /// Bytes of `storage` that one kernel buffer takes.
    stride: usize,
    filled: Vec<Filled>,
    max_packet: usize,
    oversized: u64,
    buffers: usize,
    bytes: usize,
    drained: bool,
}

/// A packet that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'p> {
    /// Where it comes from.
    pub source: SocketAddr,
    /// The network has marked it: a queue on its way was long (ECN, RFC 3168).
    pub congested: bool,
    /// What it holds.
    pub bytes: &'p [u8],
}

/// Packets of one source, next to each other in the storage. (GRO joins only packets that were marked alike.)
struct Filled {
    source: SocketAddr,
    congested: bool,
    start: usize,
    len: usize,
    /// Length of each packet; the last may be shorter.
    segment: usize,
}

impl RecvBatch {
    /// A batch for packets of at most `max_packet` bytes (clipped to [`MAX_DATAGRAM`]) from sockets like `port`.
    pub fn new(port: &UdpPort, max_packet: usize) -> RecvBatch {
        let max_packet = max_packet.clamp(1, MAX_DATAGRAM);
        // Without GRO one byte more than the longest packet shows that a packet was longer, and was cut.
        let (stride, buffers) = if port.gro_segments() > 1 {
            (GRO_BUFFER, GRO_BUFFERS)
        } else {
            (max_packet + 1, BATCH_SIZE)
        };
        RecvBatch {
            storage: vec![0; stride * buffers].into_boxed_slice(),
            stride,
            filled: Vec::with_capacity(BATCH_SIZE),
            max_packet,
            oversized: 0,
            buffers: 0,
            bytes: 0,
            drained: false,
        }
    }

    /// The packets of the last receive, each with its source, in order of arrival. Empty datagrams are skipped.
    #[inline]
    pub fn packets(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.arrivals().map(|arrival| (arrival.source, arrival.bytes))
    }

    /// The same with what the network says of them.
    #[inline]
    pub fn arrivals(&self) -> impl Iterator<Item = Arrival<'_>> {
        self.filled.iter().flat_map(|filled| {
            let bytes = &self.storage[filled.start..filled.start + filled.len];
            bytes.chunks(filled.segment.max(1)).map(|bytes| Arrival {
                source: filled.source,
                congested: filled.congested,
                bytes,
            })
        })
    }

    /// Packets dropped because they were longer than the batch takes, since it was made.
    pub fn oversized(&self) -> u64 {
        self.oversized
    }

    /// Kernel buffers that the last receive took something from: a packet each or, with GRO, a train. Those that were
    /// too long or empty count too, as they took the same time.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// Bytes that the last receive copied.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the last receive found no more than it took: another one now is not worth its system call.
    pub fn drained(&self) -> bool {
        self.drained
    }

    /// Replaces the contents by what has arrived at `port`, as [`Port::recv`](crate::Port::recv) does, but fills at most
    /// `buffers` kernel buffers (at least one): see [`buffers`](Self::buffers).
    #[inline]
    pub fn recv_some(&mut self, port: &UdpPort, buffers: usize) -> io::Result<usize> {
        self.fill_from(port, buffers)
    }

    pub(crate) fn clear(&mut self) {
        self.filled.clear();
        (self.buffers, self.bytes) = (0, 0);
    }

    /// Replaces the contents by what `port` has received, in at most `limit` buffers; returns the number of packets.
    pub(crate) fn fill_from(&mut self, port: &UdpPort, limit: usize) -> io::Result<usize> {
        self.clear();
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let count = (self.storage.len() / self.stride)
            .min(BATCH_SIZE)
            .min(limit.max(1));
        let received = loop {
            let mut parts = self.storage.chunks_exact_mut(self.stride);
            let mut buffers: [IoSliceMut<'_>; BATCH_SIZE] =
                array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
            match port
                .state
                .recv(port.sock_ref(), &mut buffers[..count], &mut metas)
            {
                Ok(received) => break received,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break 0,
                // An ICMP answer to something sent earlier. The report clears it: look again.
                Err(e) if is_icmp_report(&e) => continue,
                Err(e) => return Err(e),
            }
        };
        (self.buffers, self.drained) = (received, received < count);
        let mut packets = 0;
        for (index, meta) in metas[..received].iter().enumerate() {
            self.bytes += meta.len;
            let count = meta.len.div_ceil(meta.stride.max(1));
            if meta.stride > self.max_packet {
                self.oversized += count as u64;
                continue;
            }
            let start = index * self.stride;
            self.filled.push(Filled {
                source: meta.addr,
                congested: meta.ecn == Some(EcnCodepoint::Ce),
                start,
                len: meta.len,
                segment: meta.stride,
            });
            packets += count;
        }
        Ok(packets)
    }

    /// Appends a packet by copy, for ports that hold packets back. `false` when the storage is full: later it will
    /// fit, as a packet longer than the batch takes is dropped at once.
    pub(crate) fn append(&mut self, arrival: Arrival<'_>) -> bool {
        let packet = arrival.bytes;
        if packet.len() > self.max_packet {
            self.oversized += 1;
            return true;
        }
        let start = self.filled.last().map_or(0, |last| last.start + last.len);
        let Some(room) = self.storage.get_mut(start..start + packet.len()) else {
            return false;
        };
        room.copy_from_slice(packet);
        self.filled.push(Filled {
            source: arrival.source,
            congested: arrival.congested,
            start,
            len: packet.len(),
            segment: packet.len(),
        });
        true
    }
}

/// Whether the error reports, late, that an earlier packet found nobody (ICMP), and says nothing of this call.
pub(crate) fn is_icmp_report(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable
    )
}

//! Consecutive packets of one length to the same destinations.

use std::net::SocketAddr;

use crate::MAX_DATAGRAM;

/// Most packets in a train: the kernel's `UDP_MAX_SEGMENTS` (include/linux/udp.h) before it grew to 128.
pub(crate) const MAX_SEGMENTS: usize = 64;

/// A train of packets, back to back, as GSO wants them: all of one length, but the last may be shorter.
///
/// A broadcast is one train with several destinations, so that its bytes are copied once and not once for each.
pub(crate) struct Train {
    bytes: Box<[u8]>,
    len: usize,
    segment: usize,
    segments: usize,
    destinations: Vec<SocketAddr>,
    open: bool,
}

impl Train {
    pub(crate) fn new(max_packet: usize) -> Train {
        Train {
            bytes: vec![0; (max_packet * MAX_SEGMENTS).min(MAX_DATAGRAM)].into_boxed_slice(),
            len: 0,
            segment: 0,
            segments: 0,
            destinations: Vec::with_capacity(1),
            open: false,
        }
    }

    /// Empties the train for packets of `segment` bytes.
    pub(crate) fn start(&mut self, destinations: &[SocketAddr], segment: usize) {
        self.destinations.clear();
        self.destinations.extend_from_slice(destinations);
        (self.len, self.segment, self.segments) = (0, segment, 0);
        self.open = true;
    }

    /// Whether this is the train to which a packet for `destinations` belongs, if it fits.
    #[inline]
    pub(crate) fn is_open_for(&self, destinations: &[SocketAddr]) -> bool {
        self.open && self.destinations == destinations
    }

    #[inline]
    pub(crate) fn fits(&self, len: usize) -> bool {
        len <= self.segment && self.len + len <= self.bytes.len()
    }

    /// No more packets: a later one to the same destinations must go to a later train.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// Room for the next packet of `len` bytes, which must fit.
    #[inline]
    pub(crate) fn append(&mut self, len: usize) -> &mut [u8] {
        let start = self.len;
        self.len += len;
        self.segments += 1;
        // A shorter packet ends a train. So does an empty one, which has no segment length.
        if len < self.segment || len == 0 || self.segments == MAX_SEGMENTS {
            self.close();
        }
        &mut self.bytes[start..start + len]
    }

    pub(crate) fn contents(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(crate) fn segment(&self) -> usize {
        self.segment
    }

    /// Packets for each destination.
    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    pub(crate) fn destinations(&self) -> &[SocketAddr] {
        &self.destinations
    }
}

//! Packets queued for sending, gathered into trains.

use std::{io, net::SocketAddr};

use thiserror::Error;

use crate::{MAX_DATAGRAM, train::Train};

/// Packets to be sent, in memory that is allocated once and reused.
///
/// Consecutive packets of one length to the same destination, or broadcasts to the same destinations in the same
/// order, gather into trains that cost one system call per destination. Several trains are open at once, so
/// packets to different destinations may alternate. Packets to the same destinations stay in order; a broadcast
/// and a packet to one of its destinations may overtake each other.
///
/// [`Port::send`](crate::Port::send) and its siblings flush a full batch by themselves; the `push` methods do not.
pub struct SendBatch {
    trains: Vec<Train>,
    /// How many of `trains`, from the first, hold packets, in order of starting.
    used: usize,
    max_packet: usize,
    pub(crate) counts: SendCounts,
    pub(crate) last_error: Option<i32>,
}

/// What became of the packets of a [`SendBatch`], since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Packets the kernel took.
    pub sent: u64,
    /// Packets the kernel refused: no buffer space in time, no route, longer than the MTU, and the like.
    pub dropped: u64,
    /// Successful system calls; `sent / calls` tells how well trains form.
    pub calls: u64,
}

/// Why a packet was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PushError {
    /// All trains are in use.
    #[error("the send batch is full: flush it before queueing more")]
    Full,
    /// The packet is longer than the batch was made for.
    #[error(
        "a packet of {len} bytes exceeds the send batch's {max}: make the batch with a larger max_packet"
    )]
    TooLong {
        /// Length of the packet, in bytes.
        len: usize,
        /// The longest this batch takes, in bytes.
        max: usize,
    },
}

impl SendBatch {
    /// A batch for packets of at most `max_packet` bytes (clipped to [`MAX_DATAGRAM`]), with `trains` trains of
    /// up to 64 packets or 65507 bytes. Good numbers are one train for each set of destinations, and some more.
    pub fn new(max_packet: usize, trains: usize) -> SendBatch {
        let max_packet = max_packet.clamp(1, MAX_DATAGRAM);
        SendBatch {
            trains: (0..trains.max(1)).map(|_| Train::new(max_packet)).collect(),
            used: 0,
            max_packet,
            counts: SendCounts::default(),
            last_error: None,
        }
    }

    /// Queues one packet of `len` bytes to `dest`. `fill` must write the whole slice, which holds old bytes.
    #[inline]
    pub fn push(
        &mut self,
        dest: SocketAddr,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), PushError> {
        self.push_with(&[dest], len, fill)
    }

    /// Queues a copy of `packet` to `dest`.
    #[inline]
    pub fn push_slice(&mut self, dest: SocketAddr, packet: &[u8]) -> Result<(), PushError> {
        self.push_to_all(&[dest], packet)
    }

    /// Queues a copy of `packet` to each of `dests`. The copy is made once.
    #[inline]
    pub fn push_to_all(&mut self, dests: &[SocketAddr], packet: &[u8]) -> Result<(), PushError> {
        self.push_with(dests, packet.len(), |bytes| bytes.copy_from_slice(packet))
    }

    /// Queues one packet of `len` bytes, written once by `fill`, to each of `dests`. `fill` must write the whole
    /// slice, which holds old bytes.
    #[inline]
    pub fn push_with<F>(&mut self, dests: &[SocketAddr], len: usize, fill: F) -> Result<(), PushError>
    where
        F: FnOnce(&mut [u8]),
    {
        if !dests.is_empty() {
            let train = self.train_for(dests, len)?;
            self.append(train, len, fill);
        }
        Ok(())
    }

    /// The index of the train a packet belongs to: the open one of its destinations, or else a new one.
    #[inline]
    pub(crate) fn train_for(&mut self, dests: &[SocketAddr], len: usize) -> Result<usize, PushError> {
        if len > self.max_packet {
            return Err(PushError::TooLong {
                len,
                max: self.max_packet,
            });
        }
        // The latest first: packets come in runs.
        if let Some(index) = self.trains[..self.used]
            .iter()
            .rposition(|train| train.is_open_for(dests))
        {
            if self.trains[index].fits(len) {
                return Ok(index);
            }
            self.trains[index].close();
        }
        let index = self.used;
        self.trains
            .get_mut(index)
            .ok_or(PushError::Full)?
            .start(dests, len);
        self.used += 1;
        Ok(index)
    }

    /// Appends a packet to the train that [`train_for`](Self::train_for) found for it.
    #[inline]
    pub(crate) fn append(&mut self, train: usize, len: usize, fill: impl FnOnce(&mut [u8])) {
        fill(self.trains[train].append(len));
    }

    /// Whether the next push will find room, whatever its destinations.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.used < self.trains.len()
    }

    /// Whether nothing is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The longest packet this batch takes, in bytes.
    pub fn max_packet(&self) -> usize {
        self.max_packet
    }

    /// What became of the packets so far.
    pub fn counts(&self) -> SendCounts {
        self.counts
    }

    /// Why the latest dropped packet was dropped, if any was: often a packet longer than the path's MTU.
    pub fn last_error(&self) -> Option<io::Error> {
        self.last_error.map(io::Error::from_raw_os_error)
    }

    /// The queued packets with their destinations: train by train, and in it destination by destination.
    pub fn packets(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.trains().iter().flat_map(|train| {
            train.destinations().iter().flat_map(move |&dest| {
                (0..train.segments()).map(move |i| {
                    let start = i * train.segment();
                    let end = (start + train.segment()).min(train.contents().len());
                    (dest, &train.contents()[start..end])
                })
            })
        })
    }

    pub(crate) fn trains(&self) -> &[Train] {
        &self.trains[..self.used]
    }

    /// Forgets the queued packets.
    pub(crate) fn clear(&mut self) {
        for train in &mut self.trains[..self.used] {
            train.close();
        }
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn a_train_ends_with_a_shorter_packet_and_a_longer_one_starts_another() {
        let mut batch = SendBatch::new(100, 8);
        for len in [50, 50, 20, 50, 60, 60] {
            batch.push(addr(1), len, |bytes| bytes.fill(len as u8)).unwrap();
        }
        let trains: Vec<_> = batch
            .trains()
            .iter()
            .map(|t| (t.segment(), t.segments()))
            .collect();
        assert_eq!(trains, [(50, 3), (50, 1), (60, 2)]);
        let lens: Vec<_> = batch.packets().map(|(_, packet)| packet.len()).collect();
        assert_eq!(lens, [50, 50, 20, 50, 60, 60]);
    }

    #[test]
    fn trains_respect_the_number_of_segments_and_the_bytes_of_a_datagram() {
        let mut batch = SendBatch::new(9000, 4);
        for _ in 0..65 {
            batch.push_slice(addr(1), &[1; 10]).unwrap();
        }
        for _ in 0..8 {
            batch.push_slice(addr(2), &[2; 9000]).unwrap();
        }
        let segments: Vec<_> = batch.trains().iter().map(Train::segments).collect();
        assert_eq!(segments, [64, 1, 7, 1]);
        assert_eq!(batch.push_slice(addr(3), &[3]), Err(PushError::Full));
        assert_eq!(
            batch.push_slice(addr(3), &[3; 9001]),
            Err(PushError::TooLong { len: 9001, max: 9000 })
        );
    }

    #[test]
    fn consecutive_broadcasts_share_one_train_between_other_packets() {
        let everyone = [addr(1), addr(2), addr(3)];
        let mut batch = SendBatch::new(100, 8);
        for i in 0..10 {
            batch.push_to_all(&everyone, &[i; 100]).unwrap();
            batch.push_slice(addr(2), &[i; 40]).unwrap();
        }
        assert_eq!(batch.trains().len(), 2);
        assert_eq!(batch.packets().count(), 40);
    }
}

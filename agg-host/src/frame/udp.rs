//! UDP headers (RFC 768).

use std::net::SocketAddr;
use std::ops::Range;

use agg_core::wire::Ecn;

use super::{Ip, Pair, Sum, split};

/// Bytes of a UDP header.
pub(super) const UDP: usize = 8;
pub(super) const PROTOCOL: u8 = 17;

/// A UDP datagram in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Who sent it.
    pub from: SocketAddr,
    /// Who is to get it.
    pub to: SocketAddr,
    /// Whether the network has marked it.
    pub ecn: Ecn,
    /// Where in the frame its payload is.
    pub payload: Range<usize>,
}

impl Datagram {
    /// Reads what is inside an IP packet; `None`: it is no whole UDP datagram. The checksum is not looked at: a virtual device
    /// leaves it for a real one to write.
    #[inline]
    pub fn read(frame: &[u8], ip: &Ip) -> Option<Self> {
        let header = frame.get(ip.payload.clone())?.first_chunk::<UDP>()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let len = usize::from(word(4));
        if ip.protocol != PROTOCOL || len < UDP || len > ip.payload.len() {
            return None;
        }
        let (from, to) = match ip.pair {
            Pair::V4 { from, to } => ((from, word(0)).into(), (to, word(2)).into()),
            Pair::V6 { from, to } => ((from, word(0)).into(), (to, word(2)).into()),
        };
        Some(Self {
            from,
            to,
            ecn: ip.ecn,
            payload: ip.payload.start + UDP..ip.payload.start + len,
        })
    }

    /// Whether its sender computed no checksum.
    pub fn has_no_checksum(&self, frame: &[u8]) -> bool {
        frame[self.payload.start - 2..self.payload.start] == [0, 0]
    }
}

/// Writes the header of a datagram with `len` bytes of payload; `sum` is that over the payload, for a checksum.
#[inline]
pub(super) fn write(pair: &Pair, ports: (u16, u16), len: usize, sum: Option<Sum>, into: &mut [u8]) {
    let (header, _) = split::<UDP>(into);
    let udp_len = UDP + len;
    header[..2].copy_from_slice(&ports.0.to_be_bytes());
    header[2..4].copy_from_slice(&ports.1.to_be_bytes());
    header[4..6].copy_from_slice(&(udp_len as u16).to_be_bytes());
    header[6..].fill(0);
    if let Some(sum) = sum {
        let sum = pair
            .sum(PROTOCOL, udp_len)
            .and(Sum::of(header))
            .and(sum)
            .checksum();
        // A checksum of 0 is sent as its other form: 0 says that there is none.
        let sum = if sum == 0 { 0xffff } else { sum };
        header[6..].copy_from_slice(&sum.to_be_bytes());
    }
}

//! Where a packet is copied to before anyone looks at it.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use crate::LONGEST_PACKET;

/// A cache line.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

/// A record begins with its length: the packet follows it here as in a ring, so that both are aligned alike.
pub(crate) const LENGTH: usize = 8;

/// Memory for one packet. As in a ring, what follows 56 bytes of header is aligned to a cache line.
pub struct PacketBuffer {
    lines: Box<[CacheLine]>,
    longest: usize,
}

impl PacketBuffer {
    /// For packets of up to `longest` bytes, of which there are none above [`LONGEST_PACKET`].
    pub fn new(longest: usize) -> Self {
        let longest = longest.min(LONGEST_PACKET);
        let lines = vec![CacheLine::zeroed(); (LENGTH + longest).div_ceil(64)];
        Self {
            lines: lines.into_boxed_slice(),
            longest,
        }
    }

    /// All its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[LENGTH..LENGTH + self.longest]
    }

    /// The bytes of a packet in it.
    pub fn packet(&self, len: usize) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[LENGTH..LENGTH + len.min(self.longest)]
    }
}

impl fmt::Debug for PacketBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketBuffer({} bytes)", self.longest)
    }
}

/// The other process has written what cannot be: its ring cannot be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process on the other side has written nonsense into its shared memory: end it")
    }
}

impl std::error::Error for Broken {}

//! Where the data of a benchmark lies.

use std::fmt;

/// Bytes of each buffer that is to be out of cache: several times the last-level cache of a large server's core
/// complex, and of most whole servers.
const LARGE: usize = 128 << 20;

/// Where the data of a benchmark lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the first-level cache: the same chunk over and over.
    Cache,
    /// In memory: chunk after chunk of a buffer that no cache holds, in order, as slots are used.
    Memory,
}

impl Place {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cache, Self::Memory];

    /// Chunks of `bytes` bytes that a buffer has there.
    pub fn chunks(self, bytes: usize) -> usize {
        match self {
            Self::Cache => 1,
            Self::Memory => LARGE / bytes,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cache => "cache",
            Self::Memory => "memory",
        })
    }
}

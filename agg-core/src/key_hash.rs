//! How the job table hashes its keys: not at all.
//!
//! A job's key is 64 random bits that the aggregator's side draws (R-JOB-1), so its low bits are as good as any hash
//! of it. Hashing byte by byte, as FNV does, takes longer than all other checks of a packet together.

use core::hash::{BuildHasherDefault, Hasher};

/// Builds [`KeyHash`]es.
pub(crate) type BuildKeyHash = BuildHasherDefault<KeyHash>;

/// The hash of one `u64` key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyHash(u64);

impl Hasher for KeyHash {
    #[inline(always)]
    fn write_u64(&mut self, key: u64) {
        // Keys that people choose, in tests and on small devices, may differ in their high half only.
        self.0 = key ^ (key >> 32);
    }

    /// Any other type of key: right, if not fast.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(5) ^ u64::from(*byte);
        }
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use core::hash::BuildHasher;

    use super::*;

    #[test]
    fn keys_that_differ_in_one_half_only_have_different_hashes() {
        let hash = |key: u64| BuildKeyHash::default().hash_one(key) as u32;
        assert_ne!(hash(1), hash(2));
        assert_ne!(hash(1 << 32), hash(2 << 32));
    }
}

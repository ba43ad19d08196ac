//! The Internet checksum (RFC 1071).

/// What an Internet checksum is made of: the ones' complement sum of the 16-bit words of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u16);

impl Sum {
    /// Of at most 64 KiB. Behind an odd number of bytes a zero is added.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        debug_assert!(bytes.len() <= 1 << 16, "{} bytes overflow the sum", bytes.len());
        let (words, rest) = bytes.as_chunks::<2>();
        let last = rest.first().map_or(0, |byte| u16::from_ne_bytes([*byte, 0]));
        // In the machine's byte order, which changes nothing but that of the sum (RFC 1071, section 2 (B)), but is faster.
        let words = words.iter().map(|word| u32::from(u16::from_ne_bytes(*word)));
        Self(u16::from_be(fold(words.fold(u32::from(last), u32::wrapping_add))))
    }

    /// Of these bytes and those behind them. Only the last part may have an odd number of bytes.
    #[inline]
    #[must_use]
    pub fn and(self, behind: Self) -> Self {
        Self(fold(u32::from(self.0) + u32::from(behind.0)))
    }

    /// The checksum.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.0
    }
}

#[inline]
fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// The checksum of bytes in which the checksum's own field is 0; over bytes with their checksum it is 0.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::of(bytes).checksum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 3.
    const BYTES: [u8; 8] = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];

    #[test]
    fn the_example_of_the_standard() {
        assert_eq!(checksum(&BYTES), !0xddf2);
        assert_eq!(checksum(&[BYTES.as_slice(), &[0x22, 0x0d]].concat()), 0);
    }

    #[test]
    fn parts_sum_as_the_whole_does() {
        let bytes: Vec<u8> = (0..65_535_u32)
            .map(|at| (at * 7 + at / 251) as u8 | 0xf0)
            .collect();
        for cut in [0, 2, 1000, 65_534] {
            let (front, back) = bytes.split_at(cut);
            assert_eq!(Sum::of(front).and(Sum::of(back)), Sum::of(&bytes), "{cut}");
        }
        let by_hand = bytes.chunks(2).fold(0_u64, |sum, word| {
            sum + u64::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]))
        });
        assert_eq!(u64::from(checksum(&bytes)), 0xffff - by_hand % 0xffff);
        assert_eq!(checksum(&[0xff; 1 << 16]), 0);
    }
}

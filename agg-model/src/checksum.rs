//! The check of a header (R-WIRE-3), step by step as the document has it.

/// Where the check field lies; it counts as 0.
const CHECK: std::ops::Range<usize> = 52..56;

/// The check that the first 56 bytes of a packet must carry.
pub fn checksum(header: &[u8; 56]) -> u32 {
    let mut header = *header;
    header[CHECK].fill(0);
    let mut h: u128 = 0x243f_6a88_85a3_08d3;
    for word in header.chunks(8) {
        let mut w: u128 = 0;
        for (position, byte) in word.iter().enumerate() {
            w += u128::from(*byte) << (8 * position);
        }
        h = ((h ^ w) * 0x9e37_79b9_7f4a_7c15) % (1 << 64);
        h ^= h >> 32;
    }
    (h % (1 << 32)) as u32
}

/// Writes the right check into a header, whatever else it says.
pub fn seal(header: &mut [u8; 56]) {
    let check = checksum(header);
    header[CHECK].copy_from_slice(&check.to_le_bytes());
}

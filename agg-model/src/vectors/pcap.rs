//! Classic pcap files: little-endian, microseconds, Ethernet.

use std::io;

const MAGIC: u32 = 0xa1b2_c3d4;
const LINKTYPE_ETHERNET: u32 = 1;
/// The longest frame that a capture keeps whole.
const SNAPLEN: u32 = 0x4_0000;

/// A file of frames, each with its time in ns (cut to microseconds).
pub fn write<'a>(frames: impl IntoIterator<Item = (u64, &'a [u8])>) -> Vec<u8> {
    let mut file = Vec::new();
    // Version 2.4, UTC, no accuracy.
    let (version, zone, accuracy) = (2 | 4 << 16, 0, 0);
    put(
        &mut file,
        &[MAGIC, version, zone, accuracy, SNAPLEN, LINKTYPE_ETHERNET],
    );
    for (now, frame) in frames {
        let (seconds, micros) = (now / 1_000_000_000, now % 1_000_000_000 / 1_000);
        let len = frame.len() as u32;
        put(&mut file, &[seconds as u32, micros as u32, len, len]);
        file.extend(frame);
    }
    file
}

/// The frames of a file of [`write()`]'s kind.
///
/// # Errors
/// It is of another kind, or cut off.
pub fn read(file: &[u8]) -> io::Result<Vec<&[u8]>> {
    let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let (head, mut rest) = file
        .split_at_checked(24)
        .ok_or_else(|| broken("no pcap header"))?;
    if (word(head, 0), word(head, 20)) != (MAGIC, LINKTYPE_ETHERNET) {
        return Err(broken("not a little-endian pcap file of Ethernet frames"));
    }
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (head, body) = rest
            .split_at_checked(16)
            .ok_or_else(|| broken("a record is cut off"))?;
        let (kept, whole) = (word(head, 8), word(head, 12));
        let frame = body.split_at_checked(kept as usize).filter(|_| kept == whole);
        let (frame, after) = frame.ok_or_else(|| broken("a frame is cut off"))?;
        frames.push(frame);
        rest = after;
    }
    Ok(frames)
}

fn put(file: &mut Vec<u8>, words: &[u32]) {
    file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_damage_is_noticed() {
        let file = write([(1_500_000_999, [1, 2, 3].as_slice()), (2_000_000_000, &[4])]);
        assert_eq!(read(&file).unwrap(), [[1, 2, 3].as_slice(), &[4]]);
        assert_eq!((word(&file, 24), word(&file, 28)), (1, 500_000));
        assert!(read(&file[..file.len() - 1]).is_err());
        assert!(read(&file[..50]).is_err());
        assert!(read(&file[1..]).is_err());
    }
}

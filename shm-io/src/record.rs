//! How packets lie in a ring: records of a length and a packet, each on cache lines of its own and in one piece. A record
//! that does not fit before the ring's end begins at its start; a mark says so.

use crate::packet::LENGTH;

/// Records begin at multiples of this.
pub(crate) const UNIT: usize = 64;

/// In the place of a length: the next record is at the ring's start.
pub(crate) const TO_START: u64 = u64::MAX;

/// Bytes of the record of a packet.
pub(crate) const fn record_len(packet: usize) -> usize {
    (LENGTH + packet).next_multiple_of(UNIT)
}

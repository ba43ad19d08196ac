//! Sizes in bytes: of a data packet, of a job's slots, and of a packet in a socket's receive buffer.

/// Header of a data packet, in bytes of UDP payload.
pub const HEADER_BYTES: u32 = 56;

/// Generations that a slot keeps, so that a result can be resent while the next round is summed.
pub const GENERATIONS: u16 = 2;

/// Most generations of a slot that a quorum can use.
pub const MOST_GENERATIONS: u16 = 64;

/// Bookkeeping of one generation of a slot beside its values, in bytes.
pub const SLOT_OVERHEAD_BYTES: u64 = 64;

/// UDP payload of a data packet of `lanes` values, in bytes.
pub fn datagram_bytes(lanes: u16) -> u32 {
    HEADER_BYTES + 4 * u32::from(lanes)
}

/// Slot memory that a job needs on each shard, in bytes.
pub fn slot_memory(lanes: u16, window: u16, generations: u16) -> u64 {
    u64::from(window) * u64::from(generations) * (u64::from(lanes) * 4 + SLOT_OVERHEAD_BYTES)
}

/// The most generations, a power of two, whose slots fit `bytes`; at least [`GENERATIONS`].
pub fn generations_within(bytes: u64, lanes: u16, window: u16) -> u16 {
    let mut generations = MOST_GENERATIONS;
    while generations > GENERATIONS && slot_memory(lanes, window, generations) > bytes {
        generations /= 2;
    }
    generations
}

/// What one queued data packet of `lanes` values costs of `SO_RCVBUF`, in bytes.
///
/// Linux charges a socket not the payload but `skb->truesize` (`skb_set_owner_r` in include/net/sock.h): the buffer
/// that the driver allocated, which for a linear packet is a power of two that holds the frame, the head room and
/// `struct skb_shared_info` (320 bytes), plus `struct sk_buff` itself (256 bytes). Drivers differ; this is the usual
/// upper estimate. A window sized by payload would overrun the buffer at half its nominal size.
pub fn receive_buffer_cost(lanes: u16) -> u64 {
    const IP_AND_UDP_HEADERS: u32 = 28;
    const SHARED_INFO: u32 = 320;
    const SK_BUFF: u32 = 256;
    u64::from((datagram_bytes(lanes) + IP_AND_UDP_HEADERS + SHARED_INFO).next_power_of_two() + SK_BUFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_the_shipped_chunk_sizes() {
        assert_eq!(
            [256, 352, 848, 2048, 8192].map(datagram_bytes),
            [1080, 1464, 3448, 8248, 32824]
        );
    }

    #[test]
    fn a_full_ethernet_frame_costs_what_linux_drivers_charge_for_it() {
        assert_eq!(receive_buffer_cost(352), 2304);
    }

    #[test]
    fn receive_buffer_costs_grow_by_powers_of_two() {
        assert_eq!(
            [256, 848, 2048, 8192].map(receive_buffer_cost),
            [2304, 4352, 16640, 65792]
        );
    }

    #[test]
    fn slots_have_generations_of_values_and_bookkeeping() {
        assert_eq!(slot_memory(256, 2, 2), 2 * 2 * (1024 + 64));
        assert_eq!(
            slot_memory(u16::MAX, 1 << 15, 64),
            (1 << 15) * 64 * (65535 * 4 + 64)
        );
    }

    #[test]
    fn generations_are_the_most_that_fit() {
        let of = |generations| slot_memory(256, 8, generations);
        let table = [
            (0, 2),
            (of(2), 2),
            (of(4) - 1, 2),
            (of(4), 4),
            (of(32), 32),
            (u64::MAX, 64),
        ];
        for (bytes, generations) in table {
            assert_eq!(generations_within(bytes, 256, 8), generations, "{bytes} bytes");
        }
    }
}

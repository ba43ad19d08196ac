//! Chooses the chunk size and the window of a job from what the host and all ranks can do.

use crate::sizing::{GENERATIONS, datagram_bytes, receive_buffer_cost, slot_memory};

/// Largest window that is chosen unasked: beyond it a longer queue only adds latency.
pub const LARGEST_CHOSEN_WINDOW: u16 = 256;

/// Bytes of packets that a rank has in flight on a stream with the chosen window, at most: the bandwidth-delay product
/// of 1 Gbit/s and 5 ms, or 10 Gbit/s and 0.5 ms. More only moves the chunks in flight out of the cores' caches.
pub const CHOSEN_BYTES_IN_FLIGHT: u64 = 640 << 10;

/// Largest window that can be requested.
pub const LARGEST_WINDOW: u16 = 1 << 15;

/// Smallest window: a worker needs one chunk in flight while it handles another.
pub const SMALLEST_WINDOW: u16 = 2;

/// The largest chunk size whose packet fits `max_datagram` bytes of UDP payload.
pub fn choose_lanes(supported: &[u16], max_datagram: u32) -> Option<u16> {
    supported
        .iter()
        .copied()
        .filter(|lanes| datagram_bytes(*lanes) <= max_datagram)
        .max()
}

/// What bounds a window.
#[derive(Debug, Clone, Copy)]
pub struct WindowLimits {
    /// Ranks of the world.
    pub ranks: u32,
    /// Chunk size in i32 values.
    pub lanes: u16,
    /// Receive buffer of each of the host's sockets in bytes; 0: no limit.
    pub host_receive_buffer: u64,
    /// Frames that wait in the host's receive ring at most; 0: no limit.
    pub host_receive_ring: u32,
    /// Smallest receive buffer of the ranks' sockets in bytes; 0: no limit.
    pub rank_receive_buffer: u64,
    /// Free slot memory per shard, in bytes.
    pub free_memory: u64,
    /// Slot memory per shard that a window which nobody asked for may take, in bytes.
    pub share: u64,
}

/// A window, and whether the socket buffers hold all its packets at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Chunks in flight per rank and stream.
    pub chunks: u16,
    /// If not, packets are dropped when ranks send in step: slower, not wrong.
    pub fits_buffers: bool,
}

/// Slots that were asked for do not fit into the free memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    /// The window that was tried.
    pub window: u16,
    /// Bytes per shard that it needs.
    pub needed: u64,
}

impl WindowLimits {
    /// The window to use: the requested one, or the largest power of two that fits buffers and memory.
    ///
    /// # Errors
    /// [`NoRoom`] if the requested window, or the smallest one, exceeds the free memory.
    pub fn window(&self, requested: Option<u16>) -> Result<Window, NoRoom> {
        let chunks = requested.unwrap_or_else(|| self.largest_fitting());
        let needed = slot_memory(self.lanes, chunks, GENERATIONS);
        if needed > self.free_memory {
            return Err(NoRoom {
                window: chunks,
                needed,
            });
        }
        Ok(Window {
            chunks,
            fits_buffers: self.fits_buffers(chunks),
        })
    }

    fn largest_fitting(&self) -> u16 {
        let share = self.share.min(self.free_memory);
        let mut window = LARGEST_CHOSEN_WINDOW;
        let in_flight = |window: u16| u64::from(window) * u64::from(datagram_bytes(self.lanes));
        while window > SMALLEST_WINDOW
            && !(in_flight(window) <= CHOSEN_BYTES_IN_FLIGHT
                && self.fits_buffers(window)
                && slot_memory(self.lanes, window, GENERATIONS) <= share)
        {
            window /= 2;
        }
        window
    }

    fn fits_buffers(&self, window: u16) -> bool {
        // Every rank may have its whole window queued at a shard; a rank's socket gets one window of results.
        let at_rank = u64::from(window) * receive_buffer_cost(self.lanes);
        let at_host = u64::from(self.ranks) * at_rank;
        let frames_at_host = u64::from(self.ranks) * u64::from(window);
        (self.host_receive_buffer == 0 || at_host <= self.host_receive_buffer)
            && (self.host_receive_ring == 0 || frames_at_host <= u64::from(self.host_receive_ring))
            && (self.rank_receive_buffer == 0 || at_rank <= self.rank_receive_buffer)
    }
}

/// The power of two to use for a requested window.
///
/// # Errors
/// The largest possible window, if the request is above it.
pub fn round_window(requested: u32) -> Result<u16, u16> {
    if requested > u32::from(LARGEST_WINDOW) {
        return Err(LARGEST_WINDOW);
    }
    Ok((requested as u16).next_power_of_two().max(SMALLEST_WINDOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPPORTED: [u16; 5] = [256, 352, 848, 2048, 8192];

    #[test]
    fn lanes_are_the_largest_that_the_path_carries() {
        let table = [
            (1079, None),
            (1080, Some(256)),
            (1452, Some(256)), // IPv6 over Ethernet
            (1472, Some(352)), // IPv4 over Ethernet
            (3468, Some(848)),
            (8972, Some(2048)),
            (65507, Some(8192)),
        ];
        for (max_datagram, lanes) in table {
            assert_eq!(
                choose_lanes(&SUPPORTED, max_datagram),
                lanes,
                "{max_datagram} bytes"
            );
        }
    }

    fn limits() -> WindowLimits {
        WindowLimits {
            ranks: 4,
            lanes: 352,
            host_receive_buffer: 0,
            host_receive_ring: 0,
            rank_receive_buffer: 0,
            free_memory: u64::MAX,
            share: u64::MAX,
        }
    }

    #[test]
    fn the_window_fits_every_limit() {
        let all = limits();
        let table = [
            (all, 256, true),
            (
                WindowLimits {
                    host_receive_buffer: 4 * 64 * 2304,
                    ..all
                },
                64,
                true,
            ),
            (
                WindowLimits {
                    host_receive_buffer: 4 * 64 * 2304 - 1,
                    ..all
                },
                32,
                true,
            ),
            (
                WindowLimits {
                    host_receive_ring: 4 * 64,
                    ..all
                },
                64,
                true,
            ),
            (
                WindowLimits {
                    host_receive_ring: 4 * 64 - 1,
                    ..all
                },
                32,
                true,
            ),
            (
                WindowLimits {
                    rank_receive_buffer: 16 * 2304,
                    ..all
                },
                16,
                true,
            ),
            (
                WindowLimits {
                    rank_receive_buffer: 16 * 2304 - 1,
                    ..all
                },
                8,
                true,
            ),
            (
                WindowLimits {
                    rank_receive_buffer: 1,
                    ..all
                },
                2,
                false,
            ),
            (
                WindowLimits {
                    free_memory: 32 * 2 * 1472,
                    ..all
                },
                32,
                true,
            ),
            (
                WindowLimits {
                    free_memory: 32 * 2 * 1472,
                    share: 16 * 2 * 1472,
                    ..all
                },
                16,
                true,
            ),
            // A share too small for any window does not matter as long as the memory is there.
            (
                WindowLimits {
                    free_memory: 2 * 2 * 1472,
                    share: 1,
                    ..all
                },
                2,
                true,
            ),
        ];
        for (limits, chunks, fits_buffers) in table {
            assert_eq!(
                limits.window(None),
                Ok(Window { chunks, fits_buffers }),
                "{limits:?}"
            );
        }
    }

    #[test]
    fn no_memory_for_the_smallest_window_is_refused() {
        let limits = WindowLimits {
            free_memory: 2 * 2 * 1472 - 1,
            ..limits()
        };
        assert_eq!(
            limits.window(None),
            Err(NoRoom {
                window: 2,
                needed: 2 * 2 * 1472
            })
        );
    }

    #[test]
    fn a_requested_window_is_bound_by_memory_only() {
        let small_buffers = WindowLimits {
            host_receive_buffer: 1,
            host_receive_ring: 0,
            rank_receive_buffer: 1,
            ..limits()
        };
        assert_eq!(
            small_buffers.window(Some(1024)),
            Ok(Window {
                chunks: 1024,
                fits_buffers: false
            })
        );
        let small_memory = WindowLimits {
            free_memory: 1023 * 2 * 1472,
            ..limits()
        };
        assert_eq!(
            small_memory.window(Some(1024)),
            Err(NoRoom {
                window: 1024,
                needed: 1024 * 2 * 1472
            })
        );
    }

    #[test]
    fn requested_windows_are_rounded_up_to_powers_of_two() {
        let table = [
            (1, Ok(2)),
            (2, Ok(2)),
            (3, Ok(4)),
            (100, Ok(128)),
            (32768, Ok(32768)),
            (32769, Err(32768)),
        ];
        for (requested, rounded) in table {
            assert_eq!(round_window(requested), rounded, "{requested}");
        }
    }
}

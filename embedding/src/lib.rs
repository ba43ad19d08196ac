//! Tributary on bare metal, for C: [`aggregator`] and [`worker`] over memory that the host provides, without std,
//! without an allocator, without threads, clocks or sockets.
//!
//! The sizes are fixed at build time: [`TRIBUTARY_LANES`] and [`TRIBUTARY_WINDOW`]. One thread at a time may call into one aggregator or
//! worker. `include/tributary.h` is made from this source.
#![no_std]

pub mod aggregator;
pub mod endpoint;
mod memory;
mod panic;
pub mod worker;

use agg_core::wire::packet_len;

/// Values in a chunk.
pub const TRIBUTARY_LANES: usize = 256;

/// Chunks in flight of a job, at most: the aggregator's slots.
pub const TRIBUTARY_WINDOW: usize = 16;

/// Bytes of the largest packet.
pub const TRIBUTARY_PACKET_BYTES: usize = 1080;

const _: () = assert!(TRIBUTARY_PACKET_BYTES == packet_len(TRIBUTARY_LANES));

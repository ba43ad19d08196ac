//! A port as a core has it.

use agg_host::frame::Mac;

use crate::dpdk::Queue;

/// A port as a core has it: the queues there that are the core's own.
#[derive(Debug)]
pub struct Link {
    /// Where frames are received and sent.
    pub queue: Queue,
    /// The port's Ethernet address.
    pub mac: Mac,
    /// Whether the port was started to write checksums.
    pub checksums: bool,
}

//! A core's way to a port.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agg_host::frame::Mac;

use crate::dpdk::{Burst, Queue, ReceiveQueue, SendQueue};

/// A core's way to a port.
pub struct Link {
    /// What it receives there; a port may have fewer queues than there are cores.
    pub receive: Option<ReceiveQueue>,
    /// Where it sends.
    pub send: Exit,
    /// The port's Ethernet address.
    pub mac: Mac,
    /// Whether the port was started to write checksums.
    pub checksums: bool,
}

impl Link {
    /// To a port that nobody else uses, of this Ethernet address.
    pub fn alone(queue: Queue, mac: Mac, checksums: bool) -> Self {
        let (receive, send) = queue.split();
        Self {
            receive: Some(receive),
            send: Exit::new(send),
            mac,
            checksums,
        }
    }
}

/// A send queue, of one core or of several. It is locked for a burst at a time, so that a lock nobody else wants costs little.
#[derive(Debug, Clone)]
pub struct Exit(Arc<Mutex<SendQueue>>);

impl Exit {
    /// Of one core, until it is cloned.
    pub fn new(queue: SendQueue) -> Self {
        Self(Arc::new(Mutex::new(queue)))
    }

    fn lock(&self) -> MutexGuard<'_, SendQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Queue::send`].
    pub(crate) fn send(&self, from: &mut Burst) -> usize {
        self.lock().send(from)
    }
}

//! The queues of a port, whoever polls them.

use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use dpdk_host::dpdk::{Burst, Port, PortInfo, Queue};

/// How long such a peer may be gone before it is looked for, and how long that may take before it is done again.
const AWAY: Duration = Duration::from_millis(300);

/// The queues of a port. Each is locked for a burst at a time; who wants another one's frames waits for nobody else.
#[derive(Debug)]
pub(crate) struct Queues {
    open: RwLock<Open>,
    /// When the peer was last there, or looked for; `None`: nobody needs to look.
    peer: Option<Mutex<Instant>>,
}

#[derive(Debug)]
struct Open {
    port: Port,
    queues: Vec<Mutex<Queue>>,
    /// It could not be started again.
    is_stopped: bool,
}

impl Queues {
    /// Those of such a port. One of net_memif must be stopped and started to find a peer that has come back.
    pub(crate) fn new(info: &PortInfo, (port, queues): (Port, Vec<Queue>)) -> Self {
        Self {
            open: RwLock::new(Open {
                port,
                queues: queues.into_iter().map(Mutex::new).collect(),
                is_stopped: false,
            }),
            peer: info.is_memif().then(|| Mutex::new(Instant::now())),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.open
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .queues
            .len()
    }

    /// Frames that a receive queue holds.
    pub(crate) fn ring(&self) -> u16 {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.port.receive_ring()
    }

    /// Adds frames that have come to a stream's queue, up to `limit`. A port may have fewer queues than there are streams.
    pub(crate) fn receive(&self, stream: usize, limit: usize, into: &mut Burst) {
        self.with(stream, |queue| queue.receive(limit, into));
    }

    /// Sends frames from the front of a burst on by a stream's queue; returns how many.
    pub(crate) fn send(&self, stream: usize, from: &mut Burst) -> usize {
        self.with(stream, |queue| queue.send(from))
    }

    fn with(&self, stream: usize, work: impl FnOnce(&mut Queue) -> usize) -> usize {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if open.is_stopped {
            return 0;
        }
        let queue = &open.queues[stream % open.queues.len()];
        work(&mut queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks for a peer that is gone, if this driver does not do so by itself.
    pub(crate) fn look_for_peer(&self) {
        let Some(peer) = &self.peer else { return };
        let mut seen = peer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_up = {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            !open.is_stopped && open.port.is_up()
        };
        if is_up {
            *seen = Instant::now();
        } else if seen.elapsed() > AWAY {
            self.restart();
            *seen = Instant::now();
        }
    }

    fn restart(&self) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let queues = std::mem::take(&mut open.queues).into_iter();
        let queues = queues.map(|queue| queue.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut queues: Vec<Queue> = queues.collect();
        // That nobody is there yet is to be expected, and said by who waits for the frames.
        open.is_stopped = open.port.restart(&mut queues).is_err();
        open.queues = queues.into_iter().map(Mutex::new).collect();
    }
}

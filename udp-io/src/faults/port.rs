//! A port with faults.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::{FaultConfig, FaultCounts, line::Line};
use crate::{Arrival, Held, MAX_DATAGRAM, Port, RecvBatch, SendBatch, UdpPort};

/// Trains for what leaves a faulty port. Only as good as its throughput needs.
const TRAINS: usize = 16;

/// A [`UdpPort`] that mistreats what is sent and what is received, independently: with a loss of 1 %, a question
/// and its answer are lost with about 2 % if one side of the exchange has a faulty port, 4 % if both have.
///
/// What is held back moves on when [`recv`](Port::recv), [`flush`](Port::flush), [`poll_held`](Port::poll_held) or
/// a wait is called, so the last packets before a port falls silent for good may be lost.
pub struct FaultyPort {
    udp: UdpPort,
    receiving: Mutex<Line>,
    sending: Mutex<Sending>,
}

/// What leaves the line goes through a batch of its own: it may leave between the host's flushes.
struct Sending {
    line: Line,
    batch: SendBatch,
}

/// What a [`FaultyPort`] did, by direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortFaults {
    /// To packets that the host sent.
    pub sent: FaultCounts,
    /// To packets that the socket received.
    pub received: FaultCounts,
}

impl FaultyPort {
    /// Adds the faults of `config` to `udp`.
    pub fn new(udp: UdpPort, config: FaultConfig) -> FaultyPort {
        FaultyPort {
            udp,
            receiving: Mutex::new(Line::new(config, 0)),
            sending: Mutex::new(Sending {
                line: Line::new(config, 1),
                batch: SendBatch::new(MAX_DATAGRAM, TRAINS),
            }),
        }
    }

    /// What was done to the packets so far.
    pub fn faults(&self) -> PortFaults {
        PortFaults {
            sent: lock(&self.sending).line.counts(),
            received: lock(&self.receiving).counts(),
        }
    }
}

impl Port for FaultyPort {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let mut line = lock(&self.receiving);
        let now = Instant::now();
        // While the reader is behind, the socket's buffer is the better queue: its limit is the user's.
        if !line.is_due(now) {
            self.udp.recv(batch)?;
            for arrival in batch.arrivals() {
                line.enter(arrival, now);
            }
        }
        batch.clear();
        line.leave(now, |arrival| batch.append(arrival));
        Ok(batch.packets().count())
    }

    fn flush(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let mut sending = lock(&self.sending);
        let now = Instant::now();
        let mut taken = 0_usize;
        for (dest, packet) in batch.packets() {
            let departing = Arrival {
                source: dest,
                congested: false,
                bytes: packet,
            };
            sending.line.enter(departing, now);
            taken += 1;
        }
        batch.clear();
        let before = sending.batch.counts();
        let result = sending.drain(&self.udp, now);
        let after = sending.batch.counts();
        // To the host a packet that a fault took is one that was sent and got lost on the way.
        let dropped = after.dropped - before.dropped;
        batch.counts.sent += (taken as u64).saturating_sub(dropped);
        batch.counts.dropped += dropped;
        batch.counts.calls += after.calls - before.calls;
        batch.last_error = sending.batch.last_error.or(batch.last_error);
        result.map(|()| taken.saturating_sub(dropped as usize))
    }

    fn udp(&self) -> &UdpPort {
        &self.udp
    }

    fn poll_held(&self) -> io::Result<Held> {
        let now = Instant::now();
        let send_due = {
            let mut sending = lock(&self.sending);
            sending.drain(&self.udp, now)?;
            sending.line.next_due()
        };
        let mut receiving = lock(&self.receiving);
        if receiving.is_due(now) {
            return Ok(Held::Ready);
        }
        let due = send_due.into_iter().chain(receiving.next_due()).min();
        Ok(due.map_or(Held::Nothing, Held::Until))
    }
}

impl Sending {
    /// Sends what is due.
    fn drain(&mut self, udp: &UdpPort, now: Instant) -> io::Result<()> {
        let Sending { line, batch } = self;
        let mut result = Ok(());
        line.leave(now, |departing| {
            result = udp.send(batch, departing.source, departing.bytes);
            result.is_ok()
        });
        udp.flush(batch)?;
        result
    }
}

/// A panic of another thread leaves a line at worst one packet short, which lines are there for.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! One shard: a thread, a socket, an aggregator.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agg_core::wire::packet_len;
use agg_core::{Endpoint, Lanes, Verdict};
use udp_io::{Port, RecvBatch, SendBatch, UdpPort};

use crate::simd::{self, ShardAggregator};

/// How long a shard sleeps at most before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Trains of packets that can be open at once: a broadcast or a reply each.
const TRAINS: usize = 32;

/// The largest packet of any job.
pub(crate) const MAX_PACKET: usize = packet_len(Lanes::L8192.count());

pub(crate) struct Shard {
    pub(crate) port: UdpPort,
    state: Mutex<State>,
}

/// What the shard's thread and the control service share. The thread holds the lock for a batch of packets at a
/// time; the control service takes it for a registration.
pub(crate) struct State {
    pub(crate) aggregator: ShardAggregator,
    /// Where the results of each job go, by its key.
    pub(crate) addresses: HashMap<u64, Vec<SocketAddr>>,
}

impl Shard {
    pub(crate) fn new(port: UdpPort, aggregator: ShardAggregator) -> Self {
        Self {
            port,
            state: Mutex::new(State {
                aggregator,
                addresses: HashMap::new(),
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives, aggregates and sends until told to stop.
    pub(crate) fn run(&self, stop: &AtomicBool) -> io::Result<()> {
        let start = Instant::now();
        let mut received = RecvBatch::new(&self.port, MAX_PACKET);
        let mut sending = SendBatch::new(MAX_PACKET, TRAINS);
        let mut out = vec![0; MAX_PACKET];
        while !stop.load(Ordering::Relaxed) {
            if self.port.recv(&mut received)? == 0 {
                self.port.wait_readable(STOP_INTERVAL)?;
                continue;
            }
            let now = start.elapsed().as_nanos() as u64;
            let mut state = self.lock();
            let State {
                aggregator,
                addresses,
            } = &mut *state;
            for (source, packet) in received.packets() {
                match simd::handle(aggregator, packet, &Endpoint::from(source), now, &mut out) {
                    Verdict::Quiet => {}
                    Verdict::Reply { len } => self.port.send(&mut sending, source, &out[..len])?,
                    Verdict::Broadcast { key, len } => {
                        let members = addresses.get(&key).map_or(&[][..], Vec::as_slice);
                        self.port.send_to_all(&mut sending, members, &out[..len])?;
                    }
                }
            }
            drop(state);
            self.port.flush(&mut sending)?;
        }
        Ok(())
    }
}

//! Which chunk sizes get from a leaf to its parent and back (R-PROBE-3). The kernel knows nothing of the ports, so the first
//! shard's core asks, from where the leaf's packets will come from.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use agg_control::Capabilities;
use agg_core::wire::{HEADER_LEN, Probe};
use agg_core::{Lanes, Prober};
use agg_host::prober;

use crate::Shard;

/// How often it is looked whether the core has learnt anything.
const LOOK: Duration = Duration::from_millis(5);

/// How long it may take until the parent's Ethernet address is known, and how long the questions may take: a good deal more
/// than [`Prober::TRIES`] times [`Prober::INTERVAL`], since the core looks at the clock now and then only.
const PATIENCE: Duration = Duration::from_secs(1);

/// Questions on their way to a parent.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) parent: SocketAddr,
    pub(crate) prober: Prober,
}

impl Trial {
    /// Takes in a packet, if it is the parent's answer to a probe; whether it is.
    pub(crate) fn take_in(&mut self, from: SocketAddr, packet: &[u8]) -> bool {
        let probe = packet.first_chunk::<HEADER_LEN>().and_then(Probe::read);
        let is_answer = from == self.parent && probe.is_some_and(|probe| !probe.is_question);
        if is_answer {
            self.prober.handle(packet);
        }
        is_answer
    }
}

/// The largest chunk size of those that `parent` offers, in packets of `most` bytes or less, that got to its first shard at
/// `data` and back. `None`: none did. One such call at a time is for a shard.
pub(crate) fn largest(shard: &Shard, parent: &Capabilities, data: SocketAddr, most: usize) -> Option<Lanes> {
    shard.lock().neighbours.want(data.ip());
    let is_near = wait(|| {
        let mut state = shard.lock();
        state.neighbours.refresh();
        state.neighbours.hop(data.ip()).is_some()
    });
    if is_near {
        let prober = prober(parent, most, shard.now());
        shard.lock().trial = Some(Trial { parent: data, prober });
        wait(|| {
            shard
                .lock()
                .trial
                .as_ref()
                .is_none_or(|trial| trial.prober.is_done())
        });
    }
    let mut state = shard.lock();
    state.neighbours.release(data.ip());
    state.trial.take()?.prober.largest()
}

/// Waits until it is so; `false`: it took too long.
fn wait(is_so: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        sleep(LOOK);
    }
    true
}

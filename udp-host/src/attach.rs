//! The door at which ranks of this machine call to be attached by shared memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agg_control::{MOST_MEMBERS, fresh_nonce};
use shm_io::{Call, Door};
use udp_io::MAX_QUEUES;

use crate::plane::Plane;

/// How long the thread waits for callers at most before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// A pause after a failure, so that it does not come again at once.
const PAUSE: Duration = Duration::from_millis(10);

/// Bytes of all rings of a host, at most; a pair takes 2 MiB unless a rank asks for a larger window.
pub(crate) const MOST_BYTES: usize = 1 << 30;

/// Lines of each shard that have no job, or none yet, at most: as many as the members of a job that waits for them. Each
/// takes a descriptor of the process.
pub(crate) const MOST_IDLE: usize = MOST_MEMBERS;

/// Opens a door of a name that no other has; `None`, and a line in the log, where there can be none.
pub(crate) fn open() -> Option<Door> {
    // Not the port or the epoch: another machine's aggregator may have the same.
    let name = format!("tributary-{:016x}", fresh_nonce());
    let door = Door::open(&name);
    door.inspect_err(|error| tracing::warn!(%error, "no shared memory: ranks of this machine send by UDP"))
        .ok()
}

/// Lets callers in until told to stop.
pub(crate) fn serve(plane: &Plane, door: &Door, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match door.accept(STOP_INTERVAL) {
            Ok(Some(call)) => let_in(plane, call),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "who called was not attached by shared memory");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

fn let_in(plane: &Plane, call: Call) {
    let stream = call.number();
    let shard = usize::try_from(stream)
        .ok()
        .and_then(|stream| plane.shards.get(stream));
    let Some(shard) = shard else {
        tracing::debug!(stream, "who called was not attached: there is no such shard");
        return;
    };
    let held: usize = plane.shards.iter().map(|shard| shard.lock().rings.bytes()).sum();
    if held + call.bytes() > MOST_BYTES {
        tracing::warn!(
            held,
            most = MOST_BYTES,
            "no more shared memory for a rank that called: it sends by UDP"
        );
        return;
    }
    let idle = shard.lock().rings.idle();
    if idle >= MOST_IDLE {
        tracing::warn!(
            stream,
            idle,
            most = MOST_IDLE,
            "too many have attached themselves and have no job: who called sends by UDP"
        );
        return;
    }
    // The names of queues are small numbers.
    let name = fresh_nonce() | MAX_QUEUES as u64;
    // It may register as soon as it has an answer.
    if let Err(error) = call.answer(name, |line| shard.attach(line)) {
        tracing::debug!(%error, "who called was not attached by shared memory");
    }
}

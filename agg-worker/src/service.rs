//! The threads behind a communicator: background operations, answers between operations, heartbeats.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, TryLockError};
use std::time::{Duration, Instant};

use agg_control::Pulse;
use udp_io::wait_any;

use crate::shared::Shared;

/// How long a thread sleeps at most before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// An operation in the background; it knows its turn.
pub(crate) type Job = Box<dyn FnOnce(&Shared) + Send>;

/// Runs submitted operations until the communicator is dropped.
pub(crate) fn run_submitted(shared: &Shared, jobs: &Receiver<Job>) {
    for job in jobs {
        job(shared);
    }
}

/// Answers the aggregator between operations (R-KEEP-1): it may have restarted, and want results that only this rank
/// still has.
pub(crate) fn serve_idle(shared: &Shared) {
    let ports: Vec<_> = shared.ports.iter().map(Arc::as_ref).collect();
    while !shared.stop.load(Ordering::Relaxed) {
        if !shared.turns.wait_idle(STOP_INTERVAL) {
            continue;
        }
        match wait_any(&ports, STOP_INTERVAL) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(error) => {
                tracing::debug!(%error, "cannot wait on the sockets; no answers between operations");
                return;
            }
        }
        for stream in &shared.streams {
            // A stream that is taken has an operation, which answers by itself.
            let mut stream = match stream.try_lock() {
                Ok(stream) => stream,
                Err(TryLockError::Poisoned(stream)) => stream.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            if let Err(error) = stream.serve() {
                tracing::debug!(%error, "a socket failed between operations");
            }
        }
    }
}

/// Says at intervals that this rank lives, and learns whether the job does.
pub(crate) fn send_heartbeats(shared: &Shared, interval: Duration) {
    let mut next = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        if Instant::now() < next {
            std::thread::sleep(STOP_INTERVAL.min(interval));
            continue;
        }
        next = Instant::now() + interval;
        let progress = shared.progress.load(Ordering::Relaxed);
        match shared.control.heartbeat(shared.member, progress) {
            Ok(Pulse::Ok) => {}
            Ok(Pulse::Reform) => {}
            Ok(Pulse::Aborted(reason) | Pulse::Excluded(reason)) => {
                let _ = shared.ended.set(reason.text);
                return;
            }
            Ok(Pulse::UnknownJob) => {
                let _ = shared
                    .ended
                    .set("the aggregator was restarted and does not know the job".into());
                return;
            }
            // The data path finds out by itself whether the aggregator is gone, and says so better.
            Err(error) => tracing::debug!(%error, "no answer to a heartbeat"),
        }
    }
}

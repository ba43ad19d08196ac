//! The threads behind a communicator besides its keeper: background operations, and answers between operations.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::shared::Shared;

/// How long a thread sleeps at most before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// How often streams are looked after that have no part, or no part any more, in an operation that others run.
const BESIDES: Duration = Duration::from_millis(5);

/// How long no operation may have come before the ports are watched.
const SETTLED: Duration = Duration::from_millis(2);

/// An operation in the background; it knows its turn.
pub(crate) type Job = Box<dyn FnOnce(&Shared) + Send>;

/// Runs submitted operations until the communicator is dropped.
pub(crate) fn run_submitted(shared: &Shared, jobs: &Receiver<Job>) {
    for job in jobs {
        job(shared);
    }
}

/// Answers the aggregator where no operation does (R-KEEP-1): it may have restarted, or be another one, and want results
/// that only this rank still has. Also on streams that have no part in an operation: it may wait for a rank that waits for
/// just those results.
pub(crate) fn serve_idle(shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        let pause = if shared.streams.len() > 1 {
            BESIDES
        } else {
            STOP_INTERVAL
        };
        if shared.turns.wait_idle(pause) {
            // The next operation often follows at once: to watch the ports in between, and to be woken by its first packet,
            // would cost small operations more than all else.
            std::thread::sleep(SETTLED);
        }
        if shared.turns.wait_idle(Duration::ZERO) {
            let place = shared.moves.place();
            if let Err(error) = place.ports.wait(STOP_INTERVAL) {
                tracing::debug!(%error, "cannot wait on the ports");
                std::thread::sleep(BESIDES);
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
                tracing::debug!(%error, "a port failed between operations");
            }
        }
        if shared.moves.held().is_some() {
            // Streams that are held leave packets where they are.
            shared.moves.wait(BESIDES);
        }
    }
}

//! Waiting in such a way that Ctrl-C is heard.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long Ctrl-C may go unheard. Results are not delayed by it: they end a wait at once.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Runs `work` on a thread and waits for it without the interpreter's lock. On Ctrl-C (or what else a signal's handler raises)
/// the wait ends with that exception; the work goes on, and what comes of it is dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, outcome) = channel();
    std::thread::Builder::new()
        .name(format!("tributary-{name}"))
        .spawn(move || {
            // Nobody waits for it any more: then it is dropped, here.
            let _ = done.send(work());
        })?;
    // A receiver may be used by one thread at a time, and the closure below must be free to run on any.
    let outcome = std::sync::Mutex::new(outcome);
    loop {
        let ended = py.detach(|| {
            let outcome = outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            outcome.recv_timeout(SLICE)
        });
        match ended {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(format!(
                    "tributary-{name} panicked: a defect of tributary"
                )));
            }
        }
    }
}

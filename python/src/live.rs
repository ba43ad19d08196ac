//! The communicators that are open, to be ended in order when the process ends.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use agg_worker::{Communicator, Error};
use pyo3::prelude::*;

use crate::fork::Own;
use crate::wait::interruptible;

/// A communicator until it is closed.
pub(crate) struct Live(Own<Mutex<Option<Communicator>>>);

static ALL: Mutex<Vec<Weak<Live>>> = Mutex::new(Vec::new());

impl Live {
    pub(crate) fn new(communicator: Communicator) -> Arc<Self> {
        let live = Arc::new(Self(Own::new(Mutex::new(Some(communicator)))));
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&live));
        live
    }

    /// Does something with it that does not wait, if it is open.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Communicator) -> T) -> Option<T> {
        let mut communicator = self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        communicator.as_mut().map(work)
    }

    /// What to say if this is a process forked from the one that joined.
    pub(crate) fn forked(&self, what: &str) -> Option<String> {
        self.0.get().is_none().then(|| self.0.message(what))
    }

    /// Leaves the world in order, together with the other ranks.
    pub(crate) fn close(&self) -> Result<(), Error> {
        match self.take() {
            Some(communicator) => communicator.close(),
            None => Ok(()),
        }
    }

    /// Leaves at once; the other ranks are told.
    pub(crate) fn abort(&self) {
        drop(self.take());
    }

    fn take(&self) -> Option<Communicator> {
        let communicator = self.0.get()?;
        communicator.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Ends what is still open when the process ends: in order, or at once if it ends by an exception. Returns what went wrong.
#[pyfunction]
pub(crate) fn end_all(py: Python<'_>, in_order: bool) -> PyResult<Vec<String>> {
    let all = std::mem::take(&mut *ALL.lock().unwrap_or_else(PoisonError::into_inner));
    let open: Vec<Arc<Live>> = all.iter().filter_map(Weak::upgrade).collect();
    interruptible(py, "end", move || {
        // Side by side: ranks need not have opened them in the same order.
        let threads = open.into_iter().map(|live| {
            std::thread::spawn(move || {
                if in_order {
                    live.close()
                } else {
                    live.abort();
                    Ok(())
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        let outcomes = threads.into_iter().filter_map(|thread| thread.join().ok());
        outcomes
            .filter_map(Result::err)
            .map(|error| error.to_string())
            .collect()
    })
}

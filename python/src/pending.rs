//! An operation under way.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use agg_worker::{Contribution, Element, Error};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;

use crate::array::Lent;
use crate::error::{exception, forked};
use crate::feedback::Feedback;
use crate::fork::Own;
use crate::wait::SLICE;

/// An operation under way, as `all_reduce_async` returns it. Its array must not be used before it has ended.
///
/// Dropping it does not cancel the operation: the other ranks count on it.
#[pyclass(frozen, module = "tributary")]
pub(crate) struct Pending {
    state: Own<Mutex<State>>,
    /// Who gets the feedback back.
    feedback: Option<Py<Feedback>>,
}

enum State {
    Running(Box<dyn Running>),
    Ended(Result<Option<Contribution>, Error>),
}

/// What an operation gives back.
pub(crate) struct Returned {
    feedback: Option<agg_worker::Feedback>,
    contribution: Option<Contribution>,
}

/// An operation of any kind.
trait Running: Send {
    /// What came of it, or the operation again if it has not ended in time.
    fn wait(self: Box<Self>, limit: Duration) -> Result<Result<Returned, Error>, Box<dyn Running>>;
}

impl<T: Into<Returned> + Send + 'static> Running for agg_worker::Pending<T> {
    fn wait(self: Box<Self>, limit: Duration) -> Result<Result<Returned, Error>, Box<dyn Running>> {
        match self.wait_timeout(limit) {
            Ok(outcome) => Ok(outcome.map(Into::into)),
            Err(running) => Err(Box::new(running)),
        }
    }
}

impl From<()> for Returned {
    fn from((): ()) -> Self {
        Self {
            feedback: None,
            contribution: None,
        }
    }
}

impl<E: Element> From<Lent<E>> for Returned {
    fn from(_: Lent<E>) -> Self {
        ().into()
    }
}

impl<E: Element> From<(Lent<E>, agg_worker::Feedback, Contribution)> for Returned {
    fn from((_, feedback, contribution): (Lent<E>, agg_worker::Feedback, Contribution)) -> Self {
        Self {
            feedback: Some(feedback),
            contribution: Some(contribution),
        }
    }
}

impl Pending {
    pub(crate) fn new<T: Into<Returned> + Send + 'static>(
        operation: agg_worker::Pending<T>,
        feedback: Option<Py<Feedback>>,
    ) -> Self {
        Self {
            state: Own::new(Mutex::new(State::Running(Box::new(operation)))),
            feedback,
        }
    }

    /// The outcome, if there is one in time.
    fn outcome(&self, limit: Duration) -> Option<Result<Option<Contribution>, Error>> {
        let mut state = self.state.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        let running = match &*state {
            State::Ended(outcome) => return Some(outcome.clone()),
            State::Running(_) => std::mem::replace(&mut *state, State::Ended(Ok(None))),
        };
        let State::Running(running) = running else {
            return None;
        };
        match running.wait(limit) {
            Err(running) => {
                *state = State::Running(running);
                None
            }
            Ok(outcome) => {
                let outcome = outcome.map(|returned| {
                    if let (Some(owner), Some(feedback)) = (&self.feedback, returned.feedback) {
                        owner.get().give(feedback);
                    }
                    returned.contribution
                });
                *state = State::Ended(outcome.clone());
                Some(outcome)
            }
        }
    }

    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        match self.state.get() {
            Some(_) => Ok(()),
            None => Err(forked(py, self.state.message("this operation"))),
        }
    }

    /// As `wait`, for the calls that do both.
    pub(crate) fn finish(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Option<(u64, u64)>> {
        loop {
            self.check_process(py)?;
            let left = deadline.map_or(SLICE, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            match py.detach(|| self.outcome(left.min(SLICE))) {
                Some(Ok(contribution)) => return Ok(contribution.map(|part| (part.chunks, part.late))),
                Some(Err(error)) => return Err(exception(py, &error)),
                None => py.check_signals()?,
            }
            if left.is_zero() {
                return Err(PyTimeoutError::new_err(
                    "the operation has not ended yet: it goes on, wait again",
                ));
            }
        }
    }
}

#[pymethods]
impl Pending {
    /// Waits for the operation's end, for `timeout` seconds at most (`None`: until its own deadline).
    ///
    /// With a feedback it returns `(chunks, late)`: the chunks of the tensor, and those of them whose sums do not hold this
    /// rank's values since it was late. Ctrl-C ends the wait, not the operation.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<(u64, u64)>> {
        let deadline = match timeout {
            Some(seconds) => Some(Instant::now() + crate::options::seconds("timeout", seconds)?),
            None => None,
        };
        self.finish(py, deadline)
    }

    /// Whether it has ended, well or not.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.check_process(py)?;
        Ok(py.detach(|| self.outcome(Duration::ZERO)).is_some())
    }
}

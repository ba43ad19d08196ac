//! What sums have not held yet of a rank's values.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::PyArray1;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;

use crate::options::whole;

/// What the sums of one tensor have not held yet of this rank's values: what rounding took and, under a quorum, what was late.
///
/// A rank keeps one for each tensor that it reduces again and again, and gives it to `all_reduce`.
#[pyclass(frozen, module = "tributary")]
pub(crate) struct Feedback {
    /// Away while an operation has it.
    inner: Mutex<Option<agg_worker::Feedback>>,
    len: usize,
}

#[pymethods]
impl Feedback {
    /// For a tensor of so many elements, of which nothing is left over yet.
    #[new]
    fn new(len: i64) -> PyResult<Self> {
        let len = whole("len", len, isize::MAX as usize)?;
        // Rust ends the process where memory is missing; this asks before.
        Vec::<f32>::new().try_reserve_exact(len).map_err(|_| {
            PyMemoryError::new_err(format!("there is no memory for a feedback of {len} elements"))
        })?;
        Ok(Self {
            inner: Mutex::new(Some(agg_worker::Feedback::new(len))),
            len,
        })
    }

    fn __len__(&self) -> usize {
        self.len
    }

    /// What is left over of each element: a copy.
    fn residual<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        match &*self.lock() {
            Some(feedback) => Ok(PyArray1::from_slice(py, feedback.residual())),
            None => Err(in_use()),
        }
    }

    /// Forgets what is left over. After an error that is what to do, or its values are as undefined as the tensor's.
    fn reset(&self) {
        *self.lock() = Some(agg_worker::Feedback::new(self.len));
    }
}

impl Feedback {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn lock(&self) -> MutexGuard<'_, Option<agg_worker::Feedback>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it, for an operation.
    pub(crate) fn take(&self) -> PyResult<agg_worker::Feedback> {
        self.lock().take().ok_or_else(in_use)
    }

    /// Gives it back.
    pub(crate) fn give(&self, feedback: agg_worker::Feedback) {
        *self.lock() = Some(feedback);
    }
}

fn in_use() -> PyErr {
    PyRuntimeError::new_err(
        "an operation has this feedback: wait for it first; after one that failed, reset the feedback",
    )
}

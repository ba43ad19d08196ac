//! Errors as Python's exceptions: those of `tributary/errors.py`, with what is known as attributes.

use agg_core::Failure;
use agg_worker::Error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The exception for an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    make(py, error).unwrap_or_else(|broken| broken)
}

/// The exception of a process that was forked from the one that joined.
pub(crate) fn forked(py: Python<'_>, text: String) -> PyErr {
    let class = py
        .import("tributary.errors")
        .and_then(|errors| errors.getattr("OperationError"));
    match class.and_then(|class| class.call1((text,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(broken) => broken,
    }
}

fn make(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let about = PyDict::new(py);
    let class = match error {
        Error::FeedbackLength { .. }
        | Error::Root { .. }
        | Error::Unsupported { .. }
        | Error::NothingToFeedBack { .. } => {
            return Ok(PyValueError::new_err(error.to_string()));
        }
        Error::Join { world, rank, .. } => {
            place(&about, world, *rank)?;
            "JoinError"
        }
        Error::RanksLost {
            world,
            rank,
            operation,
            lost,
            left,
        } => {
            place(&about, world, *rank)?;
            about.set_item("operation", operation)?;
            about.set_item("lost", PyTuple::new(py, lost)?)?;
            about.set_item("left", left)?;
            "RanksLostError"
        }
        Error::Operation {
            world,
            rank,
            aggregator,
            failure,
            ranks,
            ..
        } => {
            place(&about, world, *rank)?;
            about.set_item("aggregator", aggregator.to_string())?;
            about.set_item("ranks", PyTuple::new(py, ranks)?)?;
            let (operation, chunk) = position(failure);
            about.set_item("operation", operation)?;
            about.set_item("chunk", chunk)?;
            "OperationError"
        }
        Error::Socket {
            world,
            rank,
            aggregator,
            ..
        } => {
            place(&about, world, *rank)?;
            about.set_item("aggregator", aggregator.to_string())?;
            "OperationError"
        }
        Error::Ended { world, rank, .. }
        | Error::BufferPanicked { world, rank }
        | Error::Closed { world, rank } => {
            place(&about, world, *rank)?;
            "OperationError"
        }
    };
    let class = py.import("tributary.errors")?.getattr(class)?;
    let exception = class.call1((error.to_string(),))?;
    for (name, value) in about {
        exception.setattr(name.cast::<pyo3::types::PyString>()?, value)?;
    }
    Ok(PyErr::from_value(exception))
}

fn place(about: &Bound<'_, PyDict>, world: &str, rank: u32) -> PyResult<()> {
    about.set_item("world", world)?;
    about.set_item("rank", rank)
}

/// The number of the operation and the oldest chunk that was waited for, where the failure has them.
fn position(failure: &Failure) -> (Option<u32>, Option<u64>) {
    match *failure {
        Failure::AggregatorSilent { op_seq, chunk, .. }
        | Failure::MembersMissing { op_seq, chunk, .. }
        | Failure::OthersMissing { op_seq, chunk, .. } => (Some(op_seq), Some(chunk)),
        Failure::OperationDiffers { op_seq, .. } => (Some(op_seq), None),
        Failure::ScaleDiffers { chunk, .. } => (None, Some(chunk)),
        Failure::Excluded | Failure::Aborted(_) => (None, None),
    }
}

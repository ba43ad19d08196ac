//! What Python gives as numbers and words, as the libraries take it.

use std::fmt::Display;
use std::time::Duration;

use agg_worker::{OnLost, Policy, ReduceOp, ReduceOptions, Width};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The longest time that anybody means, in seconds: a year.
const LONGEST: f64 = 365.0 * 86_400.0;

/// A time in seconds.
pub(crate) fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    // Not the other way round: a NaN is to be refused.
    if (0.0..=LONGEST).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(PyValueError::new_err(format!(
            "{name} = {value} is no time in seconds, 0 to {LONGEST}"
        )))
    }
}

/// A whole number that is not negative.
pub(crate) fn whole<N: TryFrom<i64> + Display>(name: &str, value: i64, largest: N) -> PyResult<N> {
    N::try_from(value)
        .map_err(|_| PyValueError::new_err(format!("{name} = {value} is out of range: give 0 to {largest}")))
}

/// When a sum is complete.
pub(crate) fn policy(value: &Bound<'_, PyAny>) -> PyResult<Policy> {
    if let Ok(name) = value.extract::<String>() {
        return match &*name {
            "all" => Ok(Policy::All),
            _ => Err(unknown_policy(value)),
        };
    }
    let number = |name| -> PyResult<i64> {
        let number = value.getattr(name).map_err(|_| unknown_policy(value))?;
        number.extract().map_err(|_| unknown_policy(value))
    };
    let grace: f64 = value
        .getattr("grace")
        .and_then(|grace| grace.extract())
        .map_err(|_| unknown_policy(value))?;
    Ok(Policy::Quorum {
        members: whole("members", number("members")?, u8::MAX)?,
        grace: seconds("grace", grace)?,
        history_bytes: whole("history_bytes", number("history_bytes")?, u64::MAX)?,
    })
}

fn unknown_policy(value: &Bound<'_, PyAny>) -> PyErr {
    PyValueError::new_err(format!(
        "policy = {value:?} is unknown: give 'all', or tributary.Quorum(members)"
    ))
}

/// What is done with the elements of all ranks, and how many bits each has on the wire.
pub(crate) fn reduce_options(op: &str, wire: i64) -> PyResult<ReduceOptions> {
    let op = match op {
        "sum" => ReduceOp::Sum,
        "avg" => ReduceOp::Avg,
        "min" => ReduceOp::Min,
        "max" => ReduceOp::Max,
        _ => {
            return Err(PyValueError::new_err(format!(
                "op = '{op}' is unknown: give 'sum', 'avg', 'min' or 'max'"
            )));
        }
    };
    let width = match wire {
        32 => Width::Bits32,
        16 => Width::Bits16,
        8 => Width::Bits8,
        _ => {
            return Err(PyValueError::new_err(format!(
                "wire = {wire} is unknown: give 32, 16 or 8 bits"
            )));
        }
    };
    Ok(ReduceOptions::new(op).with_width(width))
}

/// What becomes of a job that loses a rank.
pub(crate) fn on_lost(name: &str) -> PyResult<OnLost> {
    match name {
        "abort" => Ok(OnLost::Abort),
        "shrink" => Ok(OnLost::Shrink),
        _ => Err(PyValueError::new_err(format!(
            "on_lost = '{name}' is unknown: give 'abort' or 'shrink'"
        ))),
    }
}

/// Addresses in one text with commas, or in a list.
pub(crate) fn addresses(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if let Ok(text) = value.extract::<String>() {
        return Ok(split(&text));
    }
    value.extract().map_err(|_| {
        PyTypeError::new_err(format!(
            "aggregators = {value:?} are no addresses: give 'host:port', several with commas or in a list"
        ))
    })
}

/// The addresses of a text with commas.
pub(crate) fn split(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

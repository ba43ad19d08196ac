//! What Python gives as numbers and words, as the libraries take it.

use std::time::Duration;

use agg_worker::{OnLost, Policy, ReduceOp, ReduceOptions, Width};
use pyo3::exceptions::PyValueError;
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

/// When a sum is complete.
#[derive(FromPyObject)]
pub(crate) enum PolicyOption {
    #[pyo3(transparent)]
    Name(String),
    Quorum {
        members: u8,
        grace: f64,
        history_bytes: u64,
    },
}

impl PolicyOption {
    pub(crate) fn policy(self) -> PyResult<Policy> {
        match self {
            Self::Name(name) if name == "all" => Ok(Policy::All),
            Self::Name(name) => Err(PyValueError::new_err(format!(
                "policy = '{name}' is unknown: give 'all', or tributary.Quorum(members)"
            ))),
            Self::Quorum {
                members,
                grace,
                history_bytes,
            } => Ok(Policy::Quorum {
                members,
                grace: seconds("grace", grace)?,
                history_bytes,
            }),
        }
    }
}

/// What is done with the elements of all ranks, and how many bits each has on the wire.
pub(crate) fn reduce_options(op: &str, wire: u32) -> PyResult<ReduceOptions> {
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
#[derive(FromPyObject)]
pub(crate) enum Addresses {
    #[pyo3(transparent)]
    Text(String),
    #[pyo3(transparent)]
    List(Vec<String>),
}

impl From<Addresses> for Vec<String> {
    fn from(addresses: Addresses) -> Self {
        let split = |text: &str| -> Self {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        match addresses {
            Addresses::Text(text) => split(&text),
            Addresses::List(list) => list,
        }
    }
}

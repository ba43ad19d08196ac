//! The compiled half of the Python package `tributary`: `agg-worker`'s communicator over numpy arrays, and `udp-host`'s
//! aggregator. What needs torch is Python, in `tributary/torch` beside this.
//!
//! The interpreter's lock is released wherever anything is waited for, and arrays are used where they are, not copied.

mod aggregator;
mod array;
mod communicator;
mod error;
mod feedback;
mod fork;
mod live;
mod options;
mod pending;
mod wait;

use std::io::IsTerminal;

use pyo3::prelude::*;
use tracing_subscriber::EnvFilter;

/// What the libraries below say goes to standard error; `TRIBUTARY_LOG=debug` for more.
const LOG: &str = "TRIBUTARY_LOG";

#[pymodule]
#[pyo3(name = "_tributary")]
fn tributary(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let filter = EnvFilter::try_from_env(LOG).unwrap_or_else(|_| EnvFilter::new("warn"));
    // Another extension of this process may have installed its own.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .try_init();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<aggregator::Aggregator>()?;
    module.add_class::<communicator::Communicator>()?;
    module.add_class::<feedback::Feedback>()?;
    module.add_class::<pending::Pending>()?;
    module.add_function(wrap_pyfunction!(live::end_all, module)?)
}

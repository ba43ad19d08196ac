//! One rank of a world.

use std::sync::Arc;
use std::time::Duration;

use agg_worker::{Config, Error, LocalGroup, ReduceOp, Stats};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{Array, Lent};
use crate::error::{exception, forked};
use crate::feedback::Feedback;
use crate::live::Live;
use crate::options::{addresses, on_lost, policy, reduce_options, seconds, split, whole};
use crate::pending::Pending;
use crate::wait::interruptible;

/// One rank of a world: sums numpy arrays together with the others.
///
/// All ranks call the same operations in the same order, with arrays of the same size and type. Operations run one after the
/// other, in the order of the calls; a call may come from any thread. After an error the communicator is of no more use, but
/// for `RanksLostError`.
///
/// `rank` and `size` default to the environment's RANK and WORLD_SIZE, `aggregators` ("host:port", several with commas or in
/// a list: the first, and those that take over) to TRIBUTARY_AGGREGATORS; with neither, rank 0 starts an aggregator on this
/// machine, at port 4600. Times are in seconds.
///
/// With `shared_memory`, packets to an aggregator on the same machine go through memory; and where torchrun, mpirun or srun
/// have started several ranks of the world on a machine without one, these send one stream, through a leaf in the first.
#[pyclass(frozen, weakref, module = "tributary")]
pub(crate) struct Communicator {
    live: Arc<Live>,
    world: String,
    rank: u32,
}

#[pymethods]
impl Communicator {
    #[new]
    #[pyo3(signature = (
        world, rank = None, size = None, *, aggregators = None, policy = None, on_lost = "abort", timeout = 10.0,
        connect_timeout = 10.0, wait = 60.0, linger = 5.0, fail_over = true, failover_after = 1.0, lanes = None, window = None, streams = None,
        weight = 100, priority = 0, busy_poll = 0.0, shared_memory = true
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
    fn new(
        py: Python<'_>,
        world: String,
        rank: Option<i64>,
        size: Option<i64>,
        aggregators: Option<&Bound<'_, PyAny>>,
        policy: Option<&Bound<'_, PyAny>>,
        on_lost: &str,
        timeout: f64,
        connect_timeout: f64,
        wait: f64,
        linger: f64,
        fail_over: bool,
        failover_after: f64,
        lanes: Option<i64>,
        window: Option<i64>,
        streams: Option<i64>,
        weight: i64,
        priority: i64,
        busy_poll: f64,
        shared_memory: bool,
    ) -> PyResult<Self> {
        let rank = match rank {
            Some(rank) => whole("rank", rank, u32::MAX)?,
            None => from_environment("rank", "RANK")?,
        };
        let size = match size {
            Some(size) => whole("size", size, u32::MAX)?,
            None => from_environment("size", "WORLD_SIZE")?,
        };
        let aggregators = match aggregators {
            Some(addresses) => self::addresses(addresses)?,
            None => split(&std::env::var(AGGREGATORS).unwrap_or_default()),
        };
        let config = Config {
            aggregators,
            policy: policy.map_or(Ok(agg_worker::Policy::All), self::policy)?,
            on_lost: self::on_lost(on_lost)?,
            timeout: seconds("timeout", timeout)?,
            connect_timeout: seconds("connect_timeout", connect_timeout)?,
            wait: seconds("wait", wait)?,
            linger: seconds("linger", linger)?,
            fail_over,
            failover_after: seconds("failover_after", failover_after)?,
            lanes: lanes.map(|lanes| whole("lanes", lanes, u32::MAX)).transpose()?,
            window: window
                .map(|window| whole("window", window, u32::MAX))
                .transpose()?,
            streams: streams
                .map(|streams| whole("streams", streams, u16::MAX))
                .transpose()?,
            weight: whole("weight", weight, u16::MAX)?,
            priority: whole("priority", priority, u8::MAX)?,
            busy_poll: seconds("busy_poll", busy_poll)?,
            local: LocalGroup::from_environment(rank, size),
            shared_memory,
            ..Config::new(world.clone(), rank, size)
        };
        // Interrupted, it joins all the same; then it is dropped, and the other ranks are told.
        let joined = interruptible(py, "join", move || agg_worker::Communicator::connect(config))?;
        let communicator = joined.map_err(|error| exception(py, &error))?;
        Ok(Self {
            live: Live::new(communicator),
            world,
            rank,
        })
    }

    /// The world's name.
    #[getter]
    fn world(&self) -> &str {
        &self.world
    }

    /// This rank.
    #[getter]
    fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks take part: those of the world that were not lost.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u32> {
        self.open(py, |communicator| communicator.size())
    }

    /// The ranks that take part.
    #[getter]
    fn ranks(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.open(py, |communicator| communicator.ranks())
    }

    /// Reduces an array over all ranks, in place: every rank ends with the same bits. `all_reduce_async(...).wait()` in one.
    ///
    /// `op` is "sum", "avg", "min" or "max"; `wire` the bits of an element on the wire: 32, or for sums and averages of floats 16
    /// or 8, which round more. `dtype="bfloat16"` says what the bits of an array of uint16 are.
    ///
    /// With a `feedback` (sums and averages of float32) what the sum does not hold of this rank's values is kept there, for the
    /// next call with it, and `(chunks, late)` is returned. After Ctrl-C the operation goes on in the background, and the array
    /// must not be used before it has ended: close or drop the communicator.
    #[pyo3(signature = (array, op = "sum", *, wire = 32, feedback = None, dtype = None))]
    fn all_reduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        op: &str,
        wire: i64,
        feedback: Option<Py<Feedback>>,
        dtype: Option<&str>,
    ) -> PyResult<Option<(u64, u64)>> {
        let pending = self.all_reduce_async(py, array, op, wire, feedback, dtype)?;
        pending.finish(py, None)
    }

    /// The same in the background. The array is the operation's until `wait` of what is returned has said that it has ended.
    #[pyo3(signature = (array, op = "sum", *, wire = 32, feedback = None, dtype = None))]
    fn all_reduce_async(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        op: &str,
        wire: i64,
        feedback: Option<Py<Feedback>>,
        dtype: Option<&str>,
    ) -> PyResult<Pending> {
        let options = reduce_options(op, wire)?;
        let array = Array::lend("all_reduce", array, dtype)?;
        let Some(owner) = feedback else {
            return self.open(py, |communicator| match array {
                Array::F32(array) => Pending::new(communicator.submit_with(array, options), None),
                Array::I32(array) => Pending::new(communicator.submit_with(array, options), None),
                Array::F16(array) => Pending::new(communicator.submit_with(array, options), None),
                Array::Bf16(array) => Pending::new(communicator.submit_with(array, options), None),
            });
        };
        let Array::F32(array) = array else {
            return Err(PyTypeError::new_err("error feedback is for arrays of float32"));
        };
        // Before the feedback is taken: an operation that fails does not give it back.
        if matches!(options.op, ReduceOp::Min | ReduceOp::Max) {
            return Err(exception(py, &Error::NothingToFeedBack { op: options.op }));
        }
        check_length(&array, &owner)?;
        let feedback = owner.get().take()?;
        self.open(py, |communicator| {
            let pending = communicator.submit_feedback_with(array, feedback, options);
            Pending::new(pending, Some(owner))
        })
    }

    /// Copies rank `root`'s array to every rank, bit for bit. It takes as many bytes as `all_reduce`.
    #[pyo3(signature = (array, root = 0))]
    fn broadcast(&self, py: Python<'_>, array: &Bound<'_, PyAny>, root: i64) -> PyResult<()> {
        let root = whole("root", root, u32::MAX)?;
        let array = Array::lend("broadcast", array, None)?;
        let pending = self.open(py, |communicator| {
            Ok(match array {
                Array::F32(array) => Pending::new(communicator.submit_broadcast(root, array)?, None),
                Array::I32(array) => Pending::new(communicator.submit_broadcast(root, array)?, None),
                Array::F16(array) => Pending::new(communicator.submit_broadcast(root, array)?, None),
                Array::Bf16(array) => Pending::new(communicator.submit_broadcast(root, array)?, None),
            })
        })?;
        let pending = pending.map_err(|error: Error| exception(py, &error))?;
        pending.finish(py, None).map(|_| ())
    }

    /// Waits until every rank has called it.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        let pending = self.open(py, |communicator| {
            Pending::new(communicator.submit_barrier(), None)
        })?;
        pending.finish(py, None).map(|_| ())
    }

    /// What was done so far, as a dictionary; times in seconds. While an operation is under way, as of the end of the one before.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.open(py, |communicator| communicator.stats())?;
        dictionary(py, &stats)
    }

    /// Leaves the world together with the other ranks: a last barrier, so that every rank has every result.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let live = Arc::clone(&self.live);
        let closed = interruptible(py, "close", move || live.close())?;
        closed.map_err(|error| exception(py, &error))
    }

    /// Leaves at once. The other ranks are told: their operations end with an error.
    fn abort(&self, py: Python<'_>) {
        py.detach(|| self.live.abort());
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Closes; or aborts, after an exception.
    fn __exit__(
        &self,
        py: Python<'_>,
        class: &Bound<'_, PyAny>,
        _exception: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if class.is_none() {
            self.close(py)
        } else {
            self.abort(py);
            Ok(())
        }
    }

    fn __repr__(&self) -> String {
        format!("tributary.Communicator: rank {} of '{}'", self.rank, self.world)
    }
}

/// Where the aggregators are, if nobody says.
const AGGREGATORS: &str = "TRIBUTARY_AGGREGATORS";

impl Communicator {
    /// Does something with the open communicator, without the interpreter's lock.
    fn open<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut agg_worker::Communicator) -> T + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| self.live.with(work));
        done.ok_or_else(|| {
            if let Some(text) = self
                .live
                .forked(&format!("rank {} of '{}'", self.rank, self.world))
            {
                return forked(py, text);
            }
            let closed = Error::Closed {
                world: self.world.clone(),
                rank: self.rank,
            };
            exception(py, &closed)
        })
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let mut live = Some(Arc::clone(&self.live));
        // Its threads are waited for, which the interpreter need not.
        let _ = Python::try_attach(|py| {
            py.detach(|| {
                if let Some(live) = live.take() {
                    live.abort();
                }
            });
        });
    }
}

fn from_environment(name: &str, variable: &str) -> PyResult<u32> {
    let value = std::env::var(variable).unwrap_or_default();
    value.parse().map_err(|_| {
        PyTypeError::new_err(format!(
            "{name} is not given, and {variable} in the environment is '{value}': start the ranks with torchrun, or give {name}"
        ))
    })
}

fn check_length(array: &Lent<f32>, feedback: &Py<Feedback>) -> PyResult<()> {
    let (values, feedback) = (array.len(), feedback.get().len());
    if values == feedback {
        return Ok(());
    }
    Err(PyValueError::new_err(
        Error::FeedbackLength { feedback, values }.to_string(),
    ))
}

fn dictionary<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    let seconds = |time: Duration| time.as_secs_f64();
    dictionary.set_item("operations", stats.operations)?;
    dictionary.set_item("tensor_bytes", stats.tensor_bytes)?;
    dictionary.set_item("busy_seconds", seconds(stats.busy))?;
    dictionary.set_item("stalled_seconds", seconds(stats.stalled))?;
    dictionary.set_item("packets_sent", stats.packets_sent)?;
    dictionary.set_item("packets_invalid", stats.packets_invalid)?;
    dictionary.set_item("resends", stats.resends)?;
    dictionary.set_item("marked", stats.marked)?;
    dictionary.set_item("congestion_decreases", stats.congestion_decreases)?;
    dictionary.set_item("congestion_window", stats.congestion_window)?;
    dictionary.set_item("results", stats.results)?;
    dictionary.set_item("late", stats.late)?;
    dictionary.set_item("predicted", stats.predicted)?;
    dictionary.set_item("mispredicted", stats.mispredicted)?;
    dictionary.set_item("announced", stats.announced)?;
    dictionary.set_item("moves", stats.moves)?;
    dictionary.set_item("round_trip_seconds", seconds(stats.round_trip))?;
    dictionary.set_item("lanes", stats.lanes)?;
    dictionary.set_item("window", stats.window)?;
    dictionary.set_item("streams", stats.streams)?;
    dictionary.set_item("shared_memory", stats.shared_memory)?;
    Ok(dictionary)
}

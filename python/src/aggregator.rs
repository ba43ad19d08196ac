//! An aggregator in this process.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use agg_control::ControlConfig;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use udp_host::{HostConfig, UdpHost};

use crate::fork::Own;
use crate::options::{seconds, whole};

/// An aggregator in this process, on threads of its own: `udp-host`, without privileges.
///
/// It listens on `host`, which is an address of this machine: the control service on TCP `port`, the shards on UDP `data_port`
/// and up. With 0 the system chooses. Its jobs end when it is closed or dropped.
#[pyclass(frozen, module = "tributary")]
pub(crate) struct Aggregator {
    inner: Own<Mutex<Option<UdpHost>>>,
    address: SocketAddr,
}

#[pymethods]
impl Aggregator {
    #[new]
    #[pyo3(signature = (host = "127.0.0.1", port = 0, *, data_port = 0, shards = 1, memory_mib = 64, lost_after = 10.0))]
    fn new(
        py: Python<'_>,
        host: &str,
        port: i64,
        data_port: i64,
        shards: i64,
        memory_mib: i64,
        lost_after: f64,
    ) -> PyResult<Self> {
        let ip: IpAddr = host.parse().map_err(|_| {
            PyValueError::new_err(format!(
                "host = '{host}' is no IP address of this machine, such as 127.0.0.1"
            ))
        })?;
        let lost_after = seconds("lost_after", lost_after)?;
        let control = ControlConfig::default();
        let config = HostConfig {
            control_addr: SocketAddr::new(ip, whole("port", port, u16::MAX)?),
            data_addr: SocketAddr::new(ip, whole("data_port", data_port, u16::MAX)?),
            shards: whole("shards", shards, u16::MAX)?,
            memory_mib: whole("memory_mib", memory_mib, u64::MAX)?,
            control: ControlConfig {
                heartbeat: control.heartbeat.min(lost_after / 4),
                lost_after,
                ..control
            },
            ..HostConfig::default()
        };
        let host = py.detach(|| UdpHost::start(&config)).map_err(|error| {
            PyOSError::new_err(format!("the aggregator at {host} does not start: {error}"))
        })?;
        Ok(Self {
            address: host.control_addr(),
            inner: Own::new(Mutex::new(Some(host))),
        })
    }

    /// Where ranks register: what `Communicator` takes as `aggregators`.
    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// Ends its jobs, telling their ranks, and stops.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.take()));
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _class: &Bound<'_, PyAny>,
        _exception: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("tributary.Aggregator at {}", self.address)
    }
}

impl Aggregator {
    fn take(&self) -> Option<UdpHost> {
        let host = self.inner.get()?;
        host.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Aggregator {
    fn drop(&mut self) {
        let host = self.take();
        // Its threads are waited for, which the interpreter need not. When that is ending, nobody needs it.
        let mut host = Some(host);
        let _ = Python::try_attach(|py| py.detach(|| drop(host.take())));
    }
}

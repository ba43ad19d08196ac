//! What DPDK refuses, in its words, and what to do.

use std::ffi::CStr;

use thiserror::Error;

/// What DPDK refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DpdkError {
    /// EAL runs already, or ran.
    #[error("DPDK was started in this process before, and starts only once: use that, or another process")]
    Twice,
    /// EAL does not start.
    #[error("DPDK does not start: {said}: {advice}")]
    Start {
        /// What it said.
        said: String,
        /// What to do.
        advice: &'static str,
    },
    /// No mbufs.
    #[error("{count} mbufs of {bytes} bytes cannot be had: {said}: give DPDK more memory, or ask for fewer")]
    Pool {
        /// How many.
        count: u32,
        /// Room of each.
        bytes: u16,
        /// What DPDK said.
        said: String,
    },
    /// No ring.
    #[error("a ring {name} of {size} mbufs cannot be had: {said}: give DPDK more memory, or ask for less")]
    Ring {
        /// Its name.
        name: String,
        /// How many.
        size: u32,
        /// What DPDK said.
        said: String,
    },
    /// A port does not steer.
    #[error("port {name} has no rte_flow rule for a UDP port: {said}")]
    Steer {
        /// Its device.
        name: String,
        /// What DPDK or its driver said.
        said: String,
    },
    /// A core takes no work.
    #[error("core {number} takes no work: {said}: it has some already")]
    Lcore {
        /// Its number.
        number: u32,
        /// What DPDK said.
        said: String,
    },
    /// A command is not taken by telemetry.
    #[error("DPDK's telemetry does not take the command {command}: {said}")]
    Telemetry {
        /// The command.
        command: String,
        /// What DPDK said.
        said: String,
    },
    /// A device does not exist or cannot be made.
    #[error("device {name} cannot be used: {said}: {advice}")]
    Device {
        /// Its name.
        name: String,
        /// What DPDK said.
        said: String,
        /// What to do.
        advice: &'static str,
    },
    /// No device at all.
    #[error(
        "DPDK has no port: bind a network card to vfio-pci (`dpdk-devbind.py --status` lists them), or give a virtual \
         device with --vdev"
    )]
    NoPort,
    /// A text that goes to C has a zero byte.
    #[error("{0:?} has a zero byte, which no name or argument of DPDK can have")]
    Zero(String),
}

/// What an error number of DPDK means.
pub(super) fn said(code: i32) -> String {
    // SAFETY: the text is the thread's own, ends with 0, and is copied before the next call.
    let text = unsafe { CStr::from_ptr(dpdk_sys::shim_strerror(code)) };
    text.to_string_lossy().into_owned()
}

/// A text as C has it.
pub(super) fn c_text(text: &str) -> Result<std::ffi::CString, DpdkError> {
    std::ffi::CString::new(text).map_err(|_| DpdkError::Zero(text.to_owned()))
}

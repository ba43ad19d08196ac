//! What the settings of all hosts have in common.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// The port of the control service where nothing else is said.
pub const DEFAULT_CONTROL_PORT: u16 = 4600;

/// The port of shard 0 where nothing else is said; shard *s* is on the *s*-th port after it.
pub const DEFAULT_DATA_PORT: u16 = 4601;

/// Settings that a host cannot start with.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// Ranks register over one address family and would send over the other.
    #[error("ranks register at {control} but would send to {data}: give two addresses of the same family")]
    Family {
        /// Where the control service listens.
        control: SocketAddr,
        /// Where shard 0 receives.
        data: SocketAddr,
    },
    /// A setting is out of its range.
    #[error("{name} = {value} is out of range: give {range}")]
    Range {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: u64,
        /// What can be.
        range: &'static str,
    },
    /// The configuration file cannot be used.
    #[error("configuration {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, on one line.
        reason: String,
    },
}

/// Refuses a setting that is not `ok`.
///
/// # Errors
/// The setting's name, value and range.
pub fn in_range(name: &'static str, value: u64, range: &'static str, ok: bool) -> Result<(), SettingsError> {
    if ok {
        Ok(())
    } else {
        Err(SettingsError::Range { name, value, range })
    }
}

/// Refuses a time, in seconds, after which no straggler could be named.
///
/// # Errors
/// As [`in_range`].
pub fn is_straggler_time(seconds: f64) -> Result<(), SettingsError> {
    let ok = seconds > 0.0 && seconds <= 86400.0;
    in_range("straggler_after", seconds as u64, "above 0, to 86400", ok)
}

/// Refuses two addresses that the same ranks cannot use.
///
/// # Errors
/// Both addresses.
pub fn same_family(control: SocketAddr, data: SocketAddr) -> Result<(), SettingsError> {
    if control.is_ipv4() == data.is_ipv4() {
        Ok(())
    } else {
        Err(SettingsError::Family { control, data })
    }
}

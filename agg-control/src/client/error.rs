//! What can go wrong between a rank and the control service.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tonic::Status;

use crate::refusal::{RANKS_MISSING, UNKNOWN_JOB};
use crate::service::code::WORD_KEY;

/// Why a call to the control service failed.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nobody answers, or the connection broke.
    #[error("no aggregator answers at {address} ({detail}): is `tributary serve` running there?")]
    Unreachable {
        /// The aggregator's address.
        address: String,
        /// What the system said.
        detail: String,
    },
    /// Somebody is there, but the first exchange failed.
    #[error(
        "{address} does not answer as an aggregator ({detail}): check the port, that both sides use TLS or neither, \
         and that each trusts the other's certificate"
    )]
    Handshake {
        /// The aggregator's address.
        address: String,
        /// What failed.
        detail: String,
    },
    /// The aggregator says no.
    #[error("{message}")]
    Refused {
        /// A stable word for programs, see [`Refusal::word`](crate::Refusal::word).
        word: String,
        /// What failed, with which values, and what to do.
        message: String,
    },
    /// The world was not complete in time.
    #[error("{message}")]
    RanksMissing {
        /// Names the missing ranks.
        message: String,
    },
    /// The job has ended already, or the aggregator has restarted.
    #[error("{message}")]
    UnknownJob {
        /// What to do.
        message: String,
    },
    /// The aggregator took the call but did not answer.
    #[error(
        "the aggregator at {address} did not {what} within {:.1} s: is the network, or its machine, overloaded?",
        waited.as_secs_f64()
    )]
    Timeout {
        /// The aggregator's address.
        address: String,
        /// What it was asked to do.
        what: &'static str,
        /// Time waited.
        waited: Duration,
    },
    /// The answer makes no sense.
    #[error(
        "the aggregator at {address} sent an answer that cannot be read ({what}): use the same version as it"
    )]
    BadAnswer {
        /// The aggregator's address.
        address: String,
        /// What is wrong.
        what: String,
    },
    /// The address is not one.
    #[error("{address:?} is not an address of an aggregator: write host:port, for example 10.0.0.1:4600")]
    Address {
        /// The text given.
        address: String,
    },
    /// A certificate or key file cannot be read.
    #[error("cannot read the TLS file {} ({source}): check the path and its permissions", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate or key is not usable.
    #[error("the TLS files do not work ({detail}): check that they are PEM and belong together")]
    Tls {
        /// What the TLS library said.
        detail: String,
    },
    /// No thread or no runtime.
    #[error("cannot start the control client's thread ({0}): raise the limits on threads and open files")]
    Thread(#[source] io::Error),
    /// The thread that runs the connection is gone.
    #[error("the control client's thread has stopped: connect again")]
    Stopped,
}

/// A status with a word comes from the control service, one without from the transport.
pub(super) fn from_status(address: &str, status: &Status) -> ControlError {
    let message = status.message().to_owned();
    match status
        .metadata()
        .get(WORD_KEY)
        .and_then(|word| word.to_str().ok())
    {
        Some(RANKS_MISSING) => ControlError::RanksMissing { message },
        Some(UNKNOWN_JOB) => ControlError::UnknownJob { message },
        Some(word) => ControlError::Refused {
            word: word.to_owned(),
            message,
        },
        None => ControlError::Unreachable {
            address: address.to_owned(),
            detail: status_cause(status),
        },
    }
}

/// The system's own words, "Connection refused", rather than four layers of "transport error".
pub(super) fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string()
}

/// The same for a status; what the other side sent has no source but a message.
pub(crate) fn status_cause(status: &Status) -> String {
    match StdError::source(status) {
        Some(cause) => root_cause(cause),
        None => format!("{}: {}", status.code(), status.message()),
    }
}

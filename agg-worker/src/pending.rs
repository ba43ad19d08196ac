//! An operation in the background.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use crate::Error;

/// An operation in the background that gives its buffer back with the result in it.
///
/// Dropping it does not cancel the operation: the other ranks count on it.
#[derive(Debug)]
pub struct Pending<B> {
    outcome: Receiver<Result<B, Error>>,
    closed: Box<Error>,
}

impl<B> Pending<B> {
    pub(crate) fn new(outcome: Receiver<Result<B, Error>>, closed: Error) -> Self {
        Self {
            outcome,
            closed: Box::new(closed),
        }
    }

    /// The outcome if the operation has ended; else the operation again, to ask later.
    ///
    /// # Errors
    /// The operation is still under way.
    pub fn poll(self) -> Result<Result<B, Error>, Self> {
        match self.outcome.try_recv() {
            Ok(outcome) => Ok(outcome),
            Err(TryRecvError::Empty) => Err(self),
            Err(TryRecvError::Disconnected) => Ok(Err(*self.closed)),
        }
    }

    /// As [`Pending::poll`], but waits up to `timeout`.
    ///
    /// # Errors
    /// The operation is still under way.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<B, Error>, Self> {
        match self.outcome.recv_timeout(timeout) {
            Ok(outcome) => Ok(outcome),
            Err(RecvTimeoutError::Timeout) => Err(self),
            Err(RecvTimeoutError::Disconnected) => Ok(Err(*self.closed)),
        }
    }

    /// Waits for the operation's end; its own deadline bounds that.
    ///
    /// # Errors
    /// The operation failed, as [`crate::Communicator::all_reduce`] does.
    pub fn wait(self) -> Result<B, Error> {
        self.outcome.recv().unwrap_or_else(|_| Err(*self.closed))
    }
}

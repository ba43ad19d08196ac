//! Ctrl-C and the signals that ask the same.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use agg_host::{Blocking, unless_stopped};

use crate::failure::Failure;

/// Whether the user wants the command to end. Clones share the answer.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl Interrupt {
    /// Takes over Ctrl-C, SIGTERM and SIGHUP. Once a process.
    pub fn watch() -> Result<Self, Failure> {
        let interrupt = Self::default();
        let raised = interrupt.clone();
        let watching = ctrlc::set_handler(move || raised.raise());
        watching.map_err(|error| Failure::Io {
            what: "watch for Ctrl-C".into(),
            source: std::io::Error::other(error),
        })?;
        Ok(interrupt)
    }

    fn raise(&self) {
        let (raised, changed) = &*self.shared;
        *raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Whether the command should end.
    pub fn is_raised(&self) -> bool {
        *self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error if the command should end.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_raised() {
            Err(Failure::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Does what may block, unless the command should end before that is done: then it is left behind, for the process to end.
    pub fn or<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let done = unless_stopped(work, || self.check().is_err());
        match done.map_err(Failure::io("start a thread"))? {
            Blocking::Done(done) => done,
            Blocking::Stopped => Err(Failure::Interrupted),
            Blocking::Panicked => Err(Failure::Panicked),
        }
    }

    /// Waits until the command should end, at most for `limit`; returns whether it should.
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        let (raised, changed) = &*self.shared;
        let guard = raised.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(guard, limit, |raised| !*raised);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until the command should end.
    pub fn wait(&self) {
        while !self.wait_timeout(Duration::from_secs(3600)) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clone_sees_it() {
        let interrupt = Interrupt::default();
        assert!(!interrupt.wait_timeout(Duration::ZERO) && interrupt.check().is_ok());
        interrupt.clone().raise();
        interrupt.wait();
        assert!(matches!(interrupt.check(), Err(Failure::Interrupted)));
    }

    #[test]
    fn what_blocks_is_done_or_left_behind() {
        let interrupt = Interrupt::default();
        assert!(matches!(interrupt.or(|| Ok(1)), Ok(1)));
        assert!(matches!(
            interrupt.or(|| -> Result<(), _> { Err(Failure::NotForHands) }),
            Err(Failure::NotForHands)
        ));
        let (open, door) = std::sync::mpsc::channel::<()>();
        let raised = interrupt.clone();
        let outcome = interrupt.or(move || {
            raised.raise();
            let _ = door.recv();
            Ok(())
        });
        assert!(matches!(outcome, Err(Failure::Interrupted)));
        drop(open);
    }
}

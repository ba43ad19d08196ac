//! Ctrl-C and the signals that ask the same.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

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
}

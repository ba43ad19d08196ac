//! Processes that were forked from one that had joined: threads are not forked, so nothing there would ever end.

use std::mem::ManuallyDrop;
use std::process;

/// A value that belongs to the process that made it. In a process forked from that one it is out of reach, and dropping it does
/// nothing: its threads are not there to be waited for, and its sockets are the parent's, too.
pub(crate) struct Own<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            process: process::id(),
        }
    }

    /// The value, in its own process.
    pub(crate) fn get(&self) -> Option<&T> {
        self.is_here().then_some(&*self.value)
    }

    fn is_here(&self) -> bool {
        self.process == process::id()
    }

    /// What to say in another one.
    pub(crate) fn message(&self, what: &str) -> String {
        format!(
            "{what} belongs to process {}, from which this one was forked: use it there, make another one here, or start processes with multiprocessing's method 'spawn'",
            self.process
        )
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: once, and the value is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

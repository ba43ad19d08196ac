//! A thread that runs the connection, so that blocking calls can come from any thread.
//!
//! A runtime that only ran inside of calls would neither answer the server's pings nor tell it about calls that
//! were given up.

use std::fmt;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub(super) struct Background {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("tributary-client".into())
            .spawn(move || {
                // Both a message and a dropped sender mean: stop.
                let _ = runtime.block_on(stopped);
                // Not waiting: a name look-up may hang in a thread of its own.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Runs a future and waits for its result. `None` if the thread has stopped.
    ///
    /// Works also inside of another async runtime, whose thread it blocks.
    pub(super) fn run<F>(&self, future: F) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (done, result) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // The caller waits for it, so there is a receiver.
            let _ = done.send(future.await);
        });
        result.recv().ok()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends at once; a panic in it has shown itself in the calls.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

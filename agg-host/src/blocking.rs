//! What may block, for who is to hear that it should end.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often it is looked whether to end.
const LOOK_UP: Duration = Duration::from_millis(50);

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Blocking<T> {
    /// It is done.
    Done(T),
    /// It was to end before that: it is left behind, for the process to end.
    Stopped,
    /// It has panicked.
    Panicked,
}

/// Does `work` on a thread of its own, until that is done or `stopped`. What it makes after that is dropped.
///
/// # Errors
/// There can be no thread.
pub fn unless_stopped<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    stopped: impl Fn() -> bool,
) -> io::Result<Blocking<T>> {
    let (tell, told) = channel();
    let thread = thread::Builder::new().name("work".to_owned());
    thread.spawn(move || {
        // Where nobody waits for it any more it is dropped here.
        let _ = tell.send(work());
    })?;
    loop {
        match told.recv_timeout(LOOK_UP) {
            Ok(done) => return Ok(Blocking::Done(done)),
            Err(RecvTimeoutError::Timeout) if !stopped() => {}
            Err(RecvTimeoutError::Timeout) => return Ok(Blocking::Stopped),
            Err(RecvTimeoutError::Disconnected) => return Ok(Blocking::Panicked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_blocks_is_done_or_left_behind() {
        assert_eq!(unless_stopped(|| 1, || true).unwrap(), Blocking::Done(1));
        let (open, door) = channel::<()>();
        let blocks = move || door.recv().is_ok();
        assert_eq!(unless_stopped(blocks, || true).unwrap(), Blocking::Stopped);
        drop(open);
        let panics = || -> u8 { panic!("on purpose") };
        assert_eq!(unless_stopped(panics, || false).unwrap(), Blocking::Panicked);
    }
}

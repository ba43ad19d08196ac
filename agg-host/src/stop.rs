//! How a host ends: its ranks are told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agg_control::ControlServer;

use crate::Watched;

/// How long a host that stops goes on refusing packets: a little more than a worker's longest resend timer (500 ms).
const TELL_RANKS: Duration = Duration::from_millis(600);

/// Ends the control service, which aborts the jobs that run, and waits until their ranks have been told: when they next
/// send, at the latest when their resend timers fire. `closing` is set before: a data plane that sees it keeps the jobs
/// that are released.
pub fn tell_ranks(control: ControlServer, plane: &impl Watched, closing: &AtomicBool) {
    closing.store(true, Ordering::Relaxed);
    control.shutdown();
    if !plane.jobs().is_empty() {
        std::thread::sleep(TELL_RANKS);
    }
}

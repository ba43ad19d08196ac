//! The epoch of a start.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agg_core::Epoch;

/// An epoch above that of every earlier start (R-EPOCH-1): the seconds since 2025 began. Two starts within a second, or a
/// clock that was set back, would break the rule; jobs have random keys and end with their host, so nothing mixes.
pub fn epoch_now() -> Epoch {
    const YEAR_2025: Duration = Duration::from_secs(1_735_689_600);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Epoch(now.saturating_sub(YEAR_2025).as_secs() as u32)
}

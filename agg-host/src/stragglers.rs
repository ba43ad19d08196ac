//! Says in the log who holds the others up: once when it begins and once when it is over.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agg_control::DataPlane;

use crate::Names;

/// How often the members' lags are looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// A data plane whose jobs have names.
pub trait Watched: DataPlane {
    /// The jobs of this host, and what messages call them.
    fn jobs(&self) -> Vec<(u64, Arc<Names>)>;
}

/// Looks at the lags until told to stop.
pub fn watch(plane: &impl Watched, threshold: Duration, stop: &AtomicBool) {
    let mut late = HashSet::new();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(INTERVAL);
        let jobs = plane.jobs();
        late.retain(|(key, _)| jobs.iter().any(|(job, _)| job == key));
        for (key, names) in jobs {
            for (member, lag) in plane.lags(key).into_iter().enumerate() {
                let name = names.members.get(member).map_or("a member", String::as_str);
                let (world, chunks) = (&names.world, lag.chunks);
                if lag.waiting >= threshold {
                    if late.insert((key, member)) {
                        let waiting = lag.waiting.as_secs_f64();
                        tracing::warn!(
                            world,
                            "{name} is late: {chunks} chunks wait for it, the oldest for {waiting:.1} s"
                        );
                    }
                } else if late.remove(&(key, member)) {
                    tracing::info!(world, "{name} is no longer late");
                }
            }
        }
    }
}

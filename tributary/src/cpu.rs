//! Processor time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What all threads of this process have used so far, in user and system mode.
pub fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap_or(0),
        time.tv_nsec.try_into().unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time() {
        let before = process_time();
        let sum = (0..10_000_000_u64).fold(0, |sum, x| std::hint::black_box(sum ^ x));
        std::hint::black_box(sum);
        assert!(process_time() > before);
    }
}

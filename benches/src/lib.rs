//! What the benchmarks share. `cargo xtask bench` runs them and turns their times into ratios.
//!
//! A benchmark's name tells all that varies, as `cache/352/avx2/accept`: where the data lies, lanes, instruction set,
//! contestant. Contestants of one ratio have the same name but for its last part, and touch the same buffers.

pub mod cpu_time;
pub mod isa;
pub mod packets;
pub mod place;

use std::time::Duration;

use criterion::Criterion;

use cpu_time::CpuTime;

/// The lanes that are measured: the sizes for networks (see [`agg_core::Lanes`]).
pub const LANES: [usize; 4] = [256, 352, 848, 2048];

/// Criterion as all benchmarks have it: short, since `cargo xtask bench` runs everything several times over.
pub fn criterion() -> Criterion<CpuTime> {
    Criterion::default()
        .with_measurement(CpuTime)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(200))
        .sample_size(15)
        // Only the medians are read; the default of 100 000 would take longer than measuring.
        .nresamples(1000)
        .configure_from_args()
}

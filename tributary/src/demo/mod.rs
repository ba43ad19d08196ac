//! The training half of `tributary demo`: a small network learns handwritten digits, data-parallel.
//!
//! A worker computes the gradient *sum* over its part of each global batch, hands it to an [`AllReduce`] and
//! steps the optimiser with what comes back. One process alone ([`NoReduce`], a world of one) runs the very
//! same function, so the two can be compared step by step.
//!
//! Whatever differs between machines (`exp`, `ln`) only enters gradients *before* they are summed. What follows
//! the sum is built from correctly rounded operations alone, so all workers hold the same parameters bit for
//! bit whenever they received the same sums.

mod check;
mod digest;
mod digits;
mod lateness;
mod matmul;
mod mlp;
mod optimiser;
mod plot;
mod reduce;
mod report;
mod stagger;
mod table;
mod train;

pub use check::{Check, CheckLimits, compare, compare_narrow, compare_quorum};
pub use digest::{ParameterDigest, ParseDigestError};
pub use digits::{Digits, DigitsError, PIXELS, Split, shard};
pub use lateness::render_lateness;
pub use mlp::{Mlp, Scratch};
pub use optimiser::Momentum;
pub use plot::{PlotError, render_svg};
pub use reduce::{AllReduce, NoReduce};
pub use report::{GoodputSample, Lateness, Run, Traffic, WorkerMessage, WorkerReport};
pub use stagger::Stagger;
pub use table::{render_checks, render_counters, render_table};
pub use train::{EpochRecord, StepRecord, TrainConfig, TrainError, TrainOutcome, initial_parameters, train};

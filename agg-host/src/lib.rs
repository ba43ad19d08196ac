//! What every Tributary host shares, whatever moves its packets: the way of a job from the control service into the
//! core ([`job_config`], [`reachable`], [`abort`]), what messages call its ranks ([`Names`]), settings
//! ([`HostArgs`]), the watch over stragglers, and how a host ends ([`tell_ranks`]).
#![forbid(unsafe_code)]

mod args;
mod blocking;
mod counters;
mod epoch;
mod findings;
pub mod frame;
mod job;
mod lags;
mod limits;
mod memory;
mod names;
mod probe;
mod program;
mod reach;
mod settings;
mod simd;
mod stop;
mod stragglers;

pub use args::{HostArgs, say};
pub use blocking::{Blocking, unless_stopped};
pub use counters::shard_counters;
pub use epoch::epoch_now;
pub use findings::{Finding, Findings, Weight};
pub use job::{abort, job_config, member_endpoints, parent_endpoint, refused};
pub use lags::worst_lags;
pub use limits::explained;
pub use memory::SlotMemory;
pub use names::{Names, name};
pub use probe::{carried_bytes, probe, prober};
pub use program::{run, run_hearing, until_stopped, wait_for_stop};
pub use reach::{reachable, uplink};
pub use settings::{
    DEFAULT_CONTROL_PORT, DEFAULT_DATA_PORT, SettingsError, in_range, is_straggler_time, same_family,
};
pub use simd::{ShardAggregator, handle};
pub use stop::tell_ranks;
pub use stragglers::{Watched, watch};

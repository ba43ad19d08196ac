//! The Tributary aggregator inside the Linux kernel: `agg-core` as an XDP program, on any Linux host.
//!
//! A [`BpfHost`] loads the program, makes its maps as large as configured, attaches it to interfaces and serves
//! registration over gRPC ([`agg_control`]). Packets never reach user space, but the few whose answer is longer than
//! they are. What the maps hold is in [`bpf_layout`]; the program itself is the package `tributary-xdp` in `ebpf/`.
//!
//! Nothing is pinned in the kernel: when the process ends, however it does, its programs and maps go with it.

mod args;
mod check;
mod config;
#[cfg(test)]
mod conformance;
mod error;
mod explain;
mod frame;
mod host;
mod interfaces;
mod load;
mod maps;
mod memory;
mod neighbours;
mod plane;
mod relay;
mod watch;

pub use args::{ServeArgs, serve};
pub use check::{Report, check};
pub use config::{HostConfig, Mode};
pub use error::HostError;
pub use host::BpfHost;
pub use maps::MapsError;

//! Whole jobs for end-to-end tests: aggregators and ranks as processes on the hosts of a [`testnet`] network.
//!
//! A [`Server`] says how an aggregator is started, a [`Work`] what the ranks of a world do. Each rank is the test program once
//! more, told by its environment which rank it is; so every test program that starts ranks has this beside its tests:
//!
//! ```text
//! #[test]
//! #[ignore = "a rank of another test"]
//! fn rank() {
//!     testjob::run_if_rank();
//! }
//! ```
//!
//! Nothing is waited for without a deadline. What goes wrong is a panic that says what: these are tests.
//! `TRIBUTARY_TEST_LOG=1` shows what all processes say.

mod bench;
mod carried;
mod demo;
mod lanes;
mod process;
mod program;
mod rank;
mod server;
mod sums;
mod work;

pub use bench::{assert_success, bench, run_all};
pub use carried::carried;
pub use demo::trains;
pub use lanes::lanes;
pub use process::{LIMIT, Output, Process};
pub use program::tributary;
pub use rank::run_if_rank;
pub use server::{CONTROL_PORT, DATA_PORT, Server, counters};
pub use sums::{Rank, Said, sums, sums_after};
pub use work::Work;

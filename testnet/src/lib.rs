//! Small networks of Linux network namespaces, for end-to-end tests and benches.
//!
//! A [`Net`] is one bridge in a namespace of its own; each [`Host`] is a namespace joined to it by a veth pair. A [`Switch`]
//! is a host that forwards for others joined to it, so that networks can be trees.
//! Nothing is made in the caller's namespace, so the machine's own network stays as it was, and dropping the
//! [`Net`] ends every process inside it and deletes it.
//!
//! ```no_run
//! let mut net = testnet::Net::new("trib-ring")?;
//! let a = net.add_host("a", testnet::Link::default())?;
//! let b = net.add_host("b", testnet::Link { mtu: 9000, ..testnet::Link::with_rate("1gbit") })?;
//! let status = a.command("ping").args(["-c", "1", &b.address().to_string()]).status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and iproute2. Tests that use it are named `netns_*` and marked
//! `#[ignore = "needs root"]`; `cargo xtask test` runs them where it can.

mod error;
mod host;
mod iproute;
mod net;
mod stale;

pub use error::Error;
pub use host::{Counters, Host, Link, Switch};
pub use net::Net;

//! What this host uses of DPDK, safe to call: all `unsafe` code of the host is in here.
//!
//! [`Eal`] starts DPDK and is what ports and pools are made with. A [`Device`] is a port that does not run yet,
//! [`Port`] one that does; it gives out its [`Queue`]s, each to one owner. Frames are [`Mbuf`]s, owned by who holds them; a
//! [`ring`] takes them to another core. An [`Lcore`] is such a core.

mod burst;
mod device;
mod eal;
mod error;
mod gate;
mod lcore;
mod mbuf;
mod pool;
mod port;
mod ring;
mod telemetry;
mod thread;

pub use burst::{BURST, Burst, Drain};
pub use device::{Device, PortInfo};
pub use eal::Eal;
pub use error::DpdkError;
pub use lcore::{Lcore, Running};
pub use mbuf::{Arrival, Mbuf};
pub use pool::Pool;
pub use port::{Port, PortConfig, PortStats, Queue, ReceiveQueue, SendQueue, Steering};
pub use ring::{RingReceiver, RingSender, ring};
pub use telemetry::{Source, publish};
pub use thread::attach;

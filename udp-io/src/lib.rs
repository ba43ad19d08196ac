//! Fast UDP for Tributary's workers and socket aggregators, on plain blocking threads.
//!
//! One [`UdpPort`] is one socket. Packets are received in a [`RecvBatch`] and sent from a [`SendBatch`]; both
//! are allocated once and reused, and both hide the kernel's segmentation offloads (GSO when sending, GRO when
//! receiving): a caller only ever sees single packets. Loss is normal: what cannot be sent is counted, never an
//! error, because the protocol above resends.
//!
//! [`FaultyPort`] wraps a port and loses, duplicates, reorders, corrupts and delays packets by a seed. Hosts are
//! generic over [`Port`], so a host without faults pays nothing for the possibility.
//!
//! ```
//! use std::{net::SocketAddr, time::Duration};
//! use udp_io::{Port, PortConfig, RecvBatch, SendBatch, UdpPort};
//!
//! let any: SocketAddr = "127.0.0.1:0".parse()?;
//! let (alice, bob) = (UdpPort::bind(any, &PortConfig::default())?, UdpPort::bind(any, &PortConfig::default())?);
//! let mut out = SendBatch::new(1200, 4);
//! for i in 0..10 {
//!     alice.send(&mut out, bob.local_addr(), &[i; 1200])?;
//! }
//! alice.flush(&mut out)?;
//!
//! let mut arrived = RecvBatch::new(&bob, 1200);
//! let mut count = 0;
//! while count < 10 && bob.wait_readable(Duration::from_secs(1))? {
//!     count += bob.recv(&mut arrived)?;
//!     for (source, packet) in arrived.packets() {
//!         assert_eq!((source, packet.len()), (alice.local_addr(), 1200));
//!     }
//! }
//! assert_eq!(count, 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Packets are sent as ECN-capable (ECT(0)); an [`Arrival`] says whether the network has marked a packet.
//!
//! A [`QueuedPort`] is one port with several receive queues, into which the kernel sorts packets: who floods one
//! fills that one only.
//!
//! # What is not implemented
//!
//! - Windows: `quinn-udp` would do, the waiting here is `poll(2)`.
//! - `sendmmsg`: one system call sends one train (up to 64 packets to one destination).
//! - Explicit source addresses, which Tributary does not use.

// `steering` and `timestamps` have a line of it each: no crate offers their socket options.
#![deny(unsafe_code)]

mod error;
mod faults;
mod path;
mod port;
mod queues;
mod recv;
mod send;
mod socket;
mod steering;
mod timestamps;
mod train;
mod transmit;
mod wait;
mod watch;

pub use error::PortError;
pub use faults::{FaultConfig, FaultCounts, FaultyPort, PortFaults, Probability, ProbabilityError};
pub use path::{local_ip_towards, path_mtu, path_payload};
pub use port::{Held, Port};
pub use queues::{MAX_QUEUES, QueueConfig, QueueSet, QueuedPort};
pub use recv::{Arrival, RecvBatch};
pub use send::{PushError, SendBatch, SendCounts};
pub use socket::{PortConfig, UdpPort};
pub use steering::Steering;
pub use wait::wait_any;

/// The most bytes one IPv4 datagram can carry: 65535 less the IP and UDP headers. IPv6 could carry 20 more; one
/// limit for both keeps a packet that fits one family valid in the other.
pub const MAX_DATAGRAM: usize = 65507;

//! Packets between two processes of one machine through shared memory. Linux only.
//!
//! A [`Line`] joins two processes: a ring of packets each way, and a Unix socket. One side waits behind a [`Door`], an
//! abstract Unix socket that vanishes with its process and exists in one network namespace only; the other side
//! [`connect`]s. Each hands the other a file in memory, over that socket; after that packets need no system call, but for
//! a byte on the socket to wake a side that sleeps. When a process ends, however, the other sees the socket hang up.
//!
//! Neither side trusts the other:
//! - Only processes of the same user, or root's, are joined.
//! - A process writes to its own memory only, and nobody else can: the file is sealed against it, and against a change of
//!   its size, which would end who reads it by a signal.
//! - What is read from the other's memory is read once and checked; packets are copied out before anyone looks at them.
//!   What makes no sense is [`Broken`], and the line is of no use any more.
//!
//! ```
//! # #[cfg(target_os = "linux")]
//! # fn main() -> std::io::Result<()> {
//! use std::time::Duration;
//!
//! let door = shm_io::Door::open("shm-io-example")?;
//! let caller = std::thread::spawn(|| shm_io::connect("shm-io-example", 7, 1 << 16, Duration::from_secs(5)));
//! let call = door.accept(Duration::from_secs(5))?.expect("somebody called");
//! assert_eq!(call.number(), 7);
//! let (mut here, _) = call.answer(1, Ok)?.split();
//! let (_, mut there) = caller.join().expect("a thread")?.split();
//! assert!(here.push(b"a packet"));
//! here.publish();
//! let mut packet = shm_io::PacketBuffer::new(100);
//! assert!(shm_io::wait_any(&[there.line().as_ref()], false, Duration::from_secs(5))?);
//! assert_eq!(there.receive(&mut packet).expect("in order"), Some(&b"a packet"[..]));
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```
//!
//! # What is not implemented
//!
//! - Other systems than Linux: nothing can be opened there.
//! - Lines between users, or between network namespaces.

#[cfg(target_os = "linux")]
mod door;
#[cfg(target_os = "linux")]
mod greeting;
#[cfg(all(test, target_os = "linux"))]
mod hostile;
#[cfg(target_os = "linux")]
mod line;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod notice;
mod packet;
#[cfg(target_os = "linux")]
mod receiver;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod sender;

#[cfg(not(target_os = "linux"))]
mod elsewhere;

#[cfg(target_os = "linux")]
pub use door::{Call, Door, connect};
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Call, Door, Line, Receiver, Sender, ask, connect, holder, is_taken, wait_any};
#[cfg(target_os = "linux")]
pub use line::{Line, wait_any};
#[cfg(target_os = "linux")]
pub use notice::{ask, holder, is_taken};
pub use packet::{Broken, PacketBuffer};
#[cfg(target_os = "linux")]
pub use receiver::Receiver;
#[cfg(target_os = "linux")]
pub use sender::Sender;

/// The smallest ring, in bytes: two of the largest packets and their bookkeeping.
pub const SMALLEST_RING: usize = 128 << 10;

/// The largest ring, in bytes.
pub const LARGEST_RING: usize = 64 << 20;

/// The longest packet of a ring, in bytes: what a UDP datagram can carry.
pub const LONGEST_PACKET: usize = 65507;

//! A leading worker's lent memory as the store of a shard: the idea of SA-ATP (see the crate's documentation).
//!
//! **A prototype**: nothing authenticates a lender's messages but their source and the job's random key.

mod lender;
mod message;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agg_core::{Lanes, StoreAction, StoreRequest};

pub use lender::Lender;
use message::{HEADER, Kind, Message};
use udp_io::local_ip_towards;

/// A lender that has not answered for so long has died, with all that it held.
const PATIENCE: Duration = Duration::from_secs(1);

/// A host's side of a lender: one a shard.
pub(crate) struct Borrowed {
    socket: UdpSocket,
    lender: SocketAddr,
    clock: Instant,
    /// When the first request was sent that is not answered, in nanoseconds and 1; 0: there is none.
    unanswered: AtomicU64,
}

/// What a lender has said.
pub(crate) enum Said<'p> {
    /// It keeps a sum.
    Kept(Sum),
    /// Here are a sum's values, 4 bytes each, little-endian.
    Values(Sum, &'p [u8]),
    /// It does not have a sum of this job that was put there: it was started anew.
    Missing(u64),
    /// It has died.
    Lost,
}

/// Which sum.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) key: u64,
    pub(crate) place: u32,
    pub(crate) round: agg_core::Round,
    pub(crate) set: agg_core::MemberSet,
}

impl Borrowed {
    pub(crate) fn new(lender: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::new(local_ip_towards(lender)?, 0))?;
        socket.set_read_timeout(Some(PATIENCE / 10))?;
        Ok(Self {
            socket,
            lender,
            clock: Instant::now(),
            unanswered: AtomicU64::new(0),
        })
    }

    /// Largest datagram of either side.
    pub(crate) fn buffer() -> Vec<u8> {
        vec![0; HEADER + 4 * Lanes::L8192.count() + 1]
    }

    /// Passes a request on.
    pub(crate) fn ask(&self, request: &StoreRequest<'_>) {
        let (kind, values) = match request.action {
            StoreAction::Put(values) => (Kind::Put, values),
            StoreAction::Get => (Kind::Get, &[][..]),
        };
        let message = Message {
            kind,
            key: request.key,
            place: request.place,
            round: request.round,
            set: request.set,
        };
        let mut packet = Vec::with_capacity(HEADER + 4 * values.len());
        packet.extend(message.header());
        packet.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let now = self.clock.elapsed().as_nanos() as u64 + 1;
        let _ = self
            .unanswered
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        // What is not sent is as good as lost, and asked for again.
        let _ = self.socket.send_to(&packet, self.lender);
    }

    /// The job is over.
    pub(crate) fn end(&self, key: u64) {
        let message = Message {
            kind: Kind::End,
            key,
            place: 0,
            round: agg_core::Round(0),
            set: agg_core::MemberSet::EMPTY,
        };
        let _ = self.socket.send_to(&message.header(), self.lender);
    }

    /// The next that the lender says, within some time.
    pub(crate) fn hear<'p>(&self, packet: &'p mut [u8]) -> Option<Said<'p>> {
        let received = self.socket.recv_from(packet).ok();
        let said = match received {
            Some((len, source)) if source == self.lender => Message::parse(&packet[..len]),
            _ => None,
        };
        if let Some((message, values)) = said {
            self.unanswered.store(0, Ordering::Relaxed);
            let sum = Sum {
                key: message.key,
                place: message.place,
                round: message.round,
                set: message.set,
            };
            return match message.kind {
                Kind::Kept => Some(Said::Kept(sum)),
                Kind::Sum => Some(Said::Values(sum, values)),
                Kind::Missing => Some(Said::Missing(sum.key)),
                Kind::Put | Kind::Get | Kind::End => None,
            };
        }
        let since = self.unanswered.load(Ordering::Relaxed);
        let now = self.clock.elapsed().as_nanos() as u64;
        if since > 0 && u128::from(now.saturating_sub(since)) > PATIENCE.as_nanos() {
            self.unanswered.store(0, Ordering::Relaxed);
            return Some(Said::Lost);
        }
        None
    }
}

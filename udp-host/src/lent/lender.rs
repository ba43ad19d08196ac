//! The lender: memory of a machine that has some to spare, kept for an aggregator.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agg_core::{MemberSet, Round};

use super::message::{HEADER, Kind, Message};

/// How long a lender sleeps at most before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// What a job has left here is dropped when nothing was heard of it for so long: its aggregator may have died.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// Sums that a lender keeps.
#[derive(Debug)]
pub struct Lender {
    socket: UdpSocket,
    limit: u64,
    used: u64,
    jobs: HashMap<u64, Kept>,
}

#[derive(Debug)]
struct Kept {
    heard: Instant,
    sums: HashMap<u32, (Round, MemberSet, Vec<u8>)>,
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.sums.values().map(|(_, _, values)| values.len() as u64).sum()
    }
}

impl Lender {
    /// A lender of `limit` bytes at `address`.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn bind(address: SocketAddr, limit: u64) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_read_timeout(Some(STOP_INTERVAL))?;
        Ok(Self {
            socket,
            limit,
            used: 0,
            jobs: HashMap::new(),
        })
    }

    /// Where it is.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Keeps and gives back until told to stop.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut packet = vec![0; HEADER + 4 * agg_core::Lanes::L8192.count() + 1];
        while !stop.load(Ordering::Relaxed) {
            match self.socket.recv_from(&mut packet) {
                Ok((len, source)) => {
                    if let Some(answer) = self.handle(&packet[..len]) {
                        // As any datagram it may get lost: the host asks again.
                        let _ = self.socket.send_to(&answer, source);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.forget_old(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The host is gone; another may come.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn handle(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (message, values) = Message::parse(packet)?;
        let sum = (message.round, message.set);
        match message.kind {
            Kind::Put => {
                let kept = self.jobs.entry(message.key).or_insert_with(|| Kept {
                    heard: Instant::now(),
                    sums: HashMap::new(),
                });
                kept.heard = Instant::now();
                let before = kept
                    .sums
                    .get(&message.place)
                    .map_or(0, |(_, _, old)| old.len() as u64);
                let used = self.used - before + values.len() as u64;
                if used > self.limit {
                    // Silence is a refusal: the sum stays where it is.
                    return None;
                }
                self.used = used;
                kept.sums.insert(message.place, (sum.0, sum.1, values.to_vec()));
                let kept = Message {
                    kind: Kind::Kept,
                    ..message
                };
                Some(kept.header().to_vec())
            }
            Kind::Get => {
                let missing = Message {
                    kind: Kind::Missing,
                    ..message
                };
                let kept = self.jobs.get_mut(&message.key);
                let here = kept.and_then(|kept| {
                    kept.heard = Instant::now();
                    kept.sums.get(&message.place)
                });
                let Some((_, _, values)) = here.filter(|(round, set, _)| (*round, *set) == sum) else {
                    return Some(missing.header().to_vec());
                };
                let given = Message {
                    kind: Kind::Sum,
                    ..message
                };
                Some([&given.header()[..], values].concat())
            }
            Kind::End => {
                if let Some(kept) = self.jobs.remove(&message.key) {
                    self.used -= kept.bytes();
                }
                None
            }
            Kind::Kept | Kind::Sum | Kind::Missing => None,
        }
    }

    fn forget_old(&mut self) {
        let used = &mut self.used;
        self.jobs.retain(|_, kept| {
            let keep = kept.heard.elapsed() < FORGET_AFTER;
            if !keep {
                *used -= kept.bytes();
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Kind, place: u32, round: u32) -> Message {
        Message {
            kind,
            key: 7,
            place,
            round: Round(round),
            set: MemberSet(3),
        }
    }

    fn with(message: Message, values: &[u8]) -> Vec<u8> {
        [&message.header()[..], values].concat()
    }

    #[test]
    fn a_lender_gives_back_just_what_was_put_and_keeps_its_limit() {
        let mut lender = Lender::bind("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let put = |place, round, values: &[u8]| with(message(Kind::Put, place, round), values);
        let kept = message(Kind::Kept, 1, 5).header().to_vec();
        assert_eq!(lender.handle(&put(1, 5, &[1; 8])), Some(kept));
        assert_eq!(
            lender.handle(&message(Kind::Get, 1, 5).header()),
            Some(with(message(Kind::Sum, 1, 5), &[1; 8]))
        );
        let missing = message(Kind::Missing, 1, 6).header().to_vec();
        assert_eq!(
            lender.handle(&message(Kind::Get, 1, 6).header()),
            Some(missing),
            "another sum"
        );
        assert_eq!(lender.handle(&put(2, 5, &[2; 12])), None, "above the limit");
        assert!(
            lender.handle(&put(1, 6, &[3; 8])).is_some(),
            "in place of the first"
        );
        assert!(lender.handle(&put(2, 6, &[4; 8])).is_some());
        assert_eq!(lender.handle(&message(Kind::End, 0, 0).header()), None);
        assert_eq!((lender.used, lender.jobs.len()), (0, 0));
    }
}

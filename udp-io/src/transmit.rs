//! Handing trains to the kernel.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use quinn_udp::{EcnCodepoint, Transmit};
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
};

use crate::{SendBatch, UdpPort, recv::is_icmp_report, train::Train, wait::poll};

/// How long one flush waits, in all, for a full send buffer to drain. The buffer holds milliseconds of the link;
/// one that has not moved for longer is stuck, and the protocol's resends are the better remedy.
const PATIENCE: Duration = Duration::from_millis(50);

/// A packet's late ICMP report may hide another; after this many the packet is given up.
const MAX_REPORTS: usize = 8;

enum Outcome {
    Sent,
    Dropped(io::Error),
}

impl UdpPort {
    /// Sends and empties `batch`; returns the number of packets sent.
    pub(crate) fn transmit(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let mut counts = batch.counts;
        let mut last_error = None;
        let mut give_up = None;
        let mut result = Ok(());
        'trains: for train in batch.trains() {
            for &dest in train.destinations() {
                let before = counts.sent;
                result = self.send_train(train, dest, &mut give_up, |packets, outcome| match outcome {
                    Outcome::Sent => {
                        counts.sent += packets as u64;
                        counts.calls += 1;
                    }
                    Outcome::Dropped(error) => last_error = error.raw_os_error().or(last_error),
                });
                counts.dropped += train.segments() as u64 - (counts.sent - before);
                if result.is_err() {
                    break 'trains;
                }
            }
        }
        let sent = counts.sent - batch.counts.sent;
        batch.counts = counts;
        batch.last_error = last_error.or(batch.last_error);
        batch.clear();
        result.map(|()| sent as usize)
    }

    /// Sends one train to one destination, in as few calls as the kernel and the NIC allow, and tells `report` the
    /// number of packets and the outcome of each call.
    fn send_train(
        &self,
        train: &Train,
        dest: SocketAddr,
        give_up: &mut Option<Instant>,
        mut report: impl FnMut(usize, Outcome),
    ) -> io::Result<()> {
        // Port 0 is a legal source (RFC 768) but nothing can be sent to it, nor to the other family. The kernel's
        // answer EINVAL would be taken for a NIC without GSO, so a stranger could turn that off: do not ask.
        if dest.port() == 0 || dest.is_ipv4() != self.local_addr().is_ipv4() {
            report(train.segments(), Outcome::Dropped(Errno::ADDRNOTAVAIL.into()));
            return Ok(());
        }
        let mut rest = train.contents();
        let mut packets = train.segments();
        while packets > 0 {
            let segments = packets.min(self.gso_segments());
            let (now, later) = rest.split_at(rest.len().min(segments * train.segment()));
            let outcome = self.send_one(
                &Transmit {
                    destination: dest,
                    // Whoever receives it says when it was marked (RFC 3168, RFC 8085 section 3.1.7).
                    ecn: Some(EcnCodepoint::Ect0),
                    contents: now,
                    segment_size: (segments > 1).then_some(train.segment()),
                    src_ip: None,
                },
                give_up,
            )?;
            if matches!(outcome, Outcome::Dropped(_)) && segments > self.gso_segments() {
                // The NIC has just turned out not to segment: again, in smaller portions.
                continue;
            }
            report(segments, outcome);
            (rest, packets) = (later, packets - segments);
        }
        Ok(())
    }

    /// Makes one send, waiting for room until `give_up`, which the first wait of a flush sets.
    fn send_one(&self, transmit: &Transmit<'_>, give_up: &mut Option<Instant>) -> io::Result<Outcome> {
        let mut reports = 0;
        loop {
            let error = match self.state.try_send(self.sock_ref(), transmit) {
                Ok(()) => return Ok(Outcome::Sent),
                Err(error) => error,
            };
            if is_icmp_report(&error) && reports < MAX_REPORTS {
                reports += 1;
                continue;
            }
            if error.kind() == io::ErrorKind::WouldBlock {
                let now = Instant::now();
                let left = give_up
                    .get_or_insert(now + PATIENCE)
                    .saturating_duration_since(now);
                if !left.is_zero() {
                    poll(&mut [PollFd::new(self, PollFlags::OUT)], left)?;
                    continue;
                }
            }
            // A socket that is none any more is the caller's mistake; all else concerns this packet or its path.
            return match Errno::from_io_error(&error) {
                Some(Errno::BADF | Errno::NOTSOCK) => Err(error),
                _ => Ok(Outcome::Dropped(error)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Port, PortConfig, RecvBatch};

    #[test]
    fn without_gso_a_train_leaves_packet_by_packet() {
        let any = "127.0.0.1:0".parse().unwrap();
        let (a, b) = (
            UdpPort::bind(any, &PortConfig::default()).unwrap(),
            UdpPort::bind(any, &PortConfig::default()).unwrap(),
        );
        // The kernel's EINVAL, for whatever reason, makes quinn-udp give GSO up.
        let nowhere = Transmit {
            destination: "127.0.0.1:0".parse().unwrap(),
            ecn: None,
            contents: &[0; 20],
            segment_size: Some(10),
            src_ip: None,
        };
        assert!(a.state.try_send(a.sock_ref(), &nowhere).is_err());
        assert_eq!(a.gso_segments(), 1);

        let mut out = SendBatch::new(100, 1);
        for len in [100, 100, 30] {
            out.push(b.local_addr(), len, |bytes| bytes.fill(len as u8))
                .unwrap();
        }
        assert_eq!(
            (out.trains().len(), a.flush(&mut out).unwrap(), out.counts().calls),
            (1, 3, 3)
        );

        let mut arrived = RecvBatch::new(&b, 100);
        let mut lens = Vec::new();
        while lens.len() < 3 && b.wait_readable(Duration::from_secs(5)).unwrap() {
            b.recv(&mut arrived).unwrap();
            lens.extend(arrived.packets().map(|(_, packet)| packet.len()));
        }
        assert_eq!(lens, [100, 100, 30]);
    }
}

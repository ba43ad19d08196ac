//! The port of one stream.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agg_host::frame::{End, Mac};
use agg_worker::transport::{Ecn, Link, LinkCounts};
use dpdk_host::Neighbours;
use dpdk_host::dpdk::{BURST, Burst, Mbuf, attach};

use crate::frames::{Content, wrap};
use crate::port::Taken;

/// Mbufs that are taken out of the pool together.
const SPARE: usize = 32;

/// How long a full port is tried again before frames are given up. They are sent again when their answers do not come.
const PATIENCE: Duration = Duration::from_millis(5);

/// How long to wait for an mbuf at most: none says that it is free again.
const NO_MBUF: Duration = Duration::from_micros(100);

/// The port of one stream. Only who has the stream polls here, but for the thread that looks between operations.
pub(crate) struct StreamLink {
    taken: Arc<Taken>,
    stream: usize,
    /// Where its packets come from.
    from: End,
    /// Frames that have not been looked at.
    came: Burst,
    /// Mbufs for what is sent next, and the one that is written to.
    spare: Burst,
    next: Option<Mbuf>,
    is_without: bool,
    out: Burst,
    neighbours: Neighbours,
    /// How the last receiver is reached; until the next flush.
    last: Option<(SocketAddr, Mac)>,
    counts: LinkCounts,
    last_error: Option<String>,
}

impl StreamLink {
    pub(crate) fn new(taken: &Arc<Taken>, stream: usize) -> Self {
        Self {
            taken: Arc::clone(taken),
            stream,
            from: taken.running.end(taken.addresses[stream]),
            came: Burst::default(),
            spare: Burst::default(),
            next: None,
            is_without: false,
            out: Burst::default(),
            neighbours: taken.running.neighbours(),
            last: None,
            counts: LinkCounts::default(),
            last_error: None,
        }
    }

    /// Whether there are frames that have not been looked at.
    fn poll(&mut self) -> bool {
        if self.came.is_empty() {
            self.taken.inboxes[self.stream].take(&mut self.came);
            let room = BURST - self.came.len();
            let queues = &self.taken.running.queues;
            queues.receive(self.stream, room, &mut self.came);
        }
        !self.came.is_empty()
    }

    fn take_spare(&mut self) -> Option<Mbuf> {
        if self.spare.is_empty() {
            attach(&self.taken.running.pool);
            self.taken.running.pool.take_some(SPARE, &mut self.spare);
        }
        self.spare.pop().or_else(|| self.taken.running.pool.take())
    }

    /// The Ethernet address by which a receiver is reached, if that is known.
    fn reach(&mut self, to: SocketAddr) -> Option<Mac> {
        if let Some((_, mac)) = self.last.filter(|(last, _)| *last == to) {
            return Some(mac);
        }
        self.neighbours.refresh();
        let Some(hop) = self.neighbours.hop(to.ip()) else {
            self.taken.running.want(to.ip());
            return None;
        };
        self.last = Some((to, hop.mac));
        Some(hop.mac)
    }

    fn give_up(&mut self, count: usize, why: impl FnOnce(&str) -> String) {
        self.counts.unsent += count as u64;
        self.last_error = Some(why(&self.taken.running.about.device));
    }
}

impl Link for StreamLink {
    fn room(&mut self) -> Option<&mut [u8]> {
        if self.next.is_none() {
            self.next = self.take_spare();
        }
        self.is_without = self.next.is_none();
        let headers = self.taken.running.about.framing.len();
        self.next.as_mut()?.room_mut().get_mut(headers..)
    }

    fn send(&mut self, len: usize, to: SocketAddr) -> io::Result<()> {
        let Some(mac) = self.reach(to) else {
            let who = to.ip();
            self.give_up(1, |device| {
                format!("it is not known how {who} is reached from port {device}")
            });
            return Ok(());
        };
        let Some(mut mbuf) = self.next.take() else {
            return Ok(());
        };
        let running = &self.taken.running;
        let to = End { mac, address: to };
        if !wrap(
            &mut mbuf,
            len,
            (&self.from, &to),
            running.about.framing,
            running.about.checksums,
        ) {
            return Ok(());
        }
        if let Err(mbuf) = self.out.push(mbuf) {
            self.flush()?;
            // There is room now.
            let _ = self.out.push(mbuf);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.last = None;
        let mut full = None;
        while !self.out.is_empty() {
            let sent = self.taken.running.queues.send(self.stream, &mut self.out);
            self.counts.sent += sent as u64;
            if sent > 0 {
                full = None;
                continue;
            }
            if full.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                let left = self.out.drain().count();
                self.give_up(left, |device| {
                    format!("port {device} takes nothing: nobody receives at its other end")
                });
                break;
            }
            self.taken.running.about.idle.wait(0);
        }
        Ok(())
    }

    fn receive(&mut self, each: &mut dyn FnMut(SocketAddr, &[u8], Ecn)) -> io::Result<()> {
        attach(&self.taken.running.pool);
        self.taken.running.look_round(self.stream);
        self.poll();
        let Self {
            taken, came, stream, ..
        } = self;
        for mbuf in came.drain() {
            match taken.running.content(&mbuf) {
                Content::Datagram {
                    from,
                    to,
                    ecn,
                    payload,
                } if to == self.from.address.port() => {
                    each(from, &mbuf.bytes()[payload], ecn);
                }
                Content::Datagram { to, .. } => taken.pass_on(to, mbuf),
                Content::Discovery(heard) => taken.running.hear(heard, mbuf, *stream),
                Content::Foreign => {}
            }
        }
        Ok(())
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        let limit = if self.is_without {
            limit.min(NO_MBUF)
        } else {
            limit
        };
        let began = Instant::now();
        let mut polls = 0_u32;
        while !self.poll() && began.elapsed() < limit {
            self.taken.running.look_round(self.stream);
            polls = polls.saturating_add(1);
            self.taken.running.about.idle.wait(polls);
        }
        Ok(())
    }

    fn counts(&self) -> LinkCounts {
        self.counts
    }

    fn last_error(&self) -> Option<io::Error> {
        self.last_error.clone().map(io::Error::other)
    }
}

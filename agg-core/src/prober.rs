//! Which chunk sizes get to an aggregator and back: path MTU discovery by probing (R-PROBE-3).
//!
//! An interface's MTU says nothing of the links behind it, and what says so on the way (ICMP) is often lost, or, where a
//! switch drops the packet, never sent. So the only proof is a packet of that length that comes back, as in packetization
//! layer path MTU discovery for datagrams (RFC 8899). The search there is for connections that live for hours; the sizes here
//! are few, so that all are asked for at once.

use heapless::Vec;

use crate::wire::{HEADER_LEN, Probe};
use crate::{Epoch, Lanes, Nanos};

/// Asks an aggregator for each of some chunk sizes, until the largest is answered or time is up. Sans-IO, as
/// [`Worker`](crate::Worker) is: a host sends what [`transmit`](Self::transmit) writes, hands in what comes, and calls
/// [`handle_timeout`](Self::handle_timeout) when [`next_timeout`](Self::next_timeout) says so.
#[derive(Clone, Debug)]
pub struct Prober {
    key: u64,
    epoch: Epoch,
    /// Largest first.
    sizes: Vec<Size, { Lanes::ALL.len() }>,
    /// Tries that are left, the current one included.
    tries: u32,
    due: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Size {
    lanes: Lanes,
    /// To be sent in this try.
    is_due: bool,
    is_answered: bool,
}

impl Prober {
    /// How often each size is asked for. With one packet in ten lost on each way all are lost once in 600,000.
    pub const TRIES: u32 = 8;

    /// Time between two tries, in ns. An answer to an earlier one counts as well, so the round trip may be
    /// [`Self::TRIES`] times as long.
    pub const INTERVAL: Nanos = 25_000_000;

    /// Begins to ask the aggregator that started with `epoch` for each of `sizes`. `key` is a random number.
    pub fn new(key: u64, epoch: Epoch, sizes: impl Fn(Lanes) -> bool, now: Nanos) -> Self {
        let mut asked = Vec::new();
        for lanes in Lanes::ALL.into_iter().rev().filter(|lanes| sizes(*lanes)) {
            // There is room for all that exist.
            let _ = asked.push(Size {
                lanes,
                is_due: true,
                is_answered: false,
            });
        }
        Self {
            key,
            epoch,
            sizes: asked,
            tries: Self::TRIES,
            due: now.saturating_add(Self::INTERVAL),
        }
    }

    /// Whether nothing more is to be learnt: the largest size was answered, or time is up.
    pub fn is_done(&self) -> bool {
        self.tries == 0 || self.sizes.first().is_none_or(|size| size.is_answered)
    }

    /// Writes the next probe to send, and returns its length in bytes; `None`: none is to be sent now. One that does not fit
    /// `out` is passed over.
    pub fn transmit(&mut self, out: &mut [u8]) -> Option<usize> {
        if self.is_done() {
            return None;
        }
        let probe = Probe {
            is_question: true,
            key: self.key,
            epoch: self.epoch,
        };
        let due = self.sizes.iter_mut().filter(|size| size.is_due);
        due.into_iter().find_map(|size| {
            size.is_due = false;
            probe.write(size.lanes, out)
        })
    }

    /// Takes in a packet, if it is an answer.
    pub fn handle(&mut self, packet: &[u8]) {
        let answer = packet.first_chunk::<HEADER_LEN>().and_then(Probe::read);
        let is_ours = answer.is_some_and(|answer| {
            !answer.is_question && (answer.key, answer.epoch) == (self.key, self.epoch)
        });
        let lanes = Probe::lanes_of(packet.len()).filter(|_| is_ours);
        for size in self.sizes.iter_mut().filter(|size| Some(size.lanes) == lanes) {
            size.is_answered = true;
        }
    }

    /// When to call [`Self::handle_timeout`].
    pub fn next_timeout(&self) -> Nanos {
        self.due
    }

    /// Time has passed: the sizes that were not answered are asked for again, if there are tries left.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if now < self.due {
            return;
        }
        self.due = now.saturating_add(Self::INTERVAL);
        self.tries = self.tries.saturating_sub(1);
        for size in &mut self.sizes {
            size.is_due = !size.is_answered;
        }
    }

    /// The largest size that came back.
    pub fn largest(&self) -> Option<Lanes> {
        let answered = self.sizes.iter().find(|size| size.is_answered);
        answered.map(|size| size.lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet_len;

    const EPOCH: Epoch = Epoch(5);
    const KEY: u64 = 0xfeed;

    fn prober() -> Prober {
        Prober::new(
            KEY,
            EPOCH,
            |lanes| lanes != Lanes::L16 && lanes != Lanes::L8192,
            0,
        )
    }

    /// What a path and an aggregator make of a question.
    fn answer(len: usize, carried: usize) -> Option<Vec<u8, 10_000>> {
        let mut packet = Vec::new();
        packet.resize(len, 0).ok()?;
        let answer = Probe {
            is_question: false,
            key: KEY,
            epoch: EPOCH,
        };
        answer.write(Probe::lanes_of(len)?, &mut packet)?;
        (len <= carried).then_some(packet)
    }

    /// Sends all that is due; the lengths.
    fn send(prober: &mut Prober, carried: usize) -> Vec<usize, 8> {
        let mut out = [0; 10_000];
        let mut lengths = Vec::new();
        while let Some(len) = prober.transmit(&mut out) {
            lengths.push(len).unwrap();
        }
        for len in &lengths {
            if let Some(packet) = answer(*len, carried) {
                prober.handle(&packet);
            }
        }
        lengths
    }

    #[test]
    fn probe_3_the_largest_answer_ends_it_at_once() {
        let mut prober = prober();
        assert_eq!(send(&mut prober, 9000), [8248, 3448, 1464, 1080]);
        assert!(prober.is_done());
        assert_eq!(prober.largest(), Some(Lanes::L2048));
        assert_eq!(prober.transmit(&mut [0; 10_000]), None);
    }

    #[test]
    fn probe_3_what_the_path_drops_is_asked_for_so_often_and_no_more() {
        let mut prober = prober();
        let mut sent = send(&mut prober, 1472).len();
        assert_eq!((sent, prober.largest()), (4, Some(Lanes::L352)));
        let mut tries = 1;
        while !prober.is_done() {
            prober.handle_timeout(prober.next_timeout() - 1);
            assert!(send(&mut prober, 1472).is_empty(), "not before its time");
            let now = prober.next_timeout();
            prober.handle_timeout(now);
            if !prober.is_done() {
                tries += 1;
                let again = send(&mut prober, 1472);
                assert_eq!(again, [8248, 3448]);
                sent += again.len();
            }
        }
        assert_eq!((tries, sent), (Prober::TRIES, 4 + 2 * 7));
        assert_eq!(prober.largest(), Some(Lanes::L352));
    }

    #[test]
    fn only_answers_to_this_question_count() {
        let mut prober = prober();
        let mut packet = [0; 8248];
        for (is_question, key, epoch) in [
            (true, KEY, EPOCH),
            (false, KEY + 1, EPOCH),
            (false, KEY, Epoch(4)),
        ] {
            let probe = Probe {
                is_question,
                key,
                epoch,
            };
            probe.write(Lanes::L2048, &mut packet).unwrap();
            prober.handle(&packet);
        }
        let good = answer(8248, 9000).unwrap();
        for len in [0, 55, 56, 8247] {
            prober.handle(&good[..len]);
        }
        // Of a size that was not asked for.
        prober.handle(&answer(packet_len(16), 9000).unwrap());
        assert_eq!((prober.largest(), prober.is_done()), (None, false));
        prober.handle(&good);
        assert!(prober.is_done());
    }

    #[test]
    fn with_nothing_to_ask_it_is_done() {
        let prober = Prober::new(KEY, EPOCH, |_| false, u64::MAX);
        assert!(prober.is_done() && prober.largest().is_none());
    }
}

//! Whose turn it is: the queues of a shard share its thread by deficit round robin (Shreedhar and Varghese, "Efficient
//! Fair Queueing using Deficit Round Robin", SIGCOMM 1995).
//!
//! What counts is work, not packets: see [`Work`]. A queue that took more than its quota, as a receive may bring more
//! than was foreseen, waits until later rounds have made up for it.

use udp_io::QueueSet;

/// Work of the thread, measured in bytes: those received and sent, and for each packet as many as take the kernel and the
/// core as long as they need for it apart from its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Work(i64);

impl Work {
    /// What a packet costs apart from its bytes, in bytes.
    const PACKET: usize = 512;

    /// Of packets received or sent, with so many bytes in all.
    pub(crate) fn of(packets: usize, bytes: usize) -> Self {
        Self(packets.saturating_mul(Self::PACKET).saturating_add(bytes) as i64)
    }
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, more: Self) {
        self.0 = self.0.saturating_add(more.0);
    }
}

/// What a queue may have done in one visit while others wait: one train in and out. Less costs more system calls, more
/// keeps the others waiting.
const QUOTA: i64 = 128 << 10;

/// Queue 0 has no job: its packets are only counted, and too many of them need not be.
const FOREIGN_QUOTA: i64 = QUOTA / 8;

/// After so many rounds in which no other queue had packets, one has the thread to itself: a visit is longer, as it
/// was when there was only one queue. Where packets pile up that is some milliseconds, so that one who floods is not
/// taken for alone while another waits for results.
const ALONE_ROUNDS: u32 = 64;

/// The quota of a queue that has the thread to itself.
const ALONE_QUOTA: i64 = 16 * QUOTA;

/// A visit to a queue: receive from it, in at most so many kernel buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) queue: usize,
    pub(crate) buffers: usize,
}

/// The queues' turns.
pub(crate) struct Turns {
    queues: Box<[Turn]>,
    /// Queues that may still have packets in this round, with credit left.
    due: QueueSet,
    /// Whether a queue may have packets left when this round is over.
    unfinished: bool,
    current: usize,
    alone: u32,
}

struct Turn {
    /// What one round adds to the credit, by the weights of the queue's jobs.
    quota: i64,
    /// Work that may be done in this round; below 0 what was done too much.
    credit: i64,
    /// Work that one kernel buffer meant at the last visit; before the first, that of a whole train.
    buffer: i64,
}

impl Turns {
    pub(crate) fn new(queues: usize) -> Self {
        let turn = |queue| Turn {
            quota: if queue == 0 && queues > 1 {
                FOREIGN_QUOTA
            } else {
                QUOTA
            },
            credit: 0,
            buffer: QUOTA,
        };
        Self {
            queues: (0..queues).map(turn).collect(),
            due: QueueSet::default(),
            unfinished: false,
            current: 0,
            alone: 0,
        }
    }

    /// Takes the weights of the queues' jobs: the heaviest has the whole quota, the others their part of it.
    pub(crate) fn weigh(&mut self, weights: &[u32]) {
        let heaviest = i64::from(weights.iter().copied().max().unwrap_or(1).max(1));
        for (turn, weight) in self.queues.iter_mut().zip(weights).skip(1) {
            turn.quota = (QUOTA * i64::from((*weight).max(1)) / heaviest).max(QUOTA / 64);
        }
    }

    /// The next visit of this round; `None` when the round is over.
    pub(crate) fn next(&mut self) -> Option<Visit> {
        let queue = self.due.next_from(self.current)?;
        self.current = queue;
        let turn = &self.queues[queue];
        let buffers = (turn.credit / turn.buffer).max(1) as usize;
        Some(Visit { queue, buffers })
    }

    /// Whether a queue may have more packets than this round had time for.
    pub(crate) fn unfinished(&self) -> bool {
        self.unfinished
    }

    /// A visit found packets, in so many kernel buffers, that made so much work.
    pub(crate) fn charge(&mut self, queue: usize, buffers: usize, work: Work) {
        let turn = &mut self.queues[queue];
        turn.buffer = (work.0 / buffers.max(1) as i64).max(1);
        turn.credit -= work.0;
        if turn.credit <= 0 && self.due.contains(queue) {
            self.due.remove(queue);
            self.unfinished = true;
        }
    }

    /// A visit found the end of the queue.
    pub(crate) fn empty(&mut self, queue: usize) {
        self.due.remove(queue);
    }

    /// Begins a round with the queues that have packets now.
    pub(crate) fn begin(&mut self, ready: QueueSet) {
        (self.due, self.unfinished) = (QueueSet::default(), false);
        if ready.is_empty() {
            // Idle: nobody has anything to make up for.
            for turn in &mut self.queues {
                turn.credit = turn.quota;
            }
            return;
        }
        let only = (ready.len() == 1).then(|| ready.next_from(0)).flatten();
        self.alone = match only {
            Some(queue) if queue == self.current => self.alone.saturating_add(1),
            _ => 0,
        };
        if let Some(queue) = only {
            // Nobody waits for it: it owes nothing.
            let alone = self.alone >= ALONE_ROUNDS;
            let turn = &mut self.queues[queue];
            turn.credit = if alone { ALONE_QUOTA } else { turn.quota };
            self.due.insert(queue);
            return;
        }
        // Round robin: the one after the last visited is first.
        self.current += 1;
        // Where all owe, as many rounds pass as it takes until one does not: quotas are above 0.
        while self.due.is_empty() {
            for (queue, turn) in self.queues.iter_mut().enumerate() {
                turn.credit = (turn.credit + turn.quota).min(turn.quota);
                if ready.contains(queue) && turn.credit > 0 {
                    self.due.insert(queue);
                }
            }
        }
        self.unfinished = self.due != ready;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues that always have packets, each with as much work a kernel buffer; a visit fills all the buffers it may,
    /// at most 16. Returns the work done of each queue in so many rounds.
    fn backlogged(buffers: &[Option<i64>], rounds: usize) -> Vec<i64> {
        let mut turns = Turns::new(buffers.len());
        let mut ready = QueueSet::default();
        for (queue, _) in buffers.iter().enumerate().filter(|(_, work)| work.is_some()) {
            ready.insert(queue);
        }
        let mut done = vec![0; buffers.len()];
        for _ in 0..rounds {
            turns.begin(ready);
            while let Some(visit) = turns.next() {
                let count = visit.buffers.min(16);
                let work = count as i64 * buffers[visit.queue].unwrap_or(0);
                done[visit.queue] += work;
                turns.charge(visit.queue, count, Work(work));
            }
            assert!(turns.unfinished());
        }
        done
    }

    #[test]
    fn those_who_wait_get_equal_shares_whatever_their_packets() {
        let done = backlogged(&[None, Some(600), Some(190_000), Some(70_000)], 1000);
        for work in &done[1..] {
            let share = *work as f64 / (done[1..].iter().sum::<i64>() as f64);
            assert!((0.32..0.35).contains(&share), "{done:?}");
        }
    }

    #[test]
    fn packets_of_no_job_get_less() {
        let done = backlogged(&[Some(600), Some(600)], 1000);
        let ratio = done[1] as f64 / done[0] as f64;
        assert!((7.9..8.1).contains(&ratio), "{done:?}");
    }

    /// What was foreseen wrongly is made up for: here a queue brings sixteen trains where packets were expected.
    #[test]
    fn too_much_work_at_once_is_paid_back() {
        let mut turns = Turns::new(3);
        let mut ready = QueueSet::default();
        ready.insert(1);
        ready.insert(2);
        let (mut rounds, mut visits) = (0, [0; 3]);
        while visits[1] < 2 {
            turns.begin(ready);
            while let Some(visit) = turns.next() {
                visits[visit.queue] += 1;
                let work = if visit.queue == 1 { 16 * QUOTA } else { QUOTA };
                turns.charge(visit.queue, 16, Work(work));
            }
            rounds += 1;
        }
        assert_eq!((rounds, visits), (17, [0, 2, 17]));
    }

    #[test]
    fn only_who_has_been_alone_for_long_may_take_long() {
        let one = |queue| {
            let mut set = QueueSet::default();
            set.insert(queue);
            set
        };
        let mut turns = Turns::new(3);
        let mut buffers = |ready: QueueSet| {
            turns.begin(ready);
            let visit = turns.next();
            turns.charge(visit.map_or(0, |v| v.queue), 1, Work(QUOTA));
            visit.map_or(0, |visit| visit.buffers)
        };
        for _ in 0..ALONE_ROUNDS {
            assert_eq!(buffers(one(1)), 1);
        }
        assert_eq!(buffers(one(1)), 16);
        assert_eq!(
            [buffers(QueueSet::default()), buffers(one(1))],
            [0, 16],
            "idle is alone too"
        );
        assert_eq!([buffers(one(2)), buffers(one(1))], [1, 1]);
    }

    #[test]
    fn a_round_ends_when_queues_are_empty() {
        let mut turns = Turns::new(2);
        let mut ready = QueueSet::default();
        ready.insert(1);
        turns.begin(ready);
        assert_eq!(turns.next().map(|visit| visit.queue), Some(1));
        turns.empty(1);
        assert_eq!(turns.next(), None);
        assert!(!turns.unfinished());
    }
}

//! A member: the real worker, its user's tensor, and the script that the user follows.

use std::hash::{Hash, Hasher};

use agg_core::wire::{Header, packet_len};
use agg_core::worker::SlotState;
use agg_core::{Epoch, Lanes, Policy, Round, Worker, WorkerConfig};

use crate::mutation::WorkerFilter;
use crate::network::Packet;
use crate::scenario::{Pace, Scenario, Trouble};
use crate::values::{Data, LANES};

/// The job's key.
pub const KEY: u64 = 0x5eed;

// Time is abstracted away: everything is sent at 0 and arrives at 1, and timers fire when the model says so. A round
// trip is never measured, so every Want finds its chunk overdue; a worker that would have waited longer sends less.
const SENT: u64 = 0;
const ARRIVED: u64 = 1;
const OVERDUE: u64 = 1 << 40;
/// Deadlines (R-RESEND-3) are not part of the model.
const NEVER: u64 = u64::MAX / 2;

/// What happens to a member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event<P> {
    /// Its user calls the next operation.
    Start,
    /// A packet arrives.
    Take(P),
    /// Its host sends what there is to send.
    Transmit,
    /// Every resend timer fires, until all that is in flight is queued again.
    Alarm,
    /// Its host turns to the second aggregator.
    Redirect,
}

/// What a member sends.
#[derive(Debug, Default)]
pub struct Sent {
    /// At once.
    pub first: Vec<Packet>,
    /// When the timers fire later. In a network that can hold a packet back for ever, whatever a timer will send may
    /// as well be sent right away, so timers need no step of their own.
    pub again: Vec<Packet>,
}

/// A member and its user. Two are equal when they differ in timing only.
#[derive(Clone, Debug)]
pub struct Member {
    number: usize,
    worker: Worker<Vec<SlotState>, Vec<i32>>,
    filter: WorkerFilter,
    /// The aggregator whose address its host sends to.
    home: usize,
    /// Operations that its user has called.
    started: usize,
    /// The tensor of the last of them.
    data: Data,
    /// The round of the last result that it took, of each slot.
    latest: Vec<Option<Round>>,
    /// Something came out that is not the exact sum.
    wrong: bool,
}

impl Member {
    /// A member that has joined and called nothing yet.
    pub fn new(number: usize, scenario: &Scenario) -> Self {
        let filter = WorkerFilter::new(scenario);
        let window = filter.window(scenario.window);
        let config = WorkerConfig {
            key: KEY,
            epoch: Epoch(1),
            member: number as u8,
            members: scenario.members as u8,
            workers: scenario.members as u32,
            lanes: Lanes::L16,
            window,
            policy: Policy::All,
            timeout: NEVER,
            first_chunk: scenario.first_chunk,
        };
        let (slots, kept) = (
            vec![SlotState::default(); usize::from(window)],
            vec![0; usize::from(window) * LANES],
        );
        let latest = vec![None; usize::from(window)];
        let worker = Worker::new(config, slots, kept).expect("the memory fits the window");
        Self {
            number,
            worker,
            filter,
            home: 0,
            started: 0,
            data: Data::Empty,
            latest,
            wrong: false,
        }
    }

    /// Its number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The aggregator that it sends to.
    pub fn home(&self) -> usize {
        self.home
    }

    /// The epoch that it contributes to.
    pub fn epoch(&self) -> Epoch {
        self.worker.epoch()
    }

    /// The round of the last result that it took of a slot.
    pub fn latest(&self, slot: u16) -> Option<Round> {
        self.latest[usize::from(slot)]
    }

    /// Whether its user saw anything but an exact sum.
    pub fn is_wrong(&self) -> bool {
        self.wrong
    }

    /// Whether its worker reported an error.
    pub fn has_failed(&self) -> bool {
        self.worker.failure().is_some()
    }

    /// Whether its user can call the next operation.
    pub fn can_start(&self, scenario: &Scenario) -> bool {
        self.is_idle() && self.started < scenario.script(self.number).len()
    }

    /// Whether its user has all results.
    pub fn is_done(&self, scenario: &Scenario) -> bool {
        self.is_idle() && self.started == scenario.script(self.number).len()
    }

    fn is_idle(&self) -> bool {
        !self.worker.is_busy() && !self.has_failed()
    }

    /// The member after an event, and what it sends.
    pub fn after(&self, event: Event<&[u8]>, scenario: &Scenario) -> (Self, Sent) {
        let mut next = self.clone();
        let mut sent = Sent::default();
        if self.has_failed() {
            // It sends nothing any more, so that nothing that happens to it matters.
            return (next, sent);
        }
        next.react(event, scenario);
        if scenario.trouble == Trouble::FailOver && next.worker.epoch() > Epoch(1) {
            next.home = 1;
        }
        if scenario.pace == Pace::Prompt || event == Event::Transmit {
            sent.first = next.drain();
            next.alarm(scenario);
            sent.again = next.drain();
        }
        next.wrong |= !next.is_exact(scenario);
        (next, sent)
    }

    fn react(&mut self, event: Event<&[u8]>, scenario: &Scenario) {
        match event {
            Event::Start => {
                let step = scenario.script(self.number)[self.started];
                self.data = step.contribution(self.started, self.number, scenario.members);
                let elements = step.operation().elements;
                self.worker
                    .start(step.operation(), elements, SENT)
                    .expect("the worker is idle");
                self.started += 1;
            }
            Event::Take(bytes) => {
                if let Some(heard) = self.filter.incoming(bytes, self.worker.epoch()) {
                    let results = self.worker.stats().results;
                    self.worker.handle(ARRIVED, &heard, &mut self.data.tensor());
                    if self.worker.stats().results > results {
                        let header = Header::split(&heard).expect("packets are not damaged").0;
                        self.latest[usize::from(header.slot)] = Some(header.round);
                        self.filter.took(bytes);
                    }
                }
            }
            Event::Transmit => {}
            Event::Alarm => self.alarm(scenario),
            Event::Redirect => self.home = 1,
        }
    }

    /// Each call queues at least the oldest chunk in flight; what is passed over (R-RESEND-4) is due again at the next.
    fn alarm(&mut self, scenario: &Scenario) {
        for call in 1..=u64::from(self.filter.window(scenario.window)) {
            self.worker.handle_timeout(call * OVERDUE);
        }
    }

    fn drain(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut out = [0; packet_len(LANES)];
        while let Some(len) = self.worker.transmit(SENT, &self.data.tensor(), &mut out) {
            if let Some(bytes) = self.filter.outgoing(&out[..len], self.worker.is_busy()) {
                packets.push(Packet::Up {
                    from: self.number,
                    node: self.home,
                    bytes,
                });
            }
        }
        packets
    }

    /// While an operation runs each block is the member's own or the exact sum; afterwards all are the sum.
    fn is_exact(&self, scenario: &Scenario) -> bool {
        let Some(seq) = self.started.checked_sub(1) else {
            return true;
        };
        let step = scenario.script(self.number)[seq];
        let (own, sum) = (
            step.contribution(seq, self.number, scenario.members),
            step.sum(seq, scenario.members),
        );
        if self.is_idle() {
            self.data == sum
        } else {
            self.data.is_between(&own, &sum)
        }
    }

    fn fields(&self) -> impl Eq + Hash + '_ {
        let user = (
            self.number,
            self.home,
            self.started,
            &self.data,
            &self.latest,
            self.wrong,
        );
        (user, &self.filter, self.worker.protocol_state())
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        self.fields() == other.fields()
    }
}

impl Eq for Member {}

impl Hash for Member {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fields().hash(state);
    }
}

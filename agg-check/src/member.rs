//! A member: the real worker, its user's tensor, and the script that the user follows.

mod judge;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use agg_core::wire::{Header, packet_len};
use agg_core::worker::SlotState;
use agg_core::worker::{Boundary, Position, StartError};
use agg_core::{Epoch, Lanes, MemberSet, Round, Worker, WorkerConfig};

use crate::mutation::WorkerFilter;
use crate::network::Packet;
use crate::scenario::{Pace, Scenario, Trouble};
use crate::topology::Party;
use crate::values::{Data, LANES, Step};

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
    /// Its user announces the next operation while one runs.
    Announce,
    /// A packet arrives.
    Take(P),
    /// Its host sends what there is to send.
    Transmit,
    /// Every resend timer fires, until all that is in flight is queued again.
    Alarm,
    /// Its host turns to the second aggregator.
    Redirect,
    /// It dies.
    Die,
    /// It states how far it is, and takes nothing more until it is told how to go on (R-REFORM-1).
    Register,
    /// It is told its place after the re-forming, and where survivors go on (R-REFORM-2, R-REFORM-3).
    Rejoin(Option<Boundary>),
}

impl<P> Event<P> {
    /// The same event with another form of the packet.
    pub fn map<Q>(self, packet: impl FnOnce(P) -> Q) -> Event<Q> {
        match self {
            Self::Start => Event::Start,
            Self::Announce => Event::Announce,
            Self::Take(taken) => Event::Take(packet(taken)),
            Self::Transmit => Event::Transmit,
            Self::Alarm => Event::Alarm,
            Self::Redirect => Event::Redirect,
            Self::Die => Event::Die,
            Self::Register => Event::Register,
            Self::Rejoin(boundary) => Event::Rejoin(boundary),
        }
    }
}

/// What a member sends.
#[derive(Debug, Default)]
pub struct Sent {
    /// At once.
    pub first: Vec<Packet>,
    /// When the timers fire later. In a network that can hold a packet back for ever, whatever a timer will send may
    /// as well be sent right away, so timers need no step of their own.
    pub again: Vec<Packet>,
    /// What its worker counted that the exploration is to have reached ([`PREDICTED`], [`MISPREDICTED`]).
    pub counted: Vec<&'static str>,
}

/// An operation went by a prediction, which was right (R-NUM-11).
pub const PREDICTED: &str = "operations_predicted";

/// An operation was announced while one ran (R-OP-7).
pub const ANNOUNCED: &str = "operations_announced";

/// An operation's prediction was wrong.
pub const MISPREDICTED: &str = "operations_mispredicted";

/// For whom a result stands, as a member took it under a quorum: the set, the workers, the operation.
type Taken = (MemberSet, u32, u32);

/// What a worker is to its job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Standing {
    /// A member.
    Member,
    /// It has registered again, stating this, and waits for its new place.
    Registered(Position),
    /// It has its new place.
    Rejoined(Option<Boundary>),
    Dead,
}

/// A member and its user. Two are equal when they differ in timing only.
#[derive(Clone, Debug)]
pub struct Member {
    number: usize,
    worker: Worker<Vec<SlotState>, Vec<i32>>,
    filter: WorkerFilter,
    /// The aggregator whose address its host sends to.
    home: usize,
    standing: Standing,
    /// Operations that its user has called.
    started: usize,
    /// The tensor of the last of them.
    data: Data,
    /// The round of the last result that it took, of each slot.
    latest: Vec<Option<Round>>,
    /// By chunk, the results that it took: under a quorum only.
    taken: BTreeMap<u64, Taken>,
    /// The operation that ended without a result (R-REFORM-3).
    abandoned: Option<usize>,
    /// Something came out that is not the exact sum.
    wrong: bool,
}

impl Member {
    /// A member that has joined and called nothing yet.
    pub fn new(number: usize, scenario: &Scenario) -> Self {
        let (home, place) = scenario.topologies[0]
            .membership(number)
            .expect("each worker is a member");
        let filter = WorkerFilter::new(scenario, place.member);
        let window = filter.window(scenario.window);
        let config = WorkerConfig {
            key: KEY,
            epoch: place.epoch,
            member: place.member,
            members: place.members,
            workers: place.workers,
            lanes: Lanes::L16,
            window,
            policy: scenario.policy,
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
            home,
            standing: Standing::Member,
            started: 0,
            data: Data::Empty,
            latest,
            taken: BTreeMap::new(),
            abandoned: None,
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

    /// How far it has said to be, if it has registered and waits.
    pub fn stated(&self) -> Option<Position> {
        match self.standing {
            Standing::Registered(position) => Some(position),
            _ => None,
        }
    }

    /// Whether it has died.
    pub fn is_dead(&self) -> bool {
        self.standing == Standing::Dead
    }

    /// Whether it was told its new place.
    pub fn has_rejoined(&self) -> bool {
        matches!(self.standing, Standing::Rejoined(_))
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
        self.is_acting() && self.is_idle() && self.started < scenario.script(self.number).len()
    }

    /// Whether its user can announce the next operation.
    pub fn can_announce(&self, scenario: &Scenario) -> bool {
        let next = scenario.script(self.number).get(self.started);
        let could = |step: &Step| {
            let operation = step.operation();
            self.worker.can_announce(operation, operation.elements)
        };
        scenario.announces && self.is_acting() && next.is_some_and(could)
    }

    /// Whether its user has all results.
    pub fn is_done(&self, scenario: &Scenario) -> bool {
        self.is_dead() || self.is_idle() && self.started == scenario.script(self.number).len()
    }

    /// Whether anything can happen to it, but for being told its new place.
    pub fn is_acting(&self) -> bool {
        !self.is_dead() && (self.stated().is_none() || self.filter.goes_on_when_registered())
    }

    fn is_idle(&self) -> bool {
        !self.worker.is_busy() && !self.has_failed()
    }

    /// The member after an event, and what it sends.
    pub fn after(&self, event: Event<&[u8]>, scenario: &Scenario) -> (Self, Sent) {
        let mut next = self.clone();
        let mut sent = Sent::default();
        let told = matches!(event, Event::Rejoin(_));
        if self.has_failed() || !(self.is_acting() || told) {
            // It sends nothing any more, so that nothing that happens to it matters.
            return (next, sent);
        }
        next.react(event, scenario);
        let (before, after) = (self.worker.stats(), next.worker.stats());
        if after.predicted > before.predicted {
            sent.counted.push(PREDICTED);
        }
        if event == Event::Announce {
            sent.counted.push(ANNOUNCED);
        }
        if after.mispredicted > before.mispredicted {
            sent.counted.push(MISPREDICTED);
        }
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
                self.data = self.contribution(step, self.started, scenario);
                let elements = step.operation().elements;
                match self.worker.start(step.operation(), elements, SENT) {
                    Ok(()) => {}
                    Err(StartError::Abandoned) => self.abandoned = Some(self.started),
                    // Others have said so since it was announced.
                    Err(StartError::Failed(_)) => {}
                    Err(error) => panic!("{error:?} of a worker that is idle"),
                }
                self.started += 1;
            }
            Event::Announce => {
                let step = scenario.script(self.number)[self.started];
                let operation = step.operation();
                let mut data = self.contribution(step, self.started, scenario);
                let tensor = data.tensor();
                let exponent = |block| tensor.exponent(block, operation.kind.elements_of(LANES));
                self.worker.announce(operation, operation.elements, exponent);
            }
            Event::Take(bytes) => {
                if let Some(heard) = self.filter.incoming(bytes, self.worker.epoch()) {
                    let results = self.worker.stats().results;
                    self.worker.handle(ARRIVED, &heard, &mut self.data.tensor());
                    if self.worker.stats().results > results {
                        let header = Header::split(&heard).expect("packets are not damaged").0;
                        self.take(&header, scenario);
                        self.filter.took(bytes);
                    }
                }
            }
            Event::Transmit => {}
            Event::Alarm => self.alarm(scenario),
            Event::Redirect => self.home = 1,
            Event::Die => self.standing = Standing::Dead,
            Event::Register => {
                let before = scenario.first_chunk + scenario.chunks_before(self.started) as u64;
                let position = self.filter.stated(self.worker.position(), before);
                self.standing = Standing::Registered(position);
            }
            Event::Rejoin(boundary) => self.rejoin(boundary, scenario),
        }
    }

    fn take(&mut self, header: &Header, scenario: &Scenario) {
        self.latest[usize::from(header.slot)] = Some(header.round);
        if scenario.policy.keeps_history() {
            let chunk = u64::from(header.round.0) * u64::from(scenario.window) + u64::from(header.slot);
            self.taken
                .insert(chunk, (header.set, header.workers, header.op_seq));
        }
    }

    fn rejoin(&mut self, boundary: Option<Boundary>, scenario: &Scenario) {
        let (home, place) = scenario.topologies[1]
            .membership(self.number)
            .expect("only survivors rejoin");
        let (place, told) = self.filter.told(place, boundary, self.worker.epoch());
        let busy = self.worker.is_busy();
        self.home = home;
        self.standing = Standing::Rejoined(boundary);
        self.worker.rejoin(&place, told, SENT);
        if self.worker.was_abandoned() && self.abandoned.is_none() {
            self.abandoned = Some(self.started - 1);
            // What its user has a result of cannot be taken back.
            self.wrong |= !busy;
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
                packets.push(Packet {
                    from: Party::Worker(self.number),
                    to: Party::Node(self.home),
                    bytes,
                });
            }
        }
        packets
    }

    fn fields(&self) -> impl Eq + Hash + '_ {
        let user = (
            self.number,
            self.home,
            self.standing,
            self.started,
            &self.data,
            &self.latest,
            &self.taken,
            self.abandoned,
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

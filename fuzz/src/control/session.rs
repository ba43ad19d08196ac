//! One run: steps in, requests out, and every answer looked at.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agg_control::fuzzing::{self, Answer, Control, Ticket};
use agg_control::{
    AbortKind, AbortReason, Capabilities, ControlConfig, HostKind, Member, Pulse, Refusal, Registered,
    Registration,
};

use super::plane::Plane;
use super::{Again, Call, Input, Sender, Step, answers, invariants, requests};

/// The chunk sizes that a host may have.
pub(super) const LANES: [u16; 5] = [256, 352, 848, 2048, 8192];
/// Members that are remembered.
const REMEMBERED: usize = 64;
/// Times that pass in silence until every job is over: a world in the queue starts when one ends, and a child aggregator
/// that is lost may come back by another way once.
const PATIENCE: usize = 40;

/// A registry and all that it was asked.
pub struct Session {
    pub(super) control: Control,
    pub(super) plane: Arc<Plane>,
    pub(super) config: ControlConfig,
    /// Registrations whose outcome was not taken, and what they were, unless any bytes.
    pub(super) tickets: Vec<(Ticket, Option<Registration>)>,
    /// Who was answered, and what.
    members: Vec<(Registration, Registered)>,
    /// The answer to the member 0 of each job and epoch; that to the others differs by the number.
    answers: BTreeMap<(u64, u32), Registered>,
    start: Instant,
    /// Milliseconds from the start, now and at the latest so far.
    elapsed: u64,
    latest: u64,
}

impl Session {
    /// A run of its own.
    pub fn new(input: &Input) -> Self {
        let offered = (0..LANES.len()).filter(|bit| input.lanes & 1 << bit != 0);
        let host = Capabilities {
            kind: HostKind::Udp,
            version: "0".into(),
            epoch: 7,
            data_ip: None,
            base_port: 4601,
            shards: u16::from(input.shards % 4) + 1,
            lanes: offered.map(|bit| LANES[bit]).collect(),
            memory_per_shard: u64::from(input.memory) << 15,
            receive_buffer: input.receive_buffer.into(),
            // A small number of frames, often none.
            receive_ring: input.receive_buffer & 0x1ff,
            answers_probes: true,
            shared_memory: String::new(),
        };
        let config = ControlConfig {
            allow_any_address: input.any_address,
            max_waiting_worlds: usize::from(input.limits.0 % 4) + 1,
            max_jobs: usize::from(input.limits.1 % 4) + 1,
            ..ControlConfig::default()
        };
        let plane = Arc::new(Plane::new(host, input.failing % 8));
        let control = Control::new(plane.clone(), config.clone());
        let start = Instant::now();
        Self {
            control,
            plane,
            config,
            tickets: Vec::new(),
            members: Vec::new(),
            answers: BTreeMap::new(),
            start,
            elapsed: 0,
            latest: 0,
        }
    }

    /// Does one step. Panics where something does not hold.
    pub fn step(&mut self, step: &Step) {
        self.elapsed = self.elapsed.saturating_add_signed(i64::from(step.wait) * 16);
        self.latest = self.latest.max(self.elapsed);
        self.call(&step.call);
        invariants::check(self);
    }

    /// All fall silent and every job ends; then the aggregator does: every caller has an answer, and nothing is left.
    pub fn finish(mut self) {
        let silence = self.config.lost_after + Duration::from_millis(1);
        let mut end = self.at(self.latest);
        for _ in 0..PATIENCE {
            end += silence;
            self.control.tick(end);
            self.answer_all(false);
        }
        invariants::nobody_runs(&self, end);
        self.control.close(end);
        self.answer_all(true);
        end += silence;
        self.control.tick(end);
        invariants::nothing_left(&self, end);
    }

    /// Takes the outcomes; those that wait stay, unless nobody may.
    fn answer_all(&mut self, closed: bool) {
        for (ticket, request) in std::mem::take(&mut self.tickets) {
            match self.control.poll(ticket) {
                Some(outcome) => self.outcome(outcome, request),
                None if closed => panic!("somebody waits for a closed aggregator"),
                None => self.tickets.push((ticket, request)),
            }
        }
    }

    /// The time of the current step.
    pub(super) fn now(&self) -> Instant {
        self.at(self.elapsed)
    }

    fn at(&self, elapsed: u64) -> Instant {
        self.start + Duration::from_millis(elapsed)
    }

    fn call(&mut self, call: &Call) {
        let now = self.now();
        match call {
            Call::Register(seat) => self.register(requests::first_registration(seat)),
            Call::World(seat) => {
                for request in requests::each_rank(seat, None) {
                    self.register(request);
                }
            }
            Call::Grow(seat) => {
                let all = requests::first_registration(seat);
                for count in 1..=all.ranks.len().min(6) {
                    let ranks = all.ranks[..count].to_vec();
                    self.register(Registration { ranks, ..all.clone() });
                }
            }
            Call::Resume(again) => {
                if let Some((request, answer)) = self.answered(again.member) {
                    self.resume(&request, &answer, again);
                }
            }
            Call::ResumeAll(again) => {
                let Some((_, answer)) = self.answered(again.member) else {
                    return;
                };
                for (request, answer) in self.members_of(answer.key) {
                    self.resume(&request, &answer, again);
                }
            }
            Call::Strangers(seat, again) => {
                for mut request in requests::each_rank(seat, seat.ranks) {
                    request.resume = Some(requests::of_a_stranger(&request, again));
                    self.register(request);
                }
            }
            Call::RegisterBytes(rank, bytes) => {
                let peer = requests::ip(u32::from(rank % 6));
                self.register_bytes(bytes, peer, None);
            }
            Call::Heartbeat(sender, progress) => {
                self.heartbeat(&fuzzing::heartbeat(self.member(sender), *progress));
            }
            Call::HeartbeatAll(pick) => {
                let Some((_, answer)) = self.answered(*pick) else {
                    return;
                };
                for (request, answer) in self.members_of(answer.key) {
                    self.heartbeat(&fuzzing::heartbeat(member_of(&request, &answer), 1));
                }
            }
            Call::HeartbeatBytes(bytes) => self.heartbeat(bytes),
            Call::Leave(sender) => {
                let request = fuzzing::leave(self.member(sender), 0);
                answered(self.control.leave(&request, now));
            }
            Call::LeaveBytes(bytes) => {
                answered(self.control.leave(bytes, now));
            }
            Call::Abort(sender, text) => {
                let request = fuzzing::abort(self.member(sender), text.clone(), None);
                answered(self.control.abort(&request, now));
            }
            Call::Relay(sender, rank, text) => {
                let reason = AbortReason {
                    rank: Some(*rank).filter(|rank| rank % 2 == 0),
                    kind: AbortKind::Lost,
                    text: text.clone(),
                };
                let request = fuzzing::abort(self.member(sender), String::new(), Some(reason));
                answered(self.control.abort(&request, now));
            }
            Call::AbortBytes(bytes) => {
                answered(self.control.abort(bytes, now));
            }
            Call::Poll(pick) => {
                if let Some(at) = self.pick(*pick)
                    && let Some(outcome) = self.control.poll(self.tickets[at].0)
                {
                    let (_, request) = self.tickets.remove(at);
                    self.outcome(outcome, request);
                }
            }
            Call::GiveUp(pick, waited) => {
                if let Some(at) = self.pick(*pick) {
                    let (ticket, request) = self.tickets.remove(at);
                    let waited = Duration::from_millis((*waited).into());
                    let outcome = self.control.give_up(ticket, waited);
                    self.outcome(outcome, request);
                }
            }
            Call::Withdraw(pick) => {
                if let Some(at) = self.pick(*pick) {
                    self.control.withdraw(self.tickets.remove(at).0);
                }
            }
            Call::Tick => self.control.tick(now),
            Call::Drain => self.control.drain(),
            Call::Close => self.control.close(now),
            Call::Answer(bytes) => fuzzing::read_answers(bytes),
        }
    }

    fn register(&mut self, request: Registration) {
        let peer = requests::ip(request.rank());
        self.register_bytes(&fuzzing::registration(&request), peer, Some(request));
    }

    fn register_bytes(&mut self, bytes: &[u8], peer: IpAddr, request: Option<Registration>) {
        let now = self.now();
        let ticket = answered(self.control.register(bytes, peer, now));
        self.tickets.extend(ticket.map(|ticket| (ticket, request)));
        // A caller learns its outcome soon.
        self.answer_all(false);
    }

    fn resume(&mut self, request: &Registration, answer: &Registered, again: &Again) {
        for request in requests::again(request, answer, again) {
            self.register(request);
        }
    }

    fn answered(&self, pick: u8) -> Option<(Registration, Registered)> {
        // The latest ones first: they are likely to be members still.
        let index = usize::from(pick).checked_rem(self.members.len())?;
        self.members.iter().rev().nth(index).cloned()
    }

    /// Those that were answered last for this job, each process once.
    fn members_of(&self, key: u64) -> Vec<(Registration, Registered)> {
        let of_job = self.members.iter().filter(|(_, answer)| answer.key == key);
        let latest: BTreeMap<u64, _> = of_job.map(|member| (member.0.nonce, member)).collect();
        latest.into_values().cloned().collect()
    }

    fn heartbeat(&mut self, request: &[u8]) {
        let now = self.now();
        if let Some(Pulse::Aborted(reason) | Pulse::Excluded(reason)) =
            answered(self.control.heartbeat(request, now))
        {
            invariants::one_line(&reason.text);
        }
    }

    fn pick(&self, pick: u8) -> Option<usize> {
        usize::from(pick).checked_rem(self.tickets.len())
    }

    /// Who a sender says it is.
    fn member(&self, sender: &Sender) -> Member {
        let Some((request, answer)) = self.answered(sender.member) else {
            let (key, rank, nonce) = (1, 0, 1);
            return Member { key, rank, nonce };
        };
        let mut member = member_of(&request, &answer);
        match sender.wrong {
            1 => member.key ^= 1,
            2 => member.rank += 1,
            3 => member.nonce += 1,
            _ => {}
        }
        member
    }

    fn outcome(&mut self, outcome: Result<Registered, Refusal>, request: Option<Registration>) {
        let Some(answer) = answered(Some(outcome)) else {
            return;
        };
        answers::check(&answer, request.as_ref(), &self.plane.state());
        let alike = Registered {
            member: 0,
            ..answer.clone()
        };
        let known = self
            .answers
            .entry((answer.key, answer.epoch))
            .or_insert_with(|| alike.clone());
        assert_eq!(*known, alike, "members were told different things");
        if let Some(request) = request {
            if self.members.len() == REMEMBERED {
                self.members.remove(0);
            }
            let request = Registration {
                resume: None,
                ..request
            };
            self.members.push((request, answer));
        }
    }
}

fn member_of(request: &Registration, answer: &Registered) -> Member {
    Member {
        key: answer.key,
        rank: request.rank(),
        nonce: request.nonce,
    }
}

/// The answer if it is a good one; a refusal is looked at.
fn answered<T>(answer: Answer<T>) -> Option<T> {
    match answer? {
        Ok(answer) => Some(answer),
        Err(refusal) => {
            let text = fuzzing::refusal_text(refusal);
            invariants::one_line(&text);
            None
        }
    }
}

//! One run: steps in, requests out, and every answer looked at.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agg_control::fuzzing::{self, Answer, Control, Ticket};
use agg_control::{Capabilities, ControlConfig, HostKind, Member, Pulse, Refusal, Registered, Registration};

use super::plane::Plane;
use super::{Call, Input, Seat, Sender, Step, invariants};

/// The chunk sizes that a host may have.
const LANES: [u16; 5] = [256, 352, 848, 2048, 8192];
/// Addresses that some rank, or none, may use.
const ODD_ADDRESSES: [&str; 6] = [
    "10.0.0.1:5100",
    "[::ffff:10.0.0.2]:5100",
    "0.0.0.0:5100",
    "255.255.255.255:5100",
    "[ff02::1]:5100",
    "10.0.0.1:0",
];
const NAMES: [&str; 4] = ["a", "resnet", "", "two\nlines"];

/// A registry and all that it was asked.
pub struct Session {
    pub(super) control: Control,
    pub(super) plane: Arc<Plane>,
    pub(super) config: ControlConfig,
    /// Registrations whose outcome was not taken.
    pub(super) tickets: Vec<Ticket>,
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
        };
        let config = ControlConfig {
            allow_any_address: input.any_address,
            max_waiting_worlds: usize::from(input.limits.0 % 4) + 1,
            max_jobs: usize::from(input.limits.1 % 4) + 1,
            ..ControlConfig::default()
        };
        let plane = Arc::new(Plane::new(host, input.failing % 8));
        let control = Control::new(plane.clone(), config.clone());
        let (tickets, start) = (Vec::new(), Instant::now());
        Self {
            control,
            plane,
            config,
            tickets,
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

    /// The aggregator ends: every caller has an answer, and nothing is left.
    pub fn finish(mut self) {
        self.control.close(self.now());
        for ticket in std::mem::take(&mut self.tickets) {
            let outcome = self.control.poll(ticket);
            self.outcome(outcome.expect("nobody waits for a closed aggregator"));
        }
        let end = self.at(self.latest) + self.config.lost_after;
        self.control.tick(end);
        invariants::nothing_left(&self, end);
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
            Call::Register(seat) => self.register(&fuzzing::registration(&request(seat)), ip(seat.rank)),
            Call::World(seat) => {
                let request = request(seat);
                for rank in 0..request.size.min(6) {
                    let endpoints = addresses(rank as u8, seat).collect();
                    let rank = Registration {
                        rank,
                        endpoints,
                        ..request.clone()
                    };
                    self.register(&fuzzing::registration(&rank), ip(rank.rank as u8));
                }
            }
            Call::RegisterBytes(rank, bytes) => self.register(bytes, ip(*rank)),
            Call::Heartbeat(sender, progress) => {
                self.heartbeat(&fuzzing::heartbeat(self.member(sender), *progress));
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
                let request = fuzzing::abort(self.member(sender), text.clone());
                answered(self.control.abort(&request, now));
            }
            Call::AbortBytes(bytes) => {
                answered(self.control.abort(bytes, now));
            }
            Call::Poll(pick) => {
                if let Some(at) = self.pick(*pick)
                    && let Some(outcome) = self.control.poll(self.tickets[at])
                {
                    self.tickets.remove(at);
                    self.outcome(outcome);
                }
            }
            Call::GiveUp(pick, waited) => {
                if let Some(at) = self.pick(*pick) {
                    let (ticket, waited) = (self.tickets.remove(at), Duration::from_millis((*waited).into()));
                    let outcome = self.control.give_up(ticket, waited);
                    self.outcome(outcome);
                }
            }
            Call::Withdraw(pick) => {
                if let Some(at) = self.pick(*pick) {
                    self.control.withdraw(self.tickets.remove(at));
                }
            }
            Call::Tick => self.control.tick(now),
            Call::Drain => self.control.drain(),
            Call::Close => self.control.close(now),
            Call::Answer(bytes) => fuzzing::read_answers(bytes),
        }
    }

    fn register(&mut self, request: &[u8], peer: IpAddr) {
        let now = self.now();
        self.tickets
            .extend(answered(self.control.register(request, peer, now)));
    }

    fn heartbeat(&mut self, request: &[u8]) {
        let now = self.now();
        if let Some(Pulse::Aborted(reason)) = answered(self.control.heartbeat(request, now)) {
            invariants::one_line(&reason.text);
        }
    }

    fn pick(&self, pick: u8) -> Option<usize> {
        usize::from(pick).checked_rem(self.tickets.len())
    }

    /// Who a sender says it is: the key of a job that is or was, or none that ever was.
    fn member(&self, sender: &Sender) -> Member {
        let state = self.plane.state();
        let job = state
            .admitted
            .get(usize::from(sender.job) % (state.admitted.len() + 1));
        Member {
            key: job.map_or(1, |job| job.key),
            rank: u32::from(sender.rank % 6),
            nonce: nonce(sender.process),
        }
    }

    /// A job that starts is the one that the data plane was given.
    fn outcome(&self, outcome: Result<Registered, Refusal>) {
        let Some(job) = answered(Some(outcome)) else {
            return;
        };
        let state = self.plane.state();
        let spec = state.admitted.iter().find(|spec| spec.key == job.key);
        let spec = spec.expect("a rank has the key of a job that was admitted");
        let given = (spec.members.len(), spec.lanes, spec.window, spec.streams);
        assert_eq!((job.ranks as usize, job.lanes, job.window, job.streams), given);
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

/// The address of a rank.
fn ip(rank: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, rank % 6 + 1])
}

/// The data addresses of a rank, which follow from its process.
fn addresses(rank: u8, seat: &Seat) -> impl Iterator<Item = SocketAddr> {
    let first = 5000 + 100 * nonce(seat.process) as u16;
    let odd = seat
        .odd_address
        .map(|pick| ODD_ADDRESSES[usize::from(pick) % ODD_ADDRESSES.len()]);
    (0..u16::from(seat.streams % 5)).map(move |stream| {
        let own = SocketAddr::new(ip(rank), first + stream);
        let odd = odd.filter(|_| stream == 0).and_then(|text| text.parse().ok());
        odd.unwrap_or(own)
    })
}

fn nonce(process: u8) -> u64 {
    [1, 1, 2, 0][usize::from(process % 4)]
}

fn request(seat: &Seat) -> Registration {
    let size = seat.size % 8;
    Registration {
        world: NAMES[usize::from(seat.world) % NAMES.len()].into(),
        size: if size > 5 {
            58 + u32::from(size)
        } else {
            size.into()
        },
        rank: u32::from(seat.rank % 6),
        nonce: nonce(seat.process),
        endpoints: addresses(seat.rank, seat).collect(),
        max_datagram: seat.max_datagram.into(),
        receive_buffer: seat.receive_buffer.into(),
        lanes: seat.lanes.map(|lanes| match lanes {
            0..=4 => LANES[usize::from(lanes)].into(),
            other => other.into(),
        }),
        window: seat.window,
        wait: Duration::from_secs(1),
    }
}

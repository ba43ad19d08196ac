//! Everything in any order: the fake data plane checks that its calls make sense, and nothing may be left over.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::config::ParentConfig;
use crate::messages::Pulse;
use crate::plane::{AbortKind, AbortReason};
use crate::registry::{Accepted, Answer, Ask};

const SIZE: u32 = 4;

struct Chaos {
    bench: Bench,
    random: StdRng,
    tickets: Vec<(Ticket, Registration)>,
    /// Who got an answer, and which.
    members: Vec<(Registration, Registered)>,
    /// Calls to the parent that are under way.
    calls: Vec<(String, u64, Option<Registration>)>,
    parent_epoch: u32,
}

impl Chaos {
    fn new(seed: u64, below_a_parent: bool) -> Self {
        let parent = ParentConfig {
            address: "root:4600".into(),
            tls: None,
        };
        let config = ControlConfig {
            parent: below_a_parent.then_some(parent),
            max_jobs: 3,
            ..ControlConfig::default()
        };
        Self {
            bench: Bench::with(FakePlane::new(), config),
            random: StdRng::seed_from_u64(seed),
            tickets: Vec::new(),
            members: Vec::new(),
            calls: Vec::new(),
            parent_epoch: 20,
        }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.random_range(0..bound)
    }

    fn one_in(&mut self, bound: u32) -> bool {
        self.below(bound) == 0
    }

    fn step(&mut self) {
        match self.below(12) {
            0..4 => self.register(),
            4 => self.beat(),
            5 => self.leave(),
            6 if self.one_in(6) => self.abort(),
            7 => self.go_away(),
            8 => {
                let seconds = f64::from(self.below(70)) / 10.0;
                self.bench.wait(seconds);
            }
            9 => self.ask_parent(),
            10 => self.answer_of_parent(),
            _ => {
                for _ in 0..3 {
                    self.beat();
                }
            }
        }
        self.collect();
        let status = self.bench.registry.status(self.bench.now);
        assert!(status.jobs.len() <= 3);
    }

    fn register(&mut self) {
        let world = ["x", "y"][self.below(2) as usize];
        let rank = self.below(SIZE);
        let again = (self.below(3) > 0).then(|| self.resuming()).flatten();
        let mut request = again.unwrap_or_else(|| {
            if self.one_in(3) {
                let ranks: Vec<u32> = (0..SIZE).filter(|_| self.random.random()).collect();
                let ranks = if ranks.is_empty() { vec![rank] } else { ranks };
                child(world, SIZE, 50 + u64::from(self.below(2)), &ranks)
            } else {
                request(world, SIZE, rank)
            }
        });
        if self.one_in(2) {
            request.on_lost = OnLost::Shrink;
        }
        if world == "y" && request.resume.is_none() {
            request.window = Some(1024);
            request.policy = quorum(2);
        }
        if let Ok(ticket) = self.bench.register(&request) {
            self.tickets.push((ticket, request));
        }
    }

    /// A member of a job, or one of its ranks by another way.
    fn resuming(&mut self) -> Option<Registration> {
        if self.members.is_empty() {
            return None;
        }
        let index = self.below(self.members.len() as u32) as usize;
        let (request, answer) = self.members[index].clone();
        let operations = self.below(5);
        let resumed = Registration {
            resume: resume(&answer, operations),
            ..request
        };
        if resumed.child && self.one_in(2) {
            let rank = resumed.ranks[0];
            return Some(Registration {
                resume: resumed.resume,
                ..super::request(&resumed.world, SIZE, rank)
            });
        }
        Some(resumed)
    }

    fn member(&mut self) -> Option<Member> {
        if self.members.is_empty() {
            return None;
        }
        let index = self.below(self.members.len() as u32) as usize;
        let (request, answer) = &self.members[index];
        Some(Member {
            key: answer.key,
            rank: request.rank(),
            nonce: request.nonce,
        })
    }

    fn beat(&mut self) {
        if let Some(member) = self.member() {
            let _ = self.bench.registry.heartbeat(member, 1, self.bench.now);
        }
    }

    fn leave(&mut self) {
        if let Some(member) = self.member() {
            let _ = self.bench.registry.leave(member, self.bench.now);
        }
    }

    fn abort(&mut self) {
        let Some(member) = self.member() else { return };
        let reason = AbortReason {
            rank: Some(3),
            kind: AbortKind::Lost,
            text: "x".into(),
        };
        let relayed = self.one_in(2).then_some(reason);
        let _ = self.bench.registry.abort(member, "y", relayed, self.bench.now);
    }

    fn go_away(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let index = self.below(self.tickets.len() as u32) as usize;
        let (ticket, _) = self.tickets.swap_remove(index);
        if self.one_in(2) {
            self.bench.registry.withdraw(ticket, self.bench.now);
        } else {
            let waited = Duration::from_secs(30);
            let _ = self.bench.registry.give_up(ticket, waited, self.bench.now);
        }
    }

    fn collect(&mut self) {
        let registry = &mut self.bench.registry;
        for (ticket, request) in std::mem::take(&mut self.tickets) {
            match registry.poll(ticket) {
                None => self.tickets.push((ticket, request)),
                Some(Ok(answer)) => {
                    let own = &answer.members[usize::from(answer.member)];
                    assert!(own.iter().all(|rank| request.ranks.contains(rank)));
                    assert!(answer.member < 64 && answer.workers > 0);
                    self.members.push((request, answer));
                }
                Some(Err(refusal)) => assert!(!refusal.to_string().contains(char::is_control)),
            }
        }
        if self.members.len() > 12 {
            self.members.drain(..4);
        }
    }

    fn ask_parent(&mut self) {
        self.bench.wait(0.03);
        let data = "10.9.9.9:4200".parse().unwrap();
        for ask in self.bench.registry.upstream_wants(self.bench.now) {
            match ask {
                Ask::Register { world, version } => {
                    let now = self.bench.now;
                    let request = self.bench.registry.upstream_request(&world, version, data, now);
                    self.calls.push((world, version, request));
                }
                Ask::Heartbeat { member, .. } => {
                    let answer = match self.below(12) {
                        0 => Answer::Ok(Pulse::Reform),
                        1 => Answer::Ok(Pulse::UnknownJob),
                        2 => Answer::Silent { detail: "x".into() },
                        3 => Answer::Refused {
                            word: "not-a-member".into(),
                            message: "x".into(),
                        },
                        _ => Answer::Ok(Pulse::Ok),
                    };
                    self.bench.registry.upstream_pulse(member, answer, self.bench.now);
                }
                Ask::Abort { .. } | Ask::Leave { .. } => {}
            }
        }
    }

    fn answer_of_parent(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let index = self.below(self.calls.len() as u32) as usize;
        let (world, version, request) = self.calls.swap_remove(index);
        let Some(request) = request else { return };
        let refused = |word: &str| Answer::Refused {
            word: word.into(),
            message: "no\nway".into(),
        };
        let answer = match self.below(8) {
            0 => refused("superseded"),
            1 => refused("ranks-missing"),
            2 => refused("draining"),
            3 => Answer::Silent { detail: "x".into() },
            _ => Answer::Ok(self.acceptance(&request)),
        };
        self.bench
            .registry
            .upstream_registered(&world, version, answer, self.bench.now);
    }

    fn acceptance(&mut self, request: &Registration) -> Accepted {
        self.parent_epoch += 1;
        let mut own = request.ranks.clone();
        if self.one_in(4) {
            own.pop();
        }
        let resume = request.resume.as_ref();
        let terms = Registered {
            key: resume.map_or(77 + u64::from(self.parent_epoch), |resume| resume.key),
            epoch: self.parent_epoch,
            member: 0,
            workers: own.len() as u32 + 1,
            members: vec![own],
            lanes: 256,
            window: 16,
            generations: 2,
            streams: 2,
            heartbeat: Duration::from_secs(1),
            lost_after: Duration::from_secs(10),
            policy: Policy::All,
            boundary: None,
        };
        Accepted {
            terms,
            endpoints: vec!["10.9.9.9:4200".parse().unwrap(); 4],
        }
    }

    /// All are told, and nothing is left.
    fn finish(mut self) {
        self.bench.registry.close(self.bench.now);
        self.collect();
        assert!(self.tickets.is_empty(), "somebody waits for ever");
        assert_eq!(self.bench.registry.tickets.len(), 0);
        assert_eq!(self.bench.plane.admitted(), 0);
    }
}

#[test]
fn nothing_is_left_over_whatever_happens() {
    for below_a_parent in [false, true] {
        for seed in 0..400 {
            // Shown if an assertion fails.
            println!("seed {seed}, below a parent: {below_a_parent}");
            let mut chaos = Chaos::new(seed, below_a_parent);
            for _ in 0..150 {
                chaos.step();
            }
            chaos.finish();
        }
    }
}

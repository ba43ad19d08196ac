//! The registry's rules, with a made-up clock and without any network.

mod below_a_parent;
mod chaos;
mod lifetime;
#[path = "../../tests/common/plane.rs"]
mod plane;
mod queue;
mod reforming;
mod refusals;
mod registering;
mod trees;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::plane::FakePlane;
use super::{Outcome, Registry, Ticket};
use crate::config::ControlConfig;
use crate::messages::{Member, OnLost, Policy, Registered, Registration, Resume};
use crate::refusal::Refusal;

struct Bench {
    registry: Registry,
    plane: Arc<FakePlane>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self::with(FakePlane::new(), ControlConfig::default())
    }

    fn with(plane: FakePlane, config: ControlConfig) -> Self {
        let plane = Arc::new(plane);
        Self {
            registry: Registry::new(plane.clone(), config),
            plane,
            now: Instant::now(),
        }
    }

    fn register(&mut self, request: &Registration) -> Result<Ticket, Refusal> {
        let peer = ip(request.rank());
        self.registry.register(request, peer, self.now)
    }

    fn refusal(&mut self, request: &Registration) -> String {
        self.register(request).expect_err("must be refused").to_string()
    }

    /// All ranks of a world register; the outcome of the last.
    fn start(&mut self, world: &str, size: u32) -> Outcome {
        self.start_with(size, |rank| request(world, size, rank))
    }

    fn start_with(&mut self, size: u32, make: impl Fn(u32) -> Registration) -> Outcome {
        let tickets: Vec<_> = (0..size)
            .map(|rank| self.register(&make(rank)).expect("must be seated"))
            .collect();
        let outcomes: Vec<_> = tickets
            .into_iter()
            .map(|ticket| self.registry.poll(ticket).expect("the world is complete"))
            .collect();
        for (member, outcome) in (0..).zip(&outcomes) {
            let expected = outcomes[0].clone().map(|answer| Registered { member, ..answer });
            assert_eq!(
                *outcome, expected,
                "all get the same answer, but for their number"
            );
        }
        outcomes.into_iter().next().expect("at least one rank")
    }

    fn wait(&mut self, seconds: f64) {
        self.now += Duration::from_secs_f64(seconds);
        self.registry.tick(self.now);
    }

    fn heartbeat(&mut self, job: &Registered, rank: u32) -> crate::Pulse {
        self.registry
            .heartbeat(member(job, rank), 5, self.now)
            .expect("is a member")
    }
}

fn ip(rank: u32) -> IpAddr {
    IpAddr::from([10, 0, 0, rank as u8 + 1])
}

fn request(world: &str, size: u32, rank: u32) -> Registration {
    Registration {
        world: world.into(),
        size,
        ranks: vec![rank],
        child: false,
        nonce: nonce(rank),
        endpoints: (0..2)
            .map(|stream| SocketAddr::new(ip(rank), 5000 + stream))
            .collect(),
        max_datagram: 1472,
        receive_buffer: 4 << 20,
        slot_memory: None,
        lanes: None,
        window: None,
        policy: Policy::All,
        on_lost: OnLost::Abort,
        weight: 1,
        priority: 0,
        wait: Duration::from_secs(30),
        resume: None,
    }
}

fn nonce(rank: u32) -> u64 {
    1000 + u64::from(rank)
}

fn member(job: &Registered, rank: u32) -> Member {
    Member {
        key: job.key,
        rank,
        nonce: nonce(rank),
    }
}

/// What an aggregator sends for the ranks below it; `nonce` tells aggregators apart.
fn child(world: &str, size: u32, nonce: u64, ranks: &[u32]) -> Registration {
    Registration {
        ranks: ranks.to_vec(),
        child: true,
        nonce,
        slot_memory: Some(plane::MEMORY),
        endpoints: (0..2)
            .map(|stream| SocketAddr::new(ip(ranks[0]), 4100 + stream))
            .collect(),
        ..request(world, size, ranks[0])
    }
}

fn quorum(members: u8) -> Policy {
    Policy::Quorum {
        members,
        grace: Duration::from_millis(5),
        history_bytes: 1 << 20,
    }
}

/// What a member of this job says after so many operations of 10 chunks on each stream.
fn resume(job: &Registered, operations: u32) -> Option<Resume> {
    Some(Resume {
        key: job.key,
        epoch: job.epoch,
        lanes: job.lanes,
        window: job.window,
        generations: job.generations,
        streams: job.streams,
        operations,
        next_chunks: vec![10 * u64::from(operations) + 10; 2],
    })
}

//! What the tests over real connections share.

#![allow(dead_code)] // not every test binary uses everything

pub(crate) mod plane;
pub(crate) mod relay;
pub(crate) mod switch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agg_control::{
    ControlClient, ControlConfig, ControlError, ControlServer, Member, OnLost, Policy, Registered,
    Registration, fresh_nonce, serve,
};

use self::plane::FakePlane;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn start(config: ControlConfig) -> (ControlServer, Arc<FakePlane>) {
    let plane = FakePlane::shared();
    let server =
        serve(SocketAddr::from(([127, 0, 0, 1], 0)), plane.clone(), config).expect("the service must start");
    (server, plane)
}

/// A service that notices a lost rank quickly.
pub(crate) fn impatient() -> ControlConfig {
    ControlConfig {
        lost_after: Duration::from_millis(400),
        heartbeat: Duration::from_millis(50),
        ..ControlConfig::default()
    }
}

pub(crate) fn connect(server: &ControlServer) -> ControlClient {
    ControlClient::connect(&server.local_addr().to_string(), None, TIMEOUT).expect("the service must answer")
}

pub(crate) fn request(world: &str, size: u32, rank: u32) -> Registration {
    Registration {
        world: world.into(),
        size,
        ranks: vec![rank],
        child: false,
        nonce: fresh_nonce(),
        endpoints: vec![SocketAddr::from(([127, 0, 0, 1], 5000 + rank as u16))],
        max_datagram: 1472,
        receive_buffer: 0,
        slot_memory: None,
        lanes: None,
        window: None,
        policy: Policy::All,
        on_lost: OnLost::Abort,
        weight: 1,
        priority: 0,
        wait: TIMEOUT,
        resume: None,
    }
}

/// Registers in a thread, as another process would.
pub(crate) fn register(
    server: &ControlServer,
    request: Registration,
) -> JoinHandle<Result<Registered, ControlError>> {
    let client = connect(server);
    std::thread::spawn(move || client.register(&request))
}

/// A running job and its members.
pub(crate) fn job(server: &ControlServer, world: &str, size: u32) -> (Registered, Vec<Member>) {
    let requests: Vec<_> = (0..size).map(|rank| request(world, size, rank)).collect();
    let ranks: Vec<_> = requests
        .iter()
        .map(|request| register(server, request.clone()))
        .collect();
    let answers: Vec<_> = ranks
        .into_iter()
        .map(|rank| rank.join().unwrap().expect("the world is complete"))
        .collect();
    for (member, answer) in (0..).zip(&answers) {
        let expected = Registered {
            member,
            ..answers[0].clone()
        };
        assert_eq!(*answer, expected, "all get the same answer, but for their number");
    }
    let member = |request: &Registration| Member {
        key: answers[0].key,
        rank: request.rank(),
        nonce: request.nonce,
    };
    (answers[0].clone(), requests.iter().map(member).collect())
}

/// Waits until a condition holds; panics after a while.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

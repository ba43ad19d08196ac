//! An aggregator below a parent: what it asks, and what follows from the answers.

use super::*;
use crate::config::ParentConfig;
use crate::messages::{Boundary, Pulse};
use crate::plane::{AbortKind, AbortReason};
use crate::registry::{Accepted, Answer, Ask};

fn leaf() -> Bench {
    let parent = ParentConfig {
        address: "root:4600".into(),
        tls: None,
    };
    Bench::with(
        FakePlane::new(),
        ControlConfig {
            parent: Some(parent),
            ..ControlConfig::default()
        },
    )
}

fn parent_data() -> SocketAddr {
    "10.9.9.9:4200".parse().unwrap()
}

/// The parent's terms: this aggregator is member 1 of 2.
fn terms(own: &[u32], epoch: u32) -> Registered {
    Registered {
        key: 77,
        epoch,
        member: 1,
        members: vec![vec![0], own.to_vec()],
        workers: 1 + own.len() as u32,
        lanes: 256,
        window: 16,
        generations: 2,
        streams: 2,
        heartbeat: Duration::from_secs(1),
        lost_after: Duration::from_secs(10),
        policy: Policy::All,
        boundary: None,
    }
}

fn accepted(terms: Registered) -> Answer<Accepted> {
    let port = |shard: u16| SocketAddr::new(parent_data().ip(), 4200 + shard);
    Answer::Ok(Accepted {
        terms,
        endpoints: (0..4).map(port).collect(),
    })
}

impl Bench {
    fn wants(&mut self) -> Vec<Ask> {
        self.registry.upstream_wants(self.now)
    }

    /// The registration that is sent after the pause in which others may come.
    fn asked(&mut self, world: &str) -> (u64, Registration) {
        assert_eq!(self.wants(), [], "more may come");
        self.wait(0.03);
        let asks = self.wants();
        let register = asks.iter().find_map(|ask| match ask {
            Ask::Register { world: name, version } if name == world => Some(*version),
            _ => None,
        });
        let version = register.unwrap_or_else(|| panic!("must be asked for: {asks:?}"));
        let request = self
            .registry
            .upstream_request(world, version, parent_data(), self.now)
            .expect("is up to date");
        (version, request)
    }

    /// Ranks 1 and 2 of 3 run here, rank 0 elsewhere.
    fn run(&mut self) -> Vec<Registered> {
        let tickets = [1, 2].map(|rank| self.register(&request("x", 3, rank)).unwrap());
        let (version, _) = self.asked("x");
        self.registry
            .upstream_registered("x", version, accepted(terms(&[1, 2], 30)), self.now);
        tickets
            .into_iter()
            .map(|ticket| self.registry.poll(ticket).expect("is answered").expect("runs"))
            .collect()
    }

    fn upstream_beat(&mut self) -> Member {
        self.wait(0.3);
        match self.wants().as_slice() {
            [Ask::Heartbeat { member, .. }] => *member,
            other => panic!("must be a heartbeat: {other:?}"),
        }
    }

    fn pulse(&mut self, pulse: Pulse) {
        let member = self.upstream_beat();
        self.registry.upstream_pulse(member, Answer::Ok(pulse), self.now);
    }
}

#[test]
fn a_world_is_registered_at_the_parent_with_the_ranks_that_are_here() {
    let mut bench = leaf();
    bench.register(&request("x", 3, 2)).unwrap();
    let (first, request_of_one) = bench.asked("x");
    assert_eq!(
        (request_of_one.ranks.as_slice(), request_of_one.child),
        ([2].as_slice(), true)
    );
    assert_eq!(bench.wants(), [], "it is asked once");
    bench.register(&request("x", 3, 1)).unwrap();
    let (second, both) = bench.asked("x");
    assert!(second > first);
    assert_eq!(
        (both.ranks.as_slice(), both.nonce),
        ([1, 2].as_slice(), request_of_one.nonce)
    );
    let endpoints = [4100, 4101].map(|port| SocketAddr::new(parent_data().ip(), port));
    assert_eq!(both.endpoints, endpoints, "one for each of the ranks' streams");
    assert_eq!(both.slot_memory, Some(plane::MEMORY));
    assert_eq!(
        (both.size, both.max_datagram, both.receive_buffer),
        (3, 1472, 4 << 20)
    );
}

#[test]
fn the_parents_terms_are_the_ranks_terms() {
    let mut bench = leaf();
    let answers = bench.run();
    let answer = &answers[1];
    assert_eq!((answer.key, answer.epoch, answer.member), (77, 7, 1));
    assert_eq!(answer.members, [[1], [2]]);
    assert_eq!((answer.workers, answer.lanes, answer.window), (3, 256, 16));
    let jobs = bench.plane.jobs.lock().unwrap();
    let parent = jobs[&77].parent.clone().unwrap();
    let endpoints = [4200, 4201].map(|port| SocketAddr::new(parent_data().ip(), port));
    assert_eq!(
        (parent.endpoints.as_slice(), parent.member, parent.epoch),
        (endpoints.as_slice(), 1, 30)
    );
}

#[test]
fn the_parents_refusal_goes_to_the_ranks() {
    let mut bench = leaf();
    let ticket = bench.register(&request("x", 3, 1)).unwrap();
    let (version, _) = bench.asked("x");
    let refused = Answer::Refused {
        word: "sizes-disagree".into(),
        message: "rank 1 says".into(),
    };
    bench
        .registry
        .upstream_registered("x", version, refused, bench.now);
    assert_eq!(
        bench.registry.poll(ticket).unwrap().unwrap_err().to_string(),
        "rank 1 says (said the parent aggregator at root:4600)"
    );
    assert!(!bench.registry.upstream_waits("x"));
}

#[test]
fn the_parent_names_the_missing_ranks_to_those_whose_time_is_over() {
    let mut bench = leaf();
    let short = Registration {
        wait: Duration::from_secs(1),
        ..request("x", 3, 1)
    };
    let impatient = bench.register(&short).unwrap();
    let patient = bench.register(&request("x", 3, 2)).unwrap();
    let (version, sent) = bench.asked("x");
    assert!(sent.wait <= Duration::from_secs(1));
    bench.wait(0.97);
    let refused = Answer::Refused {
        word: "ranks-missing".into(),
        message: "rank 0 did not register".into(),
    };
    bench
        .registry
        .upstream_registered("x", version, refused, bench.now);
    let refusal = bench.registry.poll(impatient).unwrap().unwrap_err();
    assert_eq!(refusal.word(), "ranks-missing");
    assert_eq!(bench.registry.poll(patient), None);
    assert_eq!(bench.asked("x").1.ranks, [2]);
}

#[test]
fn a_silent_parent_is_asked_again_and_named() {
    let mut bench = leaf();
    let ticket = bench.register(&request("x", 3, 1)).unwrap();
    let (version, _) = bench.asked("x");
    let silent = Answer::Silent {
        detail: "Connection refused".into(),
    };
    bench
        .registry
        .upstream_registered("x", version, silent, bench.now);
    assert_eq!(bench.wants(), []);
    bench.wait(0.3);
    assert_eq!(bench.wants().len(), 1);
    let refusal = bench.registry.give_up(ticket, Duration::from_secs(30), bench.now);
    assert_eq!(
        refusal.unwrap_err().to_string(),
        "the parent aggregator at root:4600 does not answer (Connection refused): is `tributary serve` running there?"
    );
}

#[test]
fn a_rank_that_the_parent_counts_elsewhere_is_told() {
    let mut bench = leaf();
    let [stays, moved] = [1, 2].map(|rank| bench.register(&request("x", 3, rank)).unwrap());
    let (version, _) = bench.asked("x");
    bench
        .registry
        .upstream_registered("x", version, accepted(terms(&[1], 30)), bench.now);
    assert_eq!(bench.registry.poll(stays).unwrap().unwrap().members, [[1]]);
    assert_eq!(
        bench.registry.poll(moved).unwrap().unwrap_err().word(),
        "left-out"
    );
}

#[test]
fn a_rank_that_went_away_as_the_world_was_complete_ends_it() {
    let mut bench = leaf();
    let [gone, stays] = [1, 2].map(|rank| bench.register(&request("x", 3, rank)).unwrap());
    let (version, _) = bench.asked("x");
    bench.registry.withdraw(gone, bench.now);
    bench
        .registry
        .upstream_registered("x", version, accepted(terms(&[1, 2], 30)), bench.now);
    assert_eq!(
        bench.registry.poll(stays).unwrap().unwrap_err().word(),
        "job-ended"
    );
    assert!(matches!(bench.wants().as_slice(), [Ask::Abort { .. }]));
    assert_eq!(bench.plane.admitted(), 0);
}

#[test]
fn aborts_are_relayed_both_ways() {
    let mut bench = leaf();
    let job = bench.run().remove(0);
    bench
        .registry
        .abort(member(&job, 1), "disk full", None, bench.now)
        .unwrap();
    let asks = bench.wants();
    let [
        Ask::Abort {
            member: sender,
            reason,
        },
    ] = asks.as_slice()
    else {
        panic!("{asks:?}")
    };
    assert_eq!((sender.key, sender.rank), (77, 1));
    assert_eq!(reason.text, "rank 1 failed: disk full");
    assert_eq!(bench.wants(), [], "once");

    let mut bench = leaf();
    let job = bench.run().remove(0);
    let reason = AbortReason {
        rank: Some(0),
        kind: AbortKind::Reported,
        text: "rank 0 failed: x".into(),
    };
    bench.pulse(Pulse::Aborted(reason.clone()));
    assert_eq!(bench.heartbeat(&job, 1), Pulse::Aborted(reason));
    assert_eq!(bench.wants(), [], "the parent knows");
}

#[test]
fn a_lost_rank_is_reported_and_a_left_job_is_left() {
    let mut bench = leaf();
    let job = bench.run().remove(0);
    for _ in 0..2 {
        bench.wait(4.0);
        bench.heartbeat(&job, 1);
        bench.pulse(Pulse::Ok);
    }
    bench.wait(3.0);
    let asks = bench.wants();
    assert!(
        matches!(asks.as_slice(), [Ask::Abort { reason, .. }] if reason.rank == Some(2)),
        "{asks:?}"
    );

    let mut bench = leaf();
    let job = bench.run().remove(0);
    bench.registry.leave(member(&job, 1), bench.now).unwrap();
    bench.registry.leave(member(&job, 2), bench.now).unwrap();
    assert!(matches!(bench.wants().as_slice(), [Ask::Leave { .. }]));
}

#[test]
fn a_parent_that_is_not_heard_ends_the_job() {
    let mut bench = leaf();
    let job = bench.run().remove(0);
    for _ in 0..6 {
        bench.wait(2.0);
        bench.heartbeat(&job, 1);
        bench.heartbeat(&job, 2);
        bench.wants();
    }
    let Pulse::Aborted(reason) = bench.heartbeat(&job, 1) else {
        panic!()
    };
    assert_eq!(
        reason.text,
        "the parent aggregator at root:4600 does not answer (for 10.0 s)"
    );
    assert_eq!(bench.wants(), []);
}

#[test]
fn a_job_forms_again_with_the_parent() {
    let mut bench = leaf();
    let job = bench.run().remove(0);
    bench.pulse(Pulse::UnknownJob);
    assert!(bench.plane.suspended.lock().unwrap().contains(&77));
    assert_eq!(bench.heartbeat(&job, 1), Pulse::Reform);
    let again = |rank, operations| Registration {
        resume: resume(&job, operations),
        ..request("x", 3, rank)
    };
    let ticket = bench.register(&again(1, 4)).unwrap();
    bench.register(&again(2, 5)).unwrap();
    // Heartbeats go on meanwhile.
    bench.wait(0.03);
    let asks = bench.wants();
    let version = asks.iter().find_map(|ask| match ask {
        Ask::Register { version, .. } => Some(*version),
        _ => None,
    });
    let version = version.expect("is asked for");
    let sent = bench
        .registry
        .upstream_request("x", version, parent_data(), bench.now)
        .unwrap();
    let resumed = sent.resume.unwrap();
    assert_eq!((resumed.key, resumed.epoch), (77, 30), "the parent's epoch");
    assert_eq!((resumed.operations, resumed.next_chunks), (5, vec![60, 60]));
    let boundary = Boundary {
        failed_operation: 5,
        next_chunks: vec![60, 60],
        lost: vec![0],
    };
    let answer = Registered {
        workers: 2,
        boundary: Some(boundary.clone()),
        ..terms(&[1, 2], 31)
    };
    bench
        .registry
        .upstream_registered("x", version, accepted(answer), bench.now);
    let answer = bench.registry.poll(ticket).unwrap().unwrap();
    assert_eq!(
        (answer.epoch, answer.workers, answer.boundary),
        (8, 2, Some(boundary))
    );
    assert!(bench.plane.suspended.lock().unwrap().is_empty());
    assert_eq!(
        bench.plane.jobs.lock().unwrap()[&77]
            .parent
            .as_ref()
            .unwrap()
            .epoch,
        31
    );
}

#[test]
fn ranks_of_another_aggregator_may_come_to_a_job_that_runs_here() {
    let mut bench = leaf();
    let job = bench.run().remove(0);
    let stranger = Registration {
        resume: resume(&job, 4),
        ..request("x", 3, 0)
    };
    bench.register(&stranger).unwrap();
    assert_eq!(bench.heartbeat(&job, 1), Pulse::Reform);
    bench.wait(0.03);
    let version = bench.registry.worlds["x"].upward.version;
    bench.wants();
    let sent = bench
        .registry
        .upstream_request("x", version, parent_data(), bench.now)
        .unwrap();
    assert_eq!(sent.ranks, [0]);
}

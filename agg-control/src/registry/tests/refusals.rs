//! Each refusal and its text.

use std::net::SocketAddr;

use super::*;
use crate::messages::{Registration, Resume};

/// What a lone rank 1 of the world 'x' of 4 is told after a change of its request.
fn alone(change: impl FnOnce(&mut Registration)) -> String {
    let mut request = request("x", 4, 1);
    change(&mut request);
    Bench::new()
        .registry
        .register(&request, ip(1), Instant::now())
        .expect_err("must be refused")
        .to_string()
}

/// The same after rank 0 has registered, unchanged.
fn second(change: impl FnOnce(&mut Registration)) -> String {
    let mut bench = Bench::new();
    bench.register(&request("x", 4, 0)).unwrap();
    let mut request = request("x", 4, 1);
    change(&mut request);
    bench.refusal(&request)
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn names_are_short_and_printable() {
    assert_eq!(
        alone(|r| r.world.clear()),
        "the world has no name: give it one of 1 to 128 bytes"
    );
    assert_eq!(
        alone(|r| r.world = "x".repeat(129)),
        "the world's name has 129 bytes: at most 128 are possible"
    );
    assert_eq!(
        alone(|r| r.world = "a\nb".into()),
        r#"the world's name "a\nb" has control characters: use printable ones only"#
    );
}

#[test]
fn sizes_and_ranks_are_within_bounds() {
    assert_eq!(
        alone(|r| r.size = 0),
        "the world 'x' has 0 ranks: 1 to 4096 are possible"
    );
    assert_eq!(
        alone(|r| r.size = 4097),
        "the world 'x' has 4097 ranks: 1 to 4096 are possible"
    );
    assert_eq!(
        alone(|r| r.ranks = vec![4]),
        "rank 4 is outside of the world 'x' of 4: ranks are 0 to 3"
    );
    assert_eq!(
        alone(|r| r.nonce = 0),
        "rank 1 registered without a nonce: send a random number that is not 0, one per process"
    );
}

#[test]
fn streams_are_within_the_hosts_shards() {
    let text = "data addresses, one per stream: this aggregator serves 1 to 4 streams";
    assert_eq!(alone(|r| r.endpoints.clear()), format!("rank 1 has 0 {text}"));
    assert_eq!(
        alone(|r| r.endpoints = (0..5).map(|s| SocketAddr::new(ip(1), 5000 + s)).collect()),
        format!("rank 1 has 5 {text}")
    );
}

#[test]
fn data_addresses_belong_to_the_caller() {
    assert_eq!(
        alone(|r| r.endpoints[1] = address("10.0.0.9:5000")),
        "rank 1 has the data address 10.0.0.9:5000 but registers from 10.0.0.2: bind its sockets to the address it \
         registers from, or set allow_any_address on the aggregator"
    );
    for unusable in [
        "0.0.0.0:5000",
        "10.0.0.2:0",
        "224.0.0.1:5000",
        "255.255.255.255:5000",
        "[::]:5000",
    ] {
        assert_eq!(
            alone(|r| r.endpoints[1] = address(unusable)),
            format!(
                "rank 1 has the data address {unusable}, to which nothing can be sent: bind its sockets first"
            )
        );
    }
}

#[test]
fn data_addresses_are_used_once() {
    let text = "use a socket per rank and stream";
    assert_eq!(
        alone(|r| r.endpoints[1] = r.endpoints[0]),
        format!("rank 1 has the data address 10.0.0.2:5000, which is rank 1's: {text}")
    );
    let mut bench = Bench::with(
        FakePlane::new(),
        ControlConfig {
            allow_any_address: true,
            ..ControlConfig::default()
        },
    );
    bench.register(&request("x", 4, 0)).unwrap();
    let same = Registration {
        endpoints: request("x", 4, 0).endpoints,
        ..request("x", 4, 1)
    };
    assert_eq!(
        bench.refusal(&same),
        format!("rank 1 has the data address 10.0.0.1:5000, which is rank 0's: {text}")
    );
}

#[test]
fn any_data_address_is_taken_if_configured() {
    let mut bench = Bench::with(
        FakePlane::new(),
        ControlConfig {
            allow_any_address: true,
            ..ControlConfig::default()
        },
    );
    let foreign = Registration {
        endpoints: vec![address("192.0.2.1:5000")],
        ..request("x", 1, 0)
    };
    assert!(bench.register(&foreign).is_ok());
}

#[test]
fn an_ipv4_caller_on_an_ipv6_socket_is_the_same_address() {
    let mut bench = Bench::new();
    let mapped = "::ffff:10.0.0.1".parse().unwrap();
    bench
        .registry
        .register(&request("x", 1, 0), mapped, bench.now)
        .unwrap();
    assert_eq!(
        bench.plane.jobs.lock().unwrap().values().next().unwrap().members[0].endpoints[0],
        address("10.0.0.1:5000")
    );
}

#[test]
fn chunk_sizes_are_the_hosts_and_fit_the_path() {
    assert_eq!(
        alone(|r| r.lanes = Some(512)),
        "512 lanes are not possible: this aggregator has 256, 352, 848, 2048, 8192"
    );
    assert_eq!(
        alone(|r| (r.lanes, r.max_datagram) = (Some(352), 1452)),
        "rank 1 can send 1452 bytes a datagram, 352 lanes need 1464: request fewer lanes or raise the path's MTU"
    );
    assert_eq!(
        alone(|r| r.max_datagram = 512),
        "rank 1 can send 512 bytes a datagram, 256 lanes need 1080: raise the path's MTU"
    );
}

#[test]
fn windows_are_bounded() {
    assert_eq!(
        alone(|r| r.window = Some(40000)),
        "a window of 40000 chunks is not possible: ask for at most 32768"
    );
}

#[test]
fn ranks_agree() {
    assert_eq!(
        second(|r| r.size = 3),
        "rank 1 says the world 'x' has 3 ranks, rank 0 registered it with 4: start all ranks with the same world size"
    );
    assert_eq!(
        second(|r| r.lanes = Some(256)),
        "rank 1 asks for lanes = 256, rank 0 of the world 'x' for lanes = automatic: ask for the same on all ranks"
    );
    assert_eq!(
        second(|r| r.window = Some(16)),
        "rank 1 asks for window = 16, rank 0 of the world 'x' for window = automatic: ask for the same on all ranks"
    );
    assert_eq!(
        second(|r| r.endpoints.truncate(1)),
        "rank 1 has 1 data addresses, rank 0 registered the world 'x' with 2 streams: use the same number of streams \
         on all ranks"
    );
}

#[test]
fn a_rank_is_taken_once() {
    assert_eq!(
        second(|r| (r.ranks, r.endpoints[0], r.endpoints[1]) =
            (vec![0], address("10.0.0.1:6000"), address("10.0.0.1:6001"))),
        "rank 0 of the world 'x' is already registered by another process (10.0.0.1:5000): if this is a second \
         world, give it another name"
    );
}

#[test]
fn a_running_world_holds_its_name() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    bench.registry.leave(member(&job, 1), bench.now).unwrap();
    bench.wait(4.0);
    let other = Registration {
        nonce: 9,
        ..request("x", 2, 0)
    };
    assert_eq!(
        bench.refusal(&other),
        "the world 'x' is already running (2 ranks, of which 1 have left, for 4.0 s): wait for its end or use \
         another name"
    );
}

#[test]
fn a_job_that_does_not_fit_is_refused_to_all_its_ranks() {
    let mut bench = Bench::new();
    let outcome = bench.start_with(2, |rank| Registration {
        window: Some(5000),
        ..request("x", 2, rank)
    });
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "the world 'x' needs 17825792 bytes per shard (lanes 256, window 8192), 8388608 are free: request a smaller \
         window or wait for other jobs to end"
    );
    assert_eq!(bench.plane.admitted(), 0);
    assert!(bench.start("x", 2).is_ok(), "the name is free again");
}

#[test]
fn what_the_data_plane_refuses_is_passed_on() {
    let mut bench = Bench::with(
        FakePlane {
            broken: true,
            ..FakePlane::new()
        },
        ControlConfig::default(),
    );
    assert_eq!(
        bench.start("x", 1).unwrap_err().to_string(),
        "the world 'x' was not admitted: the aggregator's table of 3 jobs is full: wait for other jobs to end"
    );
}

#[test]
fn worlds_and_jobs_are_limited() {
    let config = ControlConfig {
        max_waiting_worlds: 1,
        max_jobs: 1,
        ..ControlConfig::default()
    };
    let mut bench = Bench::with(FakePlane::new(), config);
    let job = bench.start("job", 1).unwrap();
    let queued = bench.register(&request("second", 1, 0)).unwrap();
    let outcome = bench.registry.give_up(queued, Duration::from_secs(30), bench.now);
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "1 jobs already run: wait for one to end, or raise max_jobs on the aggregator"
    );
    bench.register(&request("a", 2, 0)).unwrap();
    assert_eq!(
        bench.refusal(&request("b", 2, 0)),
        "1 worlds already wait for ranks: try again when they are complete, or raise max_waiting_worlds"
    );
    let complete = bench.register(&request("a", 2, 1)).unwrap();
    assert_eq!(bench.registry.poll(complete), None, "the table is full");
    bench
        .registry
        .abort(member(&job, 0), "x", None, bench.now)
        .unwrap();
    assert!(
        bench.registry.poll(complete).unwrap().is_ok(),
        "an ended job makes room"
    );
}

#[test]
fn a_draining_aggregator_takes_no_worlds_but_keeps_its_jobs() {
    let mut bench = Bench::new();
    let job = bench.start("job", 1).unwrap();
    let waiting = bench.register(&request("x", 2, 0)).unwrap();
    bench.registry.drain();
    let draining = "the aggregator is draining and takes no new worlds: use another aggregator";
    assert_eq!(
        bench.registry.poll(waiting).unwrap().unwrap_err().to_string(),
        draining
    );
    assert_eq!(bench.refusal(&request("x", 2, 0)), draining);
    assert_eq!(bench.heartbeat(&job, 0), crate::Pulse::Ok);
    assert_eq!(bench.start("job", 1).unwrap(), job, "a retry gets its answer");
}

#[test]
fn strangers_cannot_act_for_a_member() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    let stranger = Member {
        nonce: 1,
        ..member(&job, 1)
    };
    let text = "rank 1 did not register for this job in this process: use the key, rank and nonce of its registration";
    assert_eq!(
        bench
            .registry
            .heartbeat(stranger, 0, bench.now)
            .unwrap_err()
            .to_string(),
        text
    );
    assert_eq!(
        bench.registry.leave(stranger, bench.now).unwrap_err().to_string(),
        text
    );
    assert_eq!(
        bench
            .registry
            .abort(stranger, "", None, bench.now)
            .unwrap_err()
            .to_string(),
        text
    );
    let outside = Member {
        rank: 2,
        ..member(&job, 1)
    };
    assert!(bench.registry.leave(outside, bench.now).is_err());
}

#[test]
fn a_worker_registers_one_rank_and_a_child_ascending_ones() {
    assert_eq!(
        alone(|r| r.ranks = vec![1, 2]),
        "a registration for the world 'x' has 2 ranks: a worker registers just its own"
    );
    let child = "a child aggregator registers one or more, in ascending order and each once";
    for ranks in [vec![], vec![1, 1], vec![2, 1]] {
        let count = ranks.len();
        assert_eq!(
            alone(|r| (r.ranks, r.child) = (ranks, true)),
            format!("a registration for the world 'x' has {count} ranks: {child}")
        );
    }
}

#[test]
fn policies_and_weights_are_possible() {
    assert_eq!(
        alone(|r| r.weight = 1001),
        "rank 1 asks for weight = 1001: 1 to 1000 are possible"
    );
    assert_eq!(
        alone(|r| r.policy = quorum(5)),
        "rank 1 asks for a quorum of 5 of 4 ranks: ask for 1 to 4"
    );
    assert_eq!(
        alone(|r| (r.policy, r.child) = (quorum(2), true)),
        "the world 'x' asks for a quorum below a parent aggregator, where only policy = all works: register it at an \
         aggregator without parent and children"
    );
    assert_eq!(
        alone(|r| (r.policy, r.resume) = (quorum(2), Some(any_resume()))),
        "a job under a quorum cannot move to another aggregator or to a restarted one: start the world 'x' again"
    );
}

#[test]
fn ranks_agree_on_policy_and_weight() {
    let advice = "ask for the same on all ranks";
    assert_eq!(
        second(|r| r.policy = quorum(3)),
        format!(
            "rank 1 asks for policy = quorum of 3 with 5ms of grace and 1048576 bytes of history, rank 0 of the world \
             'x' for policy = all: {advice}"
        )
    );
    assert_eq!(
        second(|r| r.on_lost = OnLost::Shrink),
        format!("rank 1 asks for on_lost = shrink, rank 0 of the world 'x' for on_lost = abort: {advice}")
    );
    assert_eq!(
        second(|r| r.weight = 3),
        format!("rank 1 asks for weight = 3, rank 0 of the world 'x' for weight = 1: {advice}")
    );
    assert_eq!(
        second(|r| r.priority = 3),
        format!("rank 1 asks for priority = 3, rank 0 of the world 'x' for priority = 0: {advice}")
    );
    assert_eq!(
        second(|r| r.resume = Some(any_resume())),
        "rank 1 and rank 0 of the world 'x' do not resume the same job: end the processes that are left of an earlier \
         start"
    );
}

#[test]
fn what_a_rank_resumes_is_possible() {
    let refused = |change: fn(&mut Resume)| {
        alone(|r| {
            let mut resume = any_resume();
            change(&mut resume);
            r.resume = Some(resume);
        })
    };
    let text = |what: &str| {
        format!("rank 1 cannot resume the job of the world 'x' here: {what}; start the world again")
    };
    assert_eq!(refused(|r| r.key = 0), text("key 0 is no job's"));
    assert_eq!(
        refused(|r| r.lanes = 100),
        text("this aggregator has no chunks of 100 lanes")
    );
    assert_eq!(
        refused(|r| r.lanes = 848),
        text("848 lanes do not fit the path's 1472 bytes a datagram")
    );
    assert_eq!(
        refused(|r| r.window = 100),
        text("a window of 100 chunks is not possible")
    );
    assert_eq!(
        refused(|r| r.generations = 3),
        text("3 generations are not possible")
    );
    assert_eq!(
        refused(|r| r.next_chunks.push(1)),
        text("it has 2 streams, 2 data addresses and 3 chunk numbers")
    );
}

fn any_resume() -> Resume {
    Resume {
        key: 99,
        epoch: 7,
        lanes: 256,
        window: 16,
        generations: 2,
        streams: 2,
        operations: 0,
        next_chunks: vec![0, 0],
    }
}

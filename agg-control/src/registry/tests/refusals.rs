//! Each refusal and its text.

use std::net::SocketAddr;

use super::*;
use crate::messages::Registration;

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
    bench.register(&request("a", 2, 1)).unwrap();
    bench
        .registry
        .abort(member(&job, 0), "x", None, bench.now)
        .unwrap();
    assert!(bench.start("second", 1).is_ok(), "an ended job makes room");
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

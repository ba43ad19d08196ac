//! Jobs over real connections: registering, heartbeats, aborts, leaving.

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use agg_control::{
    AbortKind, ControlClient, ControlConfig, ControlError, Member, Pulse, RankState, Registered, Registration,
};
use common::{TIMEOUT, connect, eventually, impatient, job, register, request, start};

#[test]
fn three_ranks_wait_for_each_other() {
    let (server, plane) = start(ControlConfig::default());
    let first = register(&server, request("x", 3, 2));
    let second = register(&server, request("x", 3, 0));
    let client = connect(&server);
    eventually("two ranks wait", || {
        client
            .status()
            .unwrap()
            .waiting
            .first()
            .is_some_and(|world| world.missing == [1])
    });
    assert!(!first.is_finished() && !second.is_finished());
    let last = client.register(&request("x", 3, 1)).unwrap();
    let numbered = |member| Registered {
        member,
        ..last.clone()
    };
    assert_eq!(first.join().unwrap().unwrap(), numbered(2));
    assert_eq!(second.join().unwrap().unwrap(), numbered(0));
    assert_eq!(
        (last.epoch, last.workers, last.lanes, last.streams),
        (7, 3, 352, 1)
    );
    assert_eq!(
        (last.heartbeat, last.lost_after),
        (Duration::from_secs(1), Duration::from_secs(10))
    );
    assert_eq!(plane.admitted(), 1);
    assert_eq!(server.running_jobs(), 1);
}

#[test]
fn missing_ranks_are_named_at_the_deadline() {
    let (server, _plane) = start(ControlConfig::default());
    let late = Registration {
        wait: Duration::from_millis(200),
        ..request("x", 4, 1)
    };
    let error = connect(&server).register(&late).unwrap_err();
    assert!(matches!(error, ControlError::RanksMissing { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "world 'x' of 4: ranks 0, 2, 3 did not register within 0.2 s"
    );
}

#[test]
fn refusals_arrive_with_their_text_and_word() {
    let (server, _plane) = start(ControlConfig::default());
    let waiting = register(&server, request("x", 4, 0));
    let client = connect(&server);
    eventually("rank 0 waits", || !client.status().unwrap().waiting.is_empty());
    let error = client.register(&request("x", 3, 1)).unwrap_err();
    let ControlError::Refused { word, message } = error else {
        panic!("{error:?}")
    };
    assert_eq!(word, "sizes-disagree");
    assert_eq!(
        message,
        "rank 1 says the world 'x' has 3 ranks, rank 0 registered it with 4: start all ranks with the same world size"
    );
    let foreign = Registration {
        endpoints: vec!["192.0.2.1:5000".parse().unwrap()],
        ..request("x", 4, 1)
    };
    let ControlError::Refused { word, .. } = client.register(&foreign).unwrap_err() else {
        panic!()
    };
    assert_eq!(word, "address-foreign");
    assert!(!waiting.is_finished(), "rank 0 waits on");
}

#[test]
fn draining_answers_the_ranks_that_wait() {
    let (server, _plane) = start(ControlConfig::default());
    let waiting = register(&server, request("x", 2, 0));
    let observer = connect(&server);
    eventually("rank 0 waits", || !observer.status().unwrap().waiting.is_empty());
    server.drain();
    let ControlError::Refused { word, .. } = waiting.join().unwrap().unwrap_err() else {
        panic!()
    };
    assert_eq!(word, "draining");
    let status = observer.status().unwrap();
    assert!(status.waiting.is_empty() && status.draining);
}

#[test]
fn a_broken_connection_withdraws_its_rank() {
    let (server, _plane) = start(ControlConfig::default());
    let relay = common::relay::Relay::to(server.local_addr());
    let client = ControlClient::connect(&relay.address().to_string(), None, TIMEOUT).unwrap();
    let waiting = std::thread::spawn(move || client.register(&request("x", 2, 0)));
    let observer = connect(&server);
    eventually("rank 0 waits", || !observer.status().unwrap().waiting.is_empty());
    drop(relay);
    let error = waiting.join().unwrap().unwrap_err();
    assert!(matches!(error, ControlError::Unreachable { .. }), "{error:?}");
    eventually("rank 0 is withdrawn", || {
        observer.status().unwrap().waiting.is_empty()
    });
    let again = register(&server, request("x", 2, 0));
    assert!(observer.register(&request("x", 2, 1)).is_ok());
    assert!(again.join().unwrap().is_ok(), "another process can take the rank");
}

#[test]
fn a_retry_with_the_same_nonce_gets_the_same_answer() {
    let (server, plane) = start(ControlConfig::default());
    let client = connect(&server);
    let request = request("x", 1, 0);
    let first = client.register(&request).unwrap();
    assert_eq!(connect(&server).register(&request).unwrap(), first);
    assert_eq!(plane.admitted(), 1);
    let other = Registration {
        nonce: request.nonce ^ 1,
        ..request
    };
    let ControlError::Refused { word, .. } = client.register(&other).unwrap_err() else {
        panic!()
    };
    assert_eq!(word, "world-running");
}

#[test]
fn an_abort_reaches_the_others_by_heartbeat_and_ends_their_leaving() {
    let (server, plane) = start(ControlConfig::default());
    let (_, members) = job(&server, "x", 3);
    let client = connect(&server);
    assert_eq!(client.heartbeat(members[0], 3).unwrap(), Pulse::Ok);
    let leaving = std::thread::spawn({
        let (client, member) = (client.clone(), members[2]);
        move || client.leave(member, TIMEOUT)
    });
    eventually("rank 2 leaves", || {
        client.status().unwrap().jobs[0].ranks[2].state == RankState::Left
    });
    client.abort(members[1], "disk full").unwrap();
    let Pulse::Aborted(reason) = client.heartbeat(members[0], 4).unwrap() else {
        panic!("must be aborted")
    };
    assert_eq!((reason.rank, reason.kind), (Some(1), AbortKind::Reported));
    assert_eq!(reason.text, "rank 1 failed: disk full");
    let left = leaving.join().unwrap().unwrap();
    assert_eq!((left.remaining, left.aborted.as_ref()), (2, Some(&reason)));
    assert_eq!(*plane.aborted.lock().unwrap(), [reason]);
}

#[test]
fn a_silent_rank_is_named_and_the_job_reclaimed() {
    let (server, plane) = start(impatient());
    let (_, members) = job(&server, "x", 2);
    let client = connect(&server);
    let mut reason = None;
    eventually("rank 1 is lost", || {
        match client.heartbeat(members[0], 0).unwrap() {
            Pulse::Aborted(why) => {
                reason = Some(why);
                true
            }
            _ => false,
        }
    });
    let text = reason.unwrap().text;
    assert!(
        text.starts_with("rank 1 (127.0.0.1:5001) not heard for 0."),
        "{text}"
    );
    eventually("the job is forgotten", || {
        client.heartbeat(members[0], 0).unwrap() == Pulse::UnknownJob
    });
    assert_eq!(plane.admitted(), 0);
    assert!(matches!(
        client.leave(members[0], TIMEOUT),
        Err(ControlError::UnknownJob { .. })
    ));
}

#[test]
fn leaving_waits_for_all_or_for_the_deadline() {
    let (server, plane) = start(ControlConfig::default());
    let (_, members) = job(&server, "x", 2);
    let client = connect(&server);
    let before = Instant::now();
    let left = client.leave(members[0], Duration::from_millis(200)).unwrap();
    assert_eq!((left.remaining, left.aborted), (1, None));
    assert!(before.elapsed() >= Duration::from_millis(200));
    let again = std::thread::spawn({
        let (client, member) = (client.clone(), members[0]);
        move || client.leave(member, TIMEOUT)
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!again.is_finished());
    assert_eq!(client.leave(members[1], TIMEOUT).unwrap().remaining, 0);
    assert_eq!(again.join().unwrap().unwrap().remaining, 0);
    assert_eq!(plane.admitted(), 0);
}

#[test]
fn the_status_shows_the_host_and_its_jobs() {
    let (server, plane) = start(ControlConfig::default());
    let (terms, members) = job(&server, "x", 2);
    let client = connect(&server);
    client.heartbeat(members[1], 42).unwrap();
    let status = client.status().unwrap();
    assert_eq!(status.description, client.describe().unwrap());
    assert_eq!(status.description.host, plane.capabilities);
    assert_eq!(
        status.description.host.memory_per_shard - status.description.memory_free,
        agg_control::slot_memory(terms.lanes, terms.window, terms.generations)
    );
    let shown = &status.jobs[0];
    assert_eq!(
        (shown.name.as_str(), shown.size, shown.lanes, shown.window),
        ("x", 2, terms.lanes, terms.window)
    );
    assert_eq!(shown.ranks[0].state, RankState::Registered);
    assert_eq!(
        (shown.ranks[1].state, shown.ranks[1].progress),
        (RankState::Running, 42)
    );
    assert_eq!(shown.ranks[1].address, SocketAddr::from(([127, 0, 0, 1], 5001)));
    assert_eq!(status.total, [("merged".to_string(), 21)]);
    assert_eq!(status.shards.len(), 2);
}

#[test]
fn a_stranger_is_refused() {
    let (server, _plane) = start(ControlConfig::default());
    let (_, members) = job(&server, "x", 1);
    let stranger = Member {
        nonce: members[0].nonce ^ 1,
        ..members[0]
    };
    let ControlError::Refused { word, .. } = connect(&server).abort(stranger, "ha").unwrap_err() else {
        panic!()
    };
    assert_eq!(word, "not-a-member");
}

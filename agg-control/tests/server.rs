//! Starting, reaching and stopping the service.

mod common;

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use agg_control::{ControlClient, ControlConfig, ControlError, Pulse, serve};
use common::plane::FakePlane;
use common::{TIMEOUT, connect, eventually, job, register, request, start};

#[test]
fn an_absent_aggregator_is_named_with_advice() {
    // Bound but not listening anywhere near: the port is known to be free once the listener is gone.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ControlClient::connect(&address.to_string(), None, Duration::from_millis(150)).unwrap_err();
    assert!(matches!(error, ControlError::Unreachable { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "no aggregator answers at {address} (Connection refused (os error 111)): is `tributary serve` running \
             there?"
        )
    );
}

#[test]
fn a_client_may_start_before_the_aggregator() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let early = std::thread::spawn(move || ControlClient::connect(&address.to_string(), None, TIMEOUT));
    std::thread::sleep(Duration::from_millis(150));
    let _server = serve(address, FakePlane::shared(), ControlConfig::default()).unwrap();
    assert!(early.join().unwrap().is_ok());
}

#[test]
fn something_else_on_the_port_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example.org ESMTP\r\n").unwrap();
    });
    let error = ControlClient::connect(&address.to_string(), None, TIMEOUT).unwrap_err();
    assert!(matches!(error, ControlError::Handshake { .. }), "{error:?}");
}

#[test]
fn addresses_without_a_port_are_refused() {
    for address in ["10.0.0.1", "", "a b:1"] {
        let error = ControlClient::connect(address, None, TIMEOUT).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{address:?} is not an address of an aggregator: write host:port, for example 10.0.0.1:4600"
            )
        );
    }
}

#[test]
fn a_taken_port_is_an_error_at_once() {
    let (server, _plane) = start(ControlConfig::default());
    let error = serve(server.local_addr(), FakePlane::shared(), ControlConfig::default())
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .starts_with(&format!("cannot listen on {}", server.local_addr())),
        "{error}"
    );
}

#[test]
fn shutdown_answers_who_waits_and_ends_the_jobs() {
    let (server, plane) = start(ControlConfig::default());
    let (_, members) = job(&server, "x", 2);
    let client = connect(&server);
    let waiting = register(&server, request("y", 2, 0));
    let leaving = std::thread::spawn({
        let (client, member) = (client.clone(), members[0]);
        move || client.leave(member, TIMEOUT)
    });
    eventually("both wait", || {
        let status = client.status().unwrap();
        !status.waiting.is_empty() && status.jobs[0].ranks[0].state == agg_control::RankState::Left
    });
    let before = Instant::now();
    server.shutdown();
    assert!(
        before.elapsed() < Duration::from_secs(4),
        "{:?}",
        before.elapsed()
    );
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the aggregator is shutting down: use another aggregator or try again after its restart"
    );
    let left = leaving.join().unwrap().unwrap();
    assert_eq!(left.aborted.unwrap().kind, agg_control::AbortKind::Shutdown);
    assert_eq!(plane.admitted(), 0);
    assert!(matches!(client.describe(), Err(ControlError::Unreachable { .. })));
}

#[test]
fn a_client_reconnects_to_a_restarted_aggregator() {
    let (server, _plane) = start(ControlConfig::default());
    let (_, members) = job(&server, "x", 1);
    let (client, address) = (connect(&server), server.local_addr());
    drop(server);
    let mut restarted = None;
    eventually("the port is free", || {
        restarted = serve(address, FakePlane::shared(), ControlConfig::default()).ok();
        restarted.is_some()
    });
    // The first call may still meet the old connection.
    eventually("the client is back", || client.describe().is_ok());
    assert_eq!(client.heartbeat(members[0], 0).unwrap(), Pulse::UnknownJob);
}

#[test]
fn clients_work_inside_of_another_runtime() {
    let (server, _plane) = start(ControlConfig::default());
    let address: SocketAddr = server.local_addr();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = ControlClient::connect(&address.to_string(), None, TIMEOUT).unwrap();
        assert!(client.describe().is_ok());
    });
}

/// What a browser or Prometheus gets.
fn http(address: SocketAddr, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_show_what_a_status_does() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let (server, _plane) = start(ControlConfig {
        metrics: Some(any),
        ..ControlConfig::default()
    });
    let address = server.metrics_addr().unwrap();
    let _job = job(&server, "with \"quotes\"", 2);
    let page = http(address, "/metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(
        page.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{page}"
    );
    for line in [
        "# TYPE tributary_jobs_running gauge",
        "tributary_jobs_running 1.0",
        r#"tributary_job_ranks{world="with \"quotes\""} 2.0"#,
        r#"tributary_rank_lag_seconds{world="with \"quotes\"",rank="1"}"#,
        "# TYPE tributary_events counter",
        r#"tributary_events_total{shard="0",event=""#,
        "# UNIT tributary_slot_memory_bytes bytes",
        "# EOF",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    assert!(http(address, "/").starts_with("HTTP/1.1 404"));
    drop(server);
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "it ends with the service"
    );
}

#[test]
fn a_port_for_metrics_that_is_taken_is_an_error_at_once() {
    let (server, _plane) = start(ControlConfig::default());
    let config = ControlConfig {
        metrics: Some(server.local_addr()),
        ..ControlConfig::default()
    };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let error = serve(any, FakePlane::shared(), config).err().unwrap().to_string();
    assert!(
        error.starts_with(&format!("cannot listen on {}", server.local_addr())),
        "{error}"
    );
}

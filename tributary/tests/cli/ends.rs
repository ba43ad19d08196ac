//! However a command ends, its processes end with it.

use std::net::TcpListener;
use std::process::Command;

use rustix::process::{Signal, kill_process};

use crate::support::{Running, assert_all_end, serve, start};

fn endless_bench() -> Running {
    start(&[
        "bench",
        "allreduce",
        "--workers",
        "3",
        "--bytes",
        "1MiB",
        "--iterations",
        "1000000",
    ])
}

#[test]
fn a_killed_worker_is_reported_once() {
    let bench = endless_bench();
    let workers = bench.workers(3);
    kill_process(workers[1], Signal::KILL).unwrap();
    let outcome = bench.end();
    assert_eq!(outcome.status.code(), Some(1));
    let line = outcome.error_line();
    assert!(
        line.contains("SIGKILL") && line.contains(&workers[1].as_raw_nonzero().to_string()),
        "{line}"
    );
    assert_all_end(&workers);
}

#[test]
fn a_failing_worker_is_shown_once() {
    let server = serve();
    let demo = start(&[
        "demo",
        "--aggregator",
        &server.control,
        "--epochs",
        "200",
        "--workers",
        "3",
        "--timeout",
        "1",
    ]);
    let workers = demo.workers(3);
    let status = || crate::support::succeed(&["status", "--aggregator", &server.control]);
    crate::support::wait_for(status, |text| text.contains("slots completed"));
    server.signal(Signal::KILL);
    let outcome = demo.end();
    assert_eq!(outcome.status.code(), Some(1));
    assert!(outcome.error_line().contains(&server.data), "{outcome:?}");
    assert_all_end(&workers);
}

#[test]
fn interrupts_end_all_workers() {
    for signal in [Signal::INT, Signal::TERM] {
        let bench = endless_bench();
        let workers = bench.workers(3);
        bench.signal(signal);
        let outcome = bench.end();
        assert_eq!(
            (outcome.status.code(), outcome.error_line().as_str()),
            (Some(130), "tributary: interrupted")
        );
        assert_all_end(&workers);
    }
}

#[test]
fn a_demo_can_be_interrupted() {
    let demo = start(&["demo", "--epochs", "1000"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    demo.signal(Signal::INT);
    let outcome = demo.end();
    assert_eq!(
        (outcome.status.code(), outcome.error_line().as_str()),
        (Some(130), "tributary: interrupted")
    );
}

#[test]
fn who_waits_for_an_aggregator_can_be_interrupted() {
    let commands: [&[&str]; 3] = [
        &["bench", "allreduce", "--workers", "2"],
        &["bench", "allreduce", "--rank", "0", "--world-size", "2"],
        &["demo"],
    ];
    for command in commands {
        // It is connected to, and says nothing.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let waiting = start(&[command, &["--aggregator", &address]].concat());
        let _connection = silent.accept().unwrap();
        waiting.signal(Signal::TERM);
        let outcome = waiting.end();
        assert_eq!(
            (outcome.status.code(), outcome.error_line().as_str()),
            (Some(130), "tributary: interrupted"),
            "{command:?}"
        );
    }
}

/// Here by a file that is not there yet; most often, by much memory.
#[test]
fn an_aggregator_that_takes_long_to_start_can_be_stopped() {
    let folder = std::env::temp_dir().join(format!("tributary-ends-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (pipe, config) = (folder.join("cert.pem"), folder.join("host.toml"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = pipe.display();
    let text = format!("[control.tls]\ncert = '{path}'\nkey = '{path}'\nclient_ca = '{path}'\n");
    std::fs::write(&config, text).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let serve = start(&[
            "serve",
            "--control-addr",
            "127.0.0.1:0",
            "--data-addr",
            "127.0.0.1:0",
            "--config",
            config.to_str().unwrap(),
        ]);
        // Opens when it is opened for reading.
        let _writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        serve.signal(signal);
        let outcome = serve.end();
        assert!(outcome.status.success(), "{outcome:?}");
        assert_eq!(outcome.stderr, "stopping: it had not started yet\n");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn workers_do_not_outlive_their_parent() {
    let bench = endless_bench();
    let workers = bench.workers(3);
    bench.signal(Signal::KILL);
    bench.end();
    assert_all_end(&workers);
}

#[test]
fn an_aggregator_ends_cleanly() {
    for signal in [Signal::INT, Signal::TERM] {
        let server = serve();
        server.signal(signal);
        let (status, said) = server.end();
        assert!(status.success() && !said.contains("panic"), "{status} {said}");
    }
}

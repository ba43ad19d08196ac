//! However a command ends, its processes end with it.

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

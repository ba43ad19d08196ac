//! Ranks that are started one by one, as on many hosts.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Running, Server, fail, serve, start, wait_for};

fn rank(server: &Server, rank: &str, size: &str, more: &[&str]) -> Running {
    let args = [
        "bench",
        "allreduce",
        "--aggregator",
        &server.control,
        "--rank",
        rank,
        "--world-size",
        size,
    ];
    start(&[&args[..], &["--timeout", "2"], more].concat())
}

/// Ranks 0 and 1 of a world that sums for ever, and `count` of them in all; in the middle of it.
fn busy(server: &Server, count: usize) -> Vec<Running> {
    let long = ["--bytes", "1MiB", "--iterations", "1000000"];
    let size = count.to_string();
    let ranks = (0..count)
        .map(|number| rank(server, &number.to_string(), &size, &long))
        .collect();
    let status = || crate::support::succeed(&["status", "--aggregator", &server.control]);
    wait_for(status, |text| text.contains("slots completed"));
    ranks
}

#[test]
fn rank_0_shows_the_figures() {
    let server = serve();
    let more = ["--bytes", "100k,4", "--iterations", "3", "--world", "two"];
    let [first, second] = ["0", "1"]
        .map(|number| rank(&server, number, "2", &more))
        .map(Running::end);
    assert!(
        first.status.success() && second.status.success(),
        "{first:?} {second:?}"
    );
    assert!(
        first.stdout.contains("Gbit/s") && first.stderr.is_empty(),
        "{first:?}"
    );
    assert!(
        second.stdout.is_empty() && second.stderr.contains("rank 0 shows"),
        "{second:?}"
    );
}

#[test]
fn sizes_that_disagree_are_both_named() {
    let server = serve();
    let first = rank(&server, "0", "3", &[]);
    let status = || crate::support::succeed(&["status", "--aggregator", &server.control]);
    wait_for(status, |text| text.contains("missing ranks"));
    let args = [
        "--aggregator",
        &server.control,
        "--rank",
        "1",
        "--world-size",
        "2",
    ];
    let line = fail(&[&["bench", "allreduce"], &args[..]].concat(), 1);
    assert!(
        line.contains("2 ranks") && line.contains('3') && line.contains("same world size"),
        "{line}"
    );
    drop(first);
}

#[test]
fn tensors_that_disagree_are_told_to_both() {
    let server = serve();
    let ranks =
        [("0", "4k"), ("1", "8k")].map(|(number, bytes)| rank(&server, number, "2", &["--bytes", bytes]));
    for outcome in ranks.map(Running::end) {
        assert_eq!(outcome.status.code(), Some(1));
        assert!(outcome.error_line().contains("disagree"), "{outcome:?}");
    }
}

#[test]
fn a_killed_rank_is_named_by_the_others_in_time() {
    let server = serve();
    let mut ranks = busy(&server, 3);
    let begun = Instant::now();
    ranks.pop().unwrap().signal(Signal::KILL);
    for outcome in ranks.into_iter().map(Running::end) {
        assert_eq!(outcome.status.code(), Some(1));
        assert!(outcome.error_line().contains("rank 2"), "{outcome:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

#[test]
fn a_world_that_may_shrink_goes_on_without_a_killed_rank() {
    let server = serve();
    // Long enough for the aggregator to give the rank up.
    let more = [
        "--on-lost",
        "shrink",
        "--bytes",
        "4k",
        "--iterations",
        "10000",
        "--json",
    ];
    let ranks = ["0", "1", "2"].map(|number| rank(&server, number, "3", &more));
    let status = || crate::support::succeed(&["status", "--aggregator", &server.control]);
    wait_for(status, |text| text.contains("slots completed"));
    let [first, second, third] = ranks;
    third.signal(Signal::KILL);
    for (number, outcome) in [first, second].map(Running::end).into_iter().enumerate() {
        assert!(outcome.status.success(), "{outcome:?}");
        assert!(
            outcome.stderr.contains("lost: rank 2; going on with 2 ranks"),
            "{outcome:?}"
        );
        let report: serde_json::Value = match number {
            0 => serde_json::from_str(&outcome.stdout).unwrap(),
            _ => continue,
        };
        assert_eq!(
            (&report["lost"][0], report["per_rank"].as_array().unwrap().len()),
            (&2.into(), 2)
        );
    }
}

#[test]
fn a_killed_aggregator_is_named_in_time() {
    let server = serve();
    let ranks = busy(&server, 2);
    let begun = Instant::now();
    server.signal(Signal::KILL);
    for outcome in ranks.into_iter().map(Running::end) {
        assert_eq!(outcome.status.code(), Some(1));
        let line = outcome.error_line();
        assert!(
            line.contains(&server.data) && line.contains("has not answered for 2.0 s"),
            "{line}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[test]
fn an_interrupted_rank_tells_the_others() {
    let server = serve();
    let mut ranks = busy(&server, 2);
    ranks[0].signal(Signal::INT);
    let second = ranks.pop().unwrap().end();
    let first = ranks.pop().unwrap().end();
    assert_eq!(
        (first.status.code(), first.error_line().as_str()),
        (Some(130), "tributary: interrupted")
    );
    assert!(
        second.error_line().contains("rank 0") && second.status.code() == Some(1),
        "{second:?}"
    );
}

#[test]
fn a_rank_that_waits_can_be_interrupted() {
    let server = serve();
    let waiting = rank(&server, "0", "2", &[]);
    let status = || crate::support::succeed(&["status", "--aggregator", &server.control]);
    wait_for(status, |text| text.contains("missing ranks"));
    waiting.signal(Signal::INT);
    let outcome = waiting.end();
    assert_eq!(
        (outcome.status.code(), outcome.error_line().as_str()),
        (Some(130), "tributary: interrupted")
    );
}

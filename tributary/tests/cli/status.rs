//! What `status` shows.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{serve, start, succeed};

#[test]
fn jobs_ranks_and_waiting_worlds_are_shown() {
    let server = serve();
    let status = || succeed(&["status", "--aggregator", &server.control]);
    assert!(status().contains("no jobs") && status().contains("no packets yet"));

    let rank = ["bench", "allreduce", "--aggregator", &server.control, "--rank"];
    let waiting = start(&[&rank[..], &["1", "--world-size", "3", "--world", "early"]].concat());
    let long = [
        "--world-size",
        "2",
        "--world",
        "busy",
        "--iterations",
        "1000000",
        "--bytes",
        "4k",
    ];
    let ranks = ["0", "1"].map(|number| start(&[&rank[..], &[number], &long].concat()));
    let text = crate::support::wait_for(status, |text| text.contains("running") && text.contains("early"));
    for part in [
        "world 'busy': 2 ranks",
        "missing ranks",
        "0, 2",
        "slots completed",
        "udp aggregator",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    let json: Value =
        serde_json::from_str(&succeed(&["status", "--aggregator", &server.control, "--json"])).unwrap();
    assert_eq!(json["jobs"][0]["world"], "busy");
    assert_eq!(json["jobs"][0]["ranks"].as_array().unwrap().len(), 2);
    assert_eq!(json["waiting"][0]["missing"], Value::from(vec![0, 2]));
    assert!(json["total"]["slots_completed"].as_u64() > Some(0));

    for running in ranks {
        running.signal(Signal::INT);
        running.end();
    }
    drop(waiting);
}
